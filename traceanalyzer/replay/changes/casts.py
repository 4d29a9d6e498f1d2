"""Casts between fp32 and 16 bits: those that autocast would add, on the host, and those that were
recorded, which are gone in fp32."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from traceanalyzer.analysis.algebra import Groups, at, texts_where
from traceanalyzer.analysis.joined.backward import forward_makers, is_autograd, made_by
from traceanalyzer.analysis.joined.linked import Linked
from traceanalyzer.analysis.roofline.op_models import Precision
from traceanalyzer.analysis.roofline.op_models.tensors import Tensor, tensors_of
from traceanalyzer.analysis.roofline.rated import Rated
from traceanalyzer.base import dataclass, regex
from traceanalyzer.replay.patterns.autocast import autocasts
from traceanalyzer.replay.patterns.named import operators_named
from traceanalyzer.replay.patterns.operators import COPY
from traceanalyzer.replay.tape import Tape
from traceanalyzer.trace import F64, I64, Bool

OF_USUAL = 0.5
"""What the launch of a cast takes of the host's usual time between two: no line of Python calls it.
Four programs whose host was the limit, timed in fp32 and under autocast: 0.2 to 1.4, in the median
0.5."""
OF_PRODUCT = 2
"""Casts for each product, forward and backward, where operators were not recorded: 1.0 to 2.8 in
twenty programs."""
CAST_BYTES = 4 + 2
"""Of each number that is cast: one of both formats is read, the other written."""
NARROWS = (1_300, 1.13)
WIDENS = (2_600, 2.33)
"""What the shortest casts to 16 bits and to fp32 take, ns, and times as long as their bytes take at
the memory's peak rate what they take beyond that: of 3,500 casts of more than 1 MB that six
programs launched on an H200 (1.08 to 1.21; 2.31 to 2.38, once 2.9)."""
NARROW = (Precision.FP16, Precision.BF16)
CASTS = regex(r"^aten::(to|_to_copy|copy_)$|^autograd::engine::evaluate_function: ToCopyBackward0$")
"""All that the host does for a cast, or for its gradient."""


@dataclass(frozen=True, eq=False)
class AddedCasts:
    """The casts that autocast adds to a tape."""

    launches: F64
    """How many before each event."""
    device_ns: F64
    """What they take on the device before each op, ns."""


def added_casts(tape: Tape) -> AddedCasts | None:
    """The casts that autocast adds to a tape; None where operators do not tell."""
    casts = tape.source.memo(autocasts)
    if not len(casts.nodes):
        return None
    places = _places_of(tape, casts.nodes)
    launches = places.before_events(casts.forward, casts.backward)
    if not launches.any():
        return None
    before = np.where(casts.narrows[:, None], NARROWS, WIDENS).T
    after = np.where(casts.narrows[:, None], WIDENS, NARROWS).T
    started = places.before_events(casts.forward * before[0], casts.backward * after[0])
    numbers = places.before_events(
        casts.forward_numbers * before[1], casts.backward_numbers * after[1]
    )
    events = np.flatnonzero(launches)
    ops = np.minimum(np.searchsorted(tape.event, events), len(tape.row) - 1)
    sums = np.zeros((2, len(tape.row)))
    np.add.at(sums[0], ops, started[events])
    np.add.at(sums[1], ops, numbers[events])
    return AddedCasts(launches, sums[0] + tape.moving_ns(sums[1] * CAST_BYTES))


def with_casts(tape: Tape, products: Bool) -> Tape:
    """The host also launches the casts of autocast, where these products are in 16 bits."""
    added = tape.memo(added_casts)
    usual = OF_USUAL * tape.median_dispatch_ns
    if added is not None:
        return tape.with_dispatch(tape.dispatch + usual * added.launches)
    return tape.with_dispatch(tape.dispatch + usual * OF_PRODUCT * tape.events_of(products))


def works_in_fp32(tape: Tape) -> Bool:
    """Which ops work on fp32 numbers under autocast, too: those of operators that it gives fp32 to,
    or that combine fp32 with 16 bits, and of their gradients."""
    return at(tape.source.memo(_wide), tape.source.joined.launch_node[tape.row], False)


def _wide(source: Rated) -> Bool:
    """Which nodes of the host tree work on fp32 numbers under autocast."""
    casts = source.memo(autocasts)
    linked = source.linked
    wide = np.zeros(len(linked.tree.start), bool)
    wide[casts.nodes[casts.wide]] = True
    wide = linked.tree.innermost(wide) >= 0
    return wide | made_by(linked, wide)


class _CastPlaces(NamedTuple):
    """Where operators' casts stand on a tape: none of an operator that was recorded with them."""

    events: int
    operator: I64  # places of the operators without casts
    before: I64  # the first event of each
    maker: I64  # places of those that have a gradient
    after: I64  # the first event of each gradient

    def before_events(self, forward: F64, backward: F64) -> F64:
        """What is added for each operator before it and after its gradient, by the event that
        follows."""
        total = np.zeros(self.events + 1)
        np.add.at(total, self.before, forward[self.operator])
        np.add.at(total, self.after, backward[self.maker])
        return total[:-1]


