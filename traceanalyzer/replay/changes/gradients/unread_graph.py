"""A graph of autograd that no backward pass reads: a model is called with gradients where nothing is
trained (evaluation, serving).

Autograd numbers the nodes that it makes: an operator has the number of the next one. Without
gradients operators have no number, and where no weight asks for a gradient all have the same."""

import numpy as np

from traceanalyzer.analysis.algebra import isin
from traceanalyzer.analysis.joined.backward import is_autograd
from traceanalyzer.analysis.joined.linked import Linked
from traceanalyzer.base import dataclass, regex
from traceanalyzer.replay.patterns.named import kernels_named, operators_named
from traceanalyzer.replay.tape import Tape, parametric, within_optimizer
from traceanalyzer.trace import I64, Bool, RangeKind, distinct

NODE_SHARE = 0.18
"""Share of the host's time for an operator that goes to its node of autograd: to make it, to keep what
it would read, and to free both."""
OPTIMISTIC_NODE_SHARE = 0.27
PESSIMISTIC_NODE_SHARE = 0.09
LEAST_NODES = 32
"""A step with fewer calls no model, or a compiled one, which is one node."""
COPY = regex(r"^aten::clone$")
IN_PLACE = regex(r"^aten::\w*[a-z0-9]_$")
"""Before an operator overwrites a tensor that its backward pass would read, autograd copies it."""
DROPS = regex(r"^aten::(native_dropout|_fused_dropout|feature_dropout|alpha_dropout|bernoulli_)$")
TRAINING_NORMS = regex(r"batch_norm_collect_statistics|bn_fw_tr")
"""Kernels of batch norms that learn from the batch."""


@dataclass(frozen=True, eq=False)
class UnreadGraph:
    """What a step does for a backward pass that never comes."""

    events: Bool  # of the tape: calls within operators that make nodes
    copies: Bool  # ops of the tape that keep a tensor for the backward pass
    nodes: int  # a step, in the mean


def unread_graph(tape: Tape) -> UnreadGraph | None:
    """The nodes that autograd makes where nothing is trained; None where the recording has a backward
    pass, or a model in training mode, or autograd makes few nodes."""
    return tape.memo(_unread_graph)


@parametric
def without_graph(tape: Tape, share: float) -> Tape | None:
    """Autograd makes no node, which is this share of what the host does for an operator, and keeps no
    tensor."""
    graph = unread_graph(tape)
    if graph is None:
        return None
    left = tape.without_launches(graph.copies)
    shorter = left.dispatch * (1.0 - share)
    return left.with_dispatch(np.where(graph.events, shorter, left.dispatch))


def _unread_graph(tape: Tape) -> UnreadGraph | None:
    linked = tape.source.linked
    if is_autograd(linked).any() or linked.memo(within_optimizer).any() or _trains(tape):
        return None
    tree = linked.tree
    makers = _makers(linked)
    steps = tape.source.timed.steps
    begin = tree.start[makers]
    of_steps = distinct(tape.step_of_event)
    first = np.searchsorted(begin, steps.host_start[of_steps])
    last = np.searchsorted(begin, steps.host_end[of_steps])
    counts = last - first
    if not len(counts) or counts.min() < LEAST_NODES:
        return None
    outer = tree.outer_operator
    events = isin(outer[tape.nodes], distinct(outer[makers]))
    return UnreadGraph(events, _kept_copies(tape), int(counts.mean()))


def _makers(linked: Linked) -> I64:
    """Operators that make a node, in the order of their starts: the last of each number."""
    tree = linked.tree
    ranges = linked.trace.host_ranges
    rows = np.flatnonzero((ranges.kind == RangeKind.OP) & (ranges.sequence >= 0))
    order = np.lexsort((ranges.start[rows], ranges.sequence[rows], ranges.thread[rows]))
    rows = rows[order]
    is_last = np.ones(len(rows), bool)
    is_last[:-1] = np.diff(ranges.sequence[rows]) != 0
    is_last[:-1] |= np.diff(ranges.thread[rows]) != 0
    makes = np.zeros(len(ranges), bool)
    makes[rows[is_last]] = True
    makers = np.flatnonzero(tree.of_ranges(makes, False))
    return makers[np.argsort(tree.start[makers], kind="stable")]


def _kept_copies(tape: Tape) -> Bool:
    """Ops of copies that an operator makes of a tensor before it overwrites it."""
    linked = tape.source.linked
    tree = linked.tree
    copies = np.flatnonzero(operators_named(linked, COPY))
    parents = tree.parent[copies]
    in_place = np.append(operators_named(linked, IN_PLACE), False)
    kept = np.zeros(len(tree.start), bool)
    kept[copies[in_place[parents]]] = True
    return tape.of_launches(tree.innermost(kept) >= 0)


def _trains(tape: Tape) -> bool:
    """Whether a model is in training mode: its forward pass was recorded alone."""
    drops = operators_named(tape.source.linked, DROPS)
    return bool(drops.any() or kernels_named(tape, TRAINING_NORMS).any())
