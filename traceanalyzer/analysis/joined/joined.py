"""The joined rows of a trace: who launched what, which calls block, which copies bring input."""

from functools import cached_property

import numpy as np

from traceanalyzer.analysis.algebra import at, dedup_constant, first_alike, look_up, texts_where
from traceanalyzer.analysis.joined.backward import in_backward, run_again
from traceanalyzer.analysis.joined.blocking import blocking_calls
from traceanalyzer.analysis.joined.linked import Memo, TraceJoins
from traceanalyzer.analysis.joined.origins import Origins
from traceanalyzer.analysis.joined.python_stacks import PythonStacks
from traceanalyzer.analysis.names import Framework
from traceanalyzer.analysis.names.api import ApiKind
from traceanalyzer.analysis.names.pytorch import COPYING, FRAMEWORK
from traceanalyzer.base import dataclass, regex
from traceanalyzer.trace import I32, I64, Bool, CopyKind, RangeKind, Trace, distinct

INPUT_BYTES = 4096
"""A host-to-device copy of at least this many bytes carries data; smaller ones carry scalars and
pointers."""


@dataclass(frozen=True, eq=False)
class HostAttribution(Memo):
    """The joins that are made from the joins of the rows."""

    linked: TraceJoins

    @property
    def trace(self) -> Trace:
        """The recording."""
        return self.linked.trace

    @cached_property
    def framework(self) -> Framework:
        """What the program is written in."""
        return framework(self.trace)

    @cached_property
    def launch_node(self) -> I32:
        """For each device op the node of the host tree that launched it (an API call, or the
        operator that carries its external id where the call was not recorded), -1 where the
        recording tells neither."""
        linked = self.linked
        external = self.trace.device_ops.external_id
        result = at(linked.tree.node_of_call, linked.launch, -1)
        others = np.flatnonzero((linked.launch < 0) & (external > 0))
        if len(others):
            result[others] = _by_external_id(linked, external[others])
        replayed = np.flatnonzero(
            (at(linked.api_kind, linked.launch, 0) == ApiKind.GRAPH_LAUNCH) & (external > 0)
        )
        if len(replayed):  # an operator inside the call is one that `graph_names` found
            node = _by_external_id(linked, external[replayed])
            call = result[replayed]
            result[replayed] = np.where(
                (node > call) & (node < linked.tree.subtree_end[call]), node, call
            )
        return result

    @cached_property
    def in_backward(self) -> Bool:
        """Which nodes of the host tree are, or lie inside, autograd nodes."""
        return self.linked.memo(in_backward)

    @cached_property
    def run_again(self) -> Bool:
        """For each node of the host tree, and for none (-1), whether it is of a forward pass that
        runs again in the backward pass."""
        return dedup_constant(np.append(run_again(self.linked), False))

    @cached_property
    def blocks(self) -> Bool:
        """Which API calls made the host wait for the device."""
        return dedup_constant(blocking_calls(self.linked))

    @cached_property
    def is_input_h2d(self) -> Bool:
        """Which device ops copy data from the host: what the host did before was to prepare it."""
        return dedup_constant(self.user_h2d & (self.trace.device_ops.bytes >= INPUT_BYTES))

    @cached_property
    def user_h2d(self) -> Bool:
        """Which device ops are copies from the host that the program asks for itself, of any
        size."""
        tree = self.linked.tree
        computing = (tree.kind == RangeKind.OP) & ~tree.named(
            texts_where(self.trace.strings, COPYING.match)
        )
        around = at(tree.innermost(computing), self.launch_node, -1)
        alone = (self.launch_node < 0) | (around < 0)
        return dedup_constant((self.trace.device_ops.copy_kind == CopyKind.HOST_TO_DEVICE) & alone)

    @cached_property
    def python(self) -> PythonStacks:
        """Python frames, where stacks were recorded."""
        return PythonStacks.build(self.trace)

    @cached_property
    def origins(self) -> Origins:
        """The calls of modules and the lines of Python that device work comes from."""
        return Origins(self.linked, self.launch_node, self.in_backward, self.python)


_JAX = regex(
    r"^(Xla(Module|Launch)|Thunk:|TSL:|PjRt|PjitFunction|jit_|command_buffer::)|hlo_(op|module)|\bjit\("
)


def _by_external_id(linked: TraceJoins, external_id: I64) -> I64:
    """The node of the operator with each of these external ids (an annotation where no operator has
    it), or -1."""
    tree = linked.tree
    ranges = linked.trace.host_ranges
    rows = np.flatnonzero((ranges.external_id > 0) & (tree.node_of_range >= 0))
    is_operator = ranges.kind[rows] == RangeKind.OP
    order = rows[np.lexsort((rows, ~is_operator, ranges.external_id[rows]))]
    return at(tree.node_of_range[order], look_up(ranges.external_id[order], external_id), -1)


def framework(trace: Trace) -> Framework:
    """The framework; names of kernels, ranges and calls are the only evidence, save where XLA
    itself recorded."""
    names = names_used(trace)
    if any(map(FRAMEWORK.search, names)):
        return Framework.PYTORCH
    return (
        Framework.JAX
        if trace.source == "xplane" or any(map(_JAX.search, names))
        else Framework.CUDA
    )


def names_used(trace: Trace) -> list[str]:
    """The names of what was recorded: kernels, host ranges, projected ranges; of many that differ in
    numbers alone the first. An export's strings hold others, too."""
    tables = (trace.device_ops, trace.host_ranges, trace.device_ranges)
    codes = np.concatenate([distinct(table.name) for table in tables])
    alike = first_alike(trace.strings)[codes[codes >= 0]]
    return [trace.strings[code] for code in distinct(alike).tolist()]


Joined = HostAttribution
