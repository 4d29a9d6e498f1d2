"""A model that is called several times in a row, each on inputs of its own (`patterns.independent`), as one call."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from traceanalyzer.replay.changes.edits import with_dispatch
from traceanalyzer.replay.changes.loops.batch_size import joined, mostly_small
from traceanalyzer.replay.on_tape import backward_of, forward_operators
from traceanalyzer.replay.patterns.independent import has_weights, of_other_size, put_together, share_weights_only
from traceanalyzer.replay.patterns.operators import operators
from traceanalyzer.replay.patterns.repeats import Launching, Repeat, by_distance, codes, latest, launching
from traceanalyzer.replay.tape import Tape
from traceanalyzer.trace import I64, Bool

MOST_CALLS = 4
"""More calls in a row may be time steps, of which each needs the one before it."""
SHORTEST_CALL, LONGEST_CALL = 24, 1000
"""Launching operators of a call: shorter ones may be blocks of a model."""
MOST_PERIODS_TRIED = 100
"""Lengths of calls, the commonest of what they may be."""
FEWEST_WEIGHTS = 6
"""Operators with weights of a call at least."""


def calls_joined(tape: Tape) -> Tape | None:
    """Calls of a model that follow each other are one, for so many times the data; None without any."""
    calls = tape.memo(launching)
    rows = calls.forward
    found = _consecutive(tape, calls, rows)
    if not found:
        return None
    first, others = np.zeros((2, len(calls.node)), bool)
    count, spent = np.ones(len(calls.node), np.int64), _dispatch(tape, calls)
    usual = spent.copy()
    for run in found:
        mine = rows[run.first : run.stop]
        first[mine[: run.period]], others[mine[run.period :]], count[mine] = True, True, run.times
        usual[mine[: run.period]] = np.median(spent[mine].reshape(run.times, run.period)[1:], axis=0)
    kept, learned = _with_backward(tape, calls, first)
    gone = np.logical_or(*_with_backward(tape, calls, others)) & ~kept
    if not mostly_small(tape, gone):
        return None
    many = np.where(learned & ~kept, count.max(), calls.of_ops(count, len(tape.row))).astype(np.float64)
    left = joined(tape, (kept | learned) & ~gone, gone, many, first_is_usual=True)
    share = np.minimum(usual / np.maximum(spent, 1), 1.0)
    dispatch = left.dispatch.astype(np.float64)
    dispatch[tape.event] = left.dispatch[tape.event] * calls.of_ops(share, len(tape.row))
    return with_dispatch(left, dispatch)


def _dispatch(tape: Tape, calls: Launching) -> I64:
    """The host's time for each of these operators, ns."""
    event, at = np.unique(tape.event, return_index=True)
    entry = calls.of_ops(np.arange(len(calls.node)), len(tape.row))[at]
    return np.bincount(entry, tape.dispatch[event], len(calls.node)).astype(np.int64)


def _with_backward(tape: Tape, calls: Launching, chosen: Bool) -> tuple[Bool, Bool]:
    """The ops of these operators, and those that they give rise to in the backward pass."""
    tree = tape.source.linked.tree
    nodes_of = np.zeros(len(tree.start) + 1, bool)
    nodes_of[_with_views(tape, calls, chosen)] = True
    return calls.of_ops(chosen, len(tape.row)), backward_of(tape, nodes_of[tree.outer_operator])


def _with_views(tape: Tape, calls: Launching, chosen: Bool) -> I64:
    """The nodes of these operators, and of those right before them that launch nothing: views, whose backward pass
    may launch something."""
    outer, launches = forward_operators(tape), np.sort(calls.node[calls.forward])
    place = np.searchsorted(launches, outer)
    following = launches[np.minimum(place, len(launches) - 1)]
    return outer[(place < len(launches)) & np.isin(following, calls.node[chosen])]


def _consecutive(tape: Tape, calls: Launching, rows: I64) -> list[Repeat]:
    """Runs of calls, each on inputs of its own, among these operators: a few calls that were recorded alike, else any
    number of those with operators alike that share only their weights."""
    run_of, step = operators(tape.source.linked).of_nodes(calls.node[rows]), calls.step[rows]
    weights = np.cumsum([0, *(has_weights(one) for one in run_of)])

    def repeated(code: I64) -> list[Repeat]:
        runs = by_distance(code, SHORTEST_CALL, LONGEST_CALL, MOST_PERIODS_TRIED)
        return [run for run in runs if weights[run.first + run.period] - weights[run.first] >= FEWEST_WEIGHTS]

    code = codes(calls.name[rows], calls.shapes[rows], step)
    few = [run for run in repeated(code) if run.times <= MOST_CALLS]
    inside = sum(int(weights[run.stop] - weights[run.first]) for run in few)
    alone = not calls.backward.any() and inside == int(weights[-1])
    found = _accepted(code, few, lambda run: of_other_size(run_of, run) or (alone and put_together(run_of, run)))
    if found:
        return found
    name = codes(calls.name[rows], step)
    return _accepted(name, repeated(name), lambda run: share_weights_only(run_of, step, run))


def _accepted(code: I64, runs: list[Repeat], test: Callable[[Repeat], bool]) -> list[Repeat]:
    """The runs that pass the test, from where they do."""
    placed = (next(filter(test, dict.fromkeys((run, latest(code, run)))), None) for run in runs)
    return [run for run in placed if run is not None]