def _places_of(tape: Tape, nodes: I64) -> _CastPlaces:
    """Of these operators, nodes of the host tree in order."""
    linked = tape.source.linked
    start = linked.tree.start
    operator = np.flatnonzero(linked.tree.subtree_sum(linked.memo(_casting), nodes) == 0)
    makers, gradients = _gradients(tape, nodes[operator])
    return _CastPlaces(
        len(tape.dispatch),
        operator,
        _first_event(tape, start[nodes[operator]]),
        np.searchsorted(nodes, makers),
        _first_event(tape, start[gradients]),
    )


def _first_event(tape: Tape, times: I64) -> I64:
    """The first event at each of these times or after it; one after the last where it is not part
    of the tape."""
    called = tape.source.trace.api_calls.start[tape.call]
    within = times >= called[0] - tape.host_before_event[0]
    return np.where(within, np.searchsorted(called, times), len(called))


def _gradients(tape: Tape, operators: I64) -> tuple[I64, I64]:
    """The operators of these that have a gradient, and the first autograd node of each, as nodes
    of the host tree."""
    linked = tape.source.linked
    tree = linked.tree
    chosen = np.zeros(len(tree.start), bool)
    chosen[operators] = True
    autograd = np.flatnonzero(tree.of_ranges(is_autograd(linked), False))
    maker = at(tree.innermost(chosen), at(forward_makers(linked), autograd, -1), -1)
    autograd = autograd[maker >= 0]
    makers, first = np.unique(maker[maker >= 0], return_index=True)
    return makers.astype(np.int64), autograd[first]


def without_casts(tape: Tape) -> Tape:
    """All tensors are in fp32: none is cast from it to 16 bits, or back. What the host does before a
    cast, as lines of Python that call the operator that it is for, stays."""
    source = tape.source
    casting = source.linked.memo(_casting)
    launching = source.joined.launch_node[tape.row]
    operator = at(source.linked.tree.operator, launching, -1)
    gone = tape.compute & at(casting, operator, False)
    alone = tape.events_of_only(gone)
    left = 1.0 - tape.share_within_ranges(_ranges_of(source.linked, casting))
    silent = replace(tape.without(gone), waits=tape.waits & ~alone)
    return silent.with_dispatch(tape.dispatch * left)


def _ranges_of(linked: Linked, casting: Bool) -> Bool:
    """Which host ranges are there for nothing but these casts, nodes of the host tree."""
    tree = linked.tree
    nodes = np.flatnonzero(tree.named(texts_where(linked.trace.strings, CASTS.match)))
    nodes = nodes[tree.subtree_sum(casting, nodes) > 0]
    ranges = np.zeros(len(linked.trace.host_ranges.start), bool)
    ranges[tree.row[nodes]] = True
    return ranges


def _casting(linked: Linked) -> Bool:
    """Nodes of the host tree that copy a tensor of fp32 to one of 16 bits, or the other way."""
    ranges = linked.trace.host_ranges
    copies = operators_named(linked, COPY)
    rows = linked.tree.row[copies]
    shapes, dtypes = ranges.shapes[rows], ranges.dtypes[rows]
    groups = Groups.of(shapes, dtypes)
    text = linked.trace.text
    casts = [
        _are_cast(tensors_of(text(int(shapes[row])), text(int(dtypes[row]))))
        for row in groups.first
    ]
    found = np.zeros(len(copies), bool)
    found[copies] = np.array(casts, bool)[groups.index]
    return found


def _are_cast(tensors: Sequence[Tensor]) -> bool:
    """Whether the first two tensors, of a copy, are in fp32 and in 16 bits."""
    formats = {tensor.dtype.precision for tensor in tensors[:2]}
    return Precision.FP32 in formats and bool(formats.intersection(NARROW))
