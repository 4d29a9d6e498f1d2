"""Which operators run in the backward pass, and which autograd node each forward operator gave rise
to."""

from collections.abc import Iterator

import numpy as np

from traceanalyzer.analysis.algebra import at, look_up, texts_where
from traceanalyzer.analysis.joined.linked import TraceJoins
from traceanalyzer.analysis.names.pytorch import AUTOGRAD_PREFIX
from traceanalyzer.base import dataclass, regex
from traceanalyzer.trace import I32, I64, Bool, RangeKind, distinct

INTO_A_VIEW = "torch::autograd::CopySlices"
"""The autograd node of writing into a part of a tensor: it has the number after that of the
operator which writes."""
FORWARD_ONLY = regex(
    r"^aten::(linear|addmm|conv\dd|convolution|layer_norm|native_layer_norm|batch_norm|group_norm|embedding|rms_norm"
    r"|scaled_dot_product_attention|gelu|silu|relu|dropout|softmax|log_softmax|cross_entropy_loss)$"
)
"""Operators that modules call and that no derivative formula does (derivatives.yaml)."""


def is_autograd(linked: TraceJoins) -> Bool:
    """Which host ranges are autograd nodes."""
    ranges = linked.trace.host_ranges
    named = texts_where(linked.trace.strings, lambda text: text.startswith(AUTOGRAD_PREFIX))
    return (ranges.forward_thread > 0) | named[ranges.name]


def in_backward(linked: TraceJoins) -> Bool:
    """Which nodes of the host tree are, or lie inside, autograd nodes."""
    return linked.tree.innermost(linked.tree.of_ranges(is_autograd(linked), False)) >= 0


def run_again(linked: TraceJoins) -> Bool:
    """Which nodes of the host tree are, or lie inside, operators of a forward pass that run again
    in the backward pass (activation checkpointing).

    Autograd numbers what makes nodes of its graph, and a backward pass makes none: its numbered
    operators are a forward pass. One of them has to be no part of any derivative's formula, or they
    are the graph of a second derivative. What runs there without a number is the formula of a
    function of the program's own, which may use any operator. In a recording without numbers
    operators of no formula tell alone: with what an autograd node does up to the last of them."""
    tree = linked.tree
    table = linked.trace.host_ranges
    backward = linked.memo(in_backward)
    forward = tree.named(texts_where(linked.trace.strings, FORWARD_ONLY.match)) & backward
    if not forward.any():
        return forward
    autograd = tree.of_ranges(is_autograd(linked), False)
    around = tree.innermost(autograd)
    is_operator = (tree.kind == RangeKind.OP) & ~autograd
    has_number = is_operator & (tree.of_ranges(table.sequence, -1) >= 0)
    if has_number.any():
        numbered = has_number & backward
        again = np.zeros(len(backward), bool)
        again[around[forward & numbered]] = True
        return tree.innermost(numbered & again[around]) >= 0
    last = np.full(len(backward) + 1, -1, np.int64)
    rows = np.flatnonzero(forward)
    np.maximum.at(last, around[rows], tree.subtree_end[rows])
    return (np.arange(len(backward)) < last[around]) & ~autograd


def backward_time(linked: TraceJoins, device_own: I64, backward: Bool, node: I32 | I64) -> I64:
    """For each of these nodes of the host tree the device total, ns, of the autograd nodes that the
    forward operators in its subtree gave rise to; -1 where there is none. `device_own`: device time
    of what each node of the tree itself launched; `backward`: which nodes are in the backward pass.

    Autograd numbers its nodes by thread. Of the operators that carry a number the last to start
    made the node: those around it began when that number was still the next to be given. An
    autograd node names its forward thread by an id of the profiler's; the thread meant is the one
    whose operators carry most of its numbers."""
    tree = linked.tree
    if not (linked.trace.host_ranges.forward_thread > 0).any():
        return np.full(len(node), -1, np.int64)
    autograd, pairs = _pairs(linked, backward)
    known = pairs >= 0
    time = np.zeros(len(tree.start), np.int64)
    joined = np.zeros(len(tree.start), bool)
    np.add.at(time, pairs[known], tree.subtree_sum(device_own, autograd[known]))
    joined[pairs[known]] = True
    none = tree.subtree_sum(joined, node) == 0
    del joined
    result = tree.subtree_sum(time, node)
    result[none] = -1
    return result


def made_by(linked: TraceJoins, nodes: Bool) -> Bool:
    """Which nodes of the host tree lie in autograd nodes that forward operators among `nodes` gave
    rise to."""
    result = np.zeros(len(nodes), bool)
    if nodes.any():
        autograd, pairs = _pairs(linked, linked.memo(in_backward))
        result[autograd[(pairs >= 0) & nodes[np.maximum(pairs, 0)]]] = True
        result = linked.tree.innermost(result) >= 0
    return result


def forward_makers(linked: TraceJoins) -> I64:
    """For each node of the host tree the forward operator that made the autograd node it lies in,
    -1 without."""
    maker = np.full(len(linked.tree.start), -1, np.int64)
    autograd, pairs = _pairs(linked, linked.memo(in_backward))
    maker[autograd] = pairs
    return at(maker, linked.tree.innermost(maker >= 0), -1)


def _pairs(linked: TraceJoins, backward: Bool) -> tuple[I64, I64]:
    """The outermost autograd nodes that carry a number, and for each the forward operator that made
    it, -1 where it was not recorded."""
    tree = linked.tree
    ranges = linked.trace.host_ranges
    numbered = tree.of_ranges((ranges.kind == RangeKind.OP) & (ranges.sequence >= 0), False)
    autograd = numbered & tree.of_ranges(ranges.forward_thread > 0, False)
    outermost = np.flatnonzero(autograd)
    outermost = outermost[tree.outermost(autograd)[outermost] == outermost]
    makers = list(_makers(linked, np.flatnonzero(numbered & ~backward)))
    result = np.full(len(outermost), -1, np.int64)
    if not makers:
        return outermost, result
    after = texts_where(linked.trace.strings, lambda text: text.endswith(INTO_A_VIEW))
    row = tree.row[outermost]
    number = ranges.sequence[row] - after[ranges.name[row]]
    named_thread = ranges.forward_thread[row]
    for thread in distinct(named_thread):
        rows = np.flatnonzero(named_thread == thread)
        matches = [at(maker.node, look_up(maker.number, number[rows]), -1) for maker in makers]
        result[rows] = max(matches, key=lambda found: int((found >= 0).sum()))
    return outermost, result


@dataclass(frozen=True, eq=False)
class _Makers:
    """The forward operators of a thread that made nodes of the autograd graph."""

    number: I64  # of the autograd nodes, ascending
    node: I64  # the last operator with each


def _makers(linked: TraceJoins, forward: I64) -> Iterator[_Makers]:
    """The makers among these forward operators, thread by thread."""
    tree = linked.tree
    sequence = linked.trace.host_ranges.sequence
    for thread in distinct(tree.thread[forward]):
        nodes = forward[tree.thread[forward] == thread]
        carried = sequence[tree.row[nodes]]
        order = np.lexsort((nodes, carried))
        last = order[np.flatnonzero(np.diff(carried[order], append=np.int64(-1)))]
        yield _Makers(carried[last], nodes[last])
