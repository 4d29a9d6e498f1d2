"""Small networks of one shape that are called one after the other, as one network with batched products.

Layers repeat alike, too, but each needs what the one before it found. An ensemble is known by its shapes: what a member
begins with is not what one ends with, and within a member each operator takes what the one before it gives. And where
each member works on a part of its own number alone, no shapes are needed.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from traceanalyzer.replay.changes.edits import with_dispatch
from traceanalyzer.replay.changes.loops.batch_size import joined, mostly_small
from traceanalyzer.replay.changes.loops.repetition import FEWEST_CALLS
from traceanalyzer.replay.on_tape import backward_of, events_of, forward_operators, in_optimizer, of_launches
from traceanalyzer.replay.patterns.flow import JOINING, is_chain
from traceanalyzer.replay.patterns.named import launched_within
from traceanalyzer.replay.patterns.repeats import Loop, codes
from traceanalyzer.replay.patterns.runs import after_each
from traceanalyzer.replay.tape import Tape
from traceanalyzer.trace import Bool
from traceanalyzer.trace.distinct import distinct

LONGEST_MEMBER_OPERATORS = 64
"""Of a member at most: longer ones are models of their own."""
MOST_ENSEMBLES = 64
"""In a step at most: those of an agent are a handful."""
ENSEMBLE = Loop(fewest=FEWEST_CALLS, longest=LONGEST_MEMBER_OPERATORS, is_turn=is_chain)


class Members(NamedTuple):
    """Ensembles of the steps of a tape."""

    first: Bool
    """Nodes of the host tree that are operators of the first member of each."""
    others: Bool
    """Those of the others."""
    number: float
    """Members of each, in the mean."""


def ensembles_joined(tape: Tape) -> Tape | None:
    """Each ensemble is one network with batched products, forward and backward; None without any."""
    found = members(tape)
    if found is None:
        return None
    kept, gone = (_with_backward(tape, operators) for operators in (found.first, found.others))
    if not mostly_small(tape, gone):
        return None
    gone |= after_each(gone) & launched_within(tape, JOINING)
    return _fewer_tensors(joined(tape, kept & ~gone, gone, found.number), kept | gone, found.number)


def _fewer_tensors(tape: Tape, ensemble: Bool, count: float) -> Tape:
    """The optimizer goes through the weights of one member instead of all, as far as these are the model's."""
    matrix = tape.source.linked.is_matrix[tape.row]
    share = float((matrix & ensemble).sum() / max(matrix.sum(), 1)) * (1.0 - 1.0 / count)
    updating = events_of(tape, in_optimizer(tape))
    left = np.where(updating, 1.0 - share, 1.0)
    return with_dispatch(replace(tape, work=np.rint(tape.work * left).astype(np.int64)), tape.dispatch * left)


def _with_backward(tape: Tape, operators: Bool) -> Bool:
    """The ops of these operators, and those that they give rise to in the backward pass."""
    inside = np.append(operators, False)[tape.source.linked.tree.outer_operator]
    return of_launches(tape, inside) | backward_of(tape, inside)


def members(tape: Tape) -> Members | None:
    """The ensembles of the steps on a tape: at least a handful of members of the same operators and shapes in a row."""
    tree, steps = tape.source.linked.tree, tape.source.timed.steps
    outer = forward_operators(tape)
    ranges, row = tape.source.trace.host_ranges, tree.row[outer]
    code = codes(ranges.name[row], ranges.shapes[row])
    first, others = np.zeros((2, len(tree.start)), bool)
    counts: list[int] = []
    for step in distinct(steps.of_op[tape.row]).tolist():
        begin, end = steps.host_start[step], steps.host_end[step]
        here = np.flatnonzero((tree.start[outer] >= begin) & (tree.start[outer] < end))
        for run in ENSEMBLE.find(tape, outer[here], code[here])[:MOST_ENSEMBLES]:
            first[outer[here[run.first : run.first + run.period]]] = True
            others[outer[here[run.first + run.period : run.stop]]] = True
            counts.append(run.times)
    return Members(first, others, float(np.mean(counts))) if counts else None
