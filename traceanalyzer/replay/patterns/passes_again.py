"""Backward passes through one graph, one after the other: a Jacobian row by row, a Hessian, gradients of
each output by itself.

Autograd numbers the nodes of its graph. One number that comes several times in a step is a node that
several backward passes went through; layers, steps of a sequence and parts of a batch have numbers of
their own."""

import numpy as np

from traceanalyzer.analysis.algebra import at
from traceanalyzer.base import dataclass
from traceanalyzer.replay.patterns.repeats import codes
from traceanalyzer.replay.tape import Tape
from traceanalyzer.trace import I64, Bool

FEWEST_PASSES = 4
"""A graph that is gone through two or three times belongs to several losses."""


@dataclass(frozen=True, eq=False)
class PassesAgain:
    """The backward passes of a tape through graphs that others went through before in the step."""

    first: Bool  # ops of the first pass through each node
    again: Bool  # ops of the others, and what is launched between them
    count: I64  # for each op of a first pass how many go through its node, 1 for others


def passes_again(tape: Tape) -> PassesAgain | None:
    """Such passes; None without any."""
    return tape.memo(_passes_again)


def _passes_again(tape: Tape) -> PassesAgain | None:
    turn, count = _turns(tape)
    many = count >= FEWEST_PASSES
    first = many & (turn == 0)
    again = many & (turn > 0)
    if not again.any():
        return None
    return PassesAgain(first, again | _between(tape, first, again), np.where(first, count, 1))


def _turns(tape: Tape) -> tuple[I64, I64]:
    """For each op the place of its backward pass among those through the same node of the graph in a
    step, and how many there are; 0 and 1 of what is in none."""
    linked = tape.source.linked
    ranges = linked.trace.host_ranges
    outer = tape.of_launches(linked.tree.outer_operator)
    row = at(linked.tree.row, outer, -1)
    number = np.where(tape.in_backward, at(ranges.sequence, row, -1), -1)
    turn = np.zeros(len(number), np.int64)
    count = np.ones(len(number), np.int64)
    numbered = np.flatnonzero(number >= 0)
    if not len(numbered):
        return turn, count
    columns = (tape.step_of_op, at(ranges.forward_thread, row, -1), number)
    kinds = codes(*(column[numbered] for column in columns))
    passes = np.stack((kinds, outer[numbered]))
    calls, place = np.unique(passes, axis=1, return_inverse=True)
    begins = np.searchsorted(calls[0], calls[0])
    turn[numbered] = (np.arange(len(begins)) - begins)[place]
    count[numbered] = np.bincount(calls[0])[kinds]
    return turn, count


def _between(tape: Tape, first: Bool, again: Bool) -> Bool:
    """Ops between two of these passes, of one graph: what begins each, and puts its result away.
    More ops than a pass has are of another graph, such as that of the gradients themselves."""
    graph = np.cumsum(first)
    index = np.arange(len(again))
    before = np.maximum.accumulate(np.where(again, index, -1))
    coming = np.where(again, index, len(index))[::-1]
    after = np.minimum.accumulate(coming)[::-1]
    inside = (before >= 0) & (after < len(index))
    last = np.maximum(before, 0)
    following = np.minimum(after, len(index) - 1)
    step = tape.step_of_op
    inside &= ~again & (graph[last] == graph[following]) & (step[last] == step[following])
    run = np.cumsum(np.diff(inside, prepend=False))
    length = np.bincount(run[inside], minlength=int(run.max(initial=0)) + 1)
    return inside & (length[run] * tape.steps <= int(first.sum()))
