"""The joined rows of a trace: who launched what, which calls block, which copies bring input."""

import re
from functools import cached_property

import numpy as np

from traceanalyzer.analysis.algebra import at, flat, texts_where
from traceanalyzer.analysis.joined.backward import in_backward, run_again
from traceanalyzer.analysis.joined.blocking import blocking_calls
from traceanalyzer.analysis.joined.linked import Linked, Memo, launch_nodes
from traceanalyzer.analysis.joined.origins import Origins
from traceanalyzer.analysis.joined.python_stacks import PythonStacks
from traceanalyzer.analysis.names.framework import Framework
from traceanalyzer.analysis.names.pytorch import COPYING, FRAMEWORK
from traceanalyzer.base import dataclass
from traceanalyzer.trace import I32, Bool, CopyKind, RangeKind, Trace, distinct

INPUT_BYTES = 4096
"""A host-to-device copy of at least this many bytes carries data; smaller ones carry scalars and pointers."""


@dataclass(frozen=True, eq=False)
class Joined(Memo):
    """The joins that are made from the joins of the rows."""

    linked: Linked

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
        """For each device op the node of the host tree that launched it, -1 where the recording does not tell."""
        return launch_nodes(self.linked)

    @cached_property
    def in_backward(self) -> Bool:
        """Which nodes of the host tree are, or lie inside, autograd nodes."""
        return flat(in_backward(self.linked))

    @cached_property
    def run_again(self) -> Bool:
        """For each node of the host tree, and for none (-1), whether it is of a forward pass that runs again in the
        backward pass."""
        return flat(np.append(run_again(self.linked), False))

    @cached_property
    def blocks(self) -> Bool:
        """Which API calls made the host wait for the device."""
        return flat(blocking_calls(self.linked))

    @cached_property
    def brings_input(self) -> Bool:
        """Which device ops copy data from the host: what the host did before was to prepare it."""
        return flat(self.sent & (self.trace.device_ops.bytes >= INPUT_BYTES))

    @cached_property
    def sent(self) -> Bool:
        """Which device ops are copies from the host that the program asks for itself, of any size."""
        result: Bool = self.trace.device_ops.copy_kind == CopyKind.HOST_TO_DEVICE
        node = self.launch_node
        result &= (node < 0) | (at(self.linked.tree.innermost(self._computing), node, -1) < 0)
        return flat(result)

    @cached_property
    def _computing(self) -> Bool:
        """Which nodes of the host tree are operators that do more than copy."""
        tree = self.linked.tree
        copying = texts_where(self.trace.strings, COPYING.match)
        result: Bool = tree.kind == RangeKind.OP
        result &= ~tree.named(copying)
        return flat(result)

    @cached_property
    def python(self) -> PythonStacks:
        """Python frames, where stacks were recorded."""
        return PythonStacks.build(self.trace)

    @cached_property
    def origins(self) -> Origins:
        """The calls of modules and the lines of Python that device work comes from."""
        return Origins(self.linked, self.launch_node, self.in_backward, self.python)


_JAX = re.compile(r"^(Xla(Module|Launch)|Thunk:|TSL:|PjRt|PjitFunction|jit_|command_buffer::)|hlo_(op|module)|\bjit\(")


def framework(trace: Trace) -> Framework:
    """The framework; names of kernels, ranges and calls are the only evidence, save where XLA itself recorded."""
    names = names_used(trace)
    if any(map(FRAMEWORK.search, names)):
        return Framework.PYTORCH
    return Framework.JAX if trace.source == "xplane" or any(map(_JAX.search, names)) else Framework.CUDA


def names_used(trace: Trace) -> list[str]:
    """The names of what was recorded: kernels, host ranges, projected ranges. An export's strings hold others, too."""
    codes = [distinct(table.name) for table in (trace.device_ops, trace.host_ranges, trace.device_ranges)]
    return [trace.strings[code] for code in distinct(np.concatenate(codes)).tolist() if code >= 0]
