"""A model that is called several times in a row, each time on inputs of its own, in one call.

Layers repeat alike, too, but each needs what the one before it found, and so do steps of a forecast. Calls that do not
are told by shapes. Either no call gives what the next one takes, as where views of one picture are compared: the
input's shape is not met in a call any more once the model has taken it, and its result has another size. Or the calls
give what they take, but the program, which learns nothing, works on these tensors between runs of calls only, and then
puts the results of a run together, as where a prompt guides a sampler. Longer runs may be time steps: `independent`
tells those that only share their weights.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

import numpy as np

from traceanalyzer.analysis.replay.changes.edits import with_dispatch
from traceanalyzer.analysis.replay.changes.loops.ensembles import given_by
from traceanalyzer.analysis.replay.changes.loops.independent import Operator, independent, met_again
from traceanalyzer.analysis.replay.changes.repetition import joined, mostly_small
from traceanalyzer.analysis.replay.changes.sequences import Repeat, codes, in_a_row, launching, made_of_parts
from traceanalyzer.analysis.replay.on_tape import backward_of, forward_operators
from traceanalyzer.analysis.roofline.op_models.tensors import Tensor, parse_inputs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from traceanalyzer.analysis.replay.changes.sequences import Launching
    from traceanalyzer.analysis.replay.tape import Tape
    from traceanalyzer.analysis.roofline.op_models.tensors import Shape
    from traceanalyzer.trace import I64, Bool

MOST_CALLS = 4
"""More calls in a row may be time steps, of which each needs the one before it."""
SHORTEST_CALL, LONGEST_CALL = 24, 1000
"""Launching operators of a call: shorter ones may be blocks of a model."""
MOST_PERIODS = 100
"""Lengths of calls that are tried, the commonest of what they may be."""
FEWEST_WEIGHTS = 6
"""Operators with weights of a call at least."""
PUTS_TOGETHER = re.compile(r"^aten::(add|sub|mul|div|lerp|addcmul|rsub)_?$")


def twins_joined(tape: Tape) -> Tape | None:
    """Calls of a model that follow each other are one, for so many times the data; None without any."""
    calls = launching(tape)
    rows = np.flatnonzero(~calls.backward & (calls.node >= 0))
    found = _twins(tape, calls, rows)
    if not found:
        return None
    first, others = np.zeros((2, len(calls.node)), bool)
    count, spent = np.ones(len(calls.node), np.int64), _dispatch(tape, calls)
    usual = spent.copy()
    for start, period, number in found:
        mine = rows[start : start + period * number]
        first[mine[:period]], others[mine[period:]], count[mine] = True, True, number
        usual[mine[:period]] = np.median(spent[mine].reshape(number, period)[1:], axis=0)
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
    tree = tape.source.tree
    nodes_of = np.zeros(len(tree.start) + 1, bool)
    nodes_of[_with_views(tape, calls, chosen)] = True
    return calls.of_ops(chosen, len(tape.row)), backward_of(tape, nodes_of[tree.outer_operator])


def _with_views(tape: Tape, calls: Launching, chosen: Bool) -> I64:
    """The nodes of these operators, and of those right before them that launch nothing: views, whose backward pass
    may launch something."""
    outer, launches = forward_operators(tape), np.sort(calls.node[(calls.node >= 0) & ~calls.backward])
    place = np.searchsorted(launches, outer)
    following = launches[np.minimum(place, len(launches) - 1)]
    result: I64 = outer[(place < len(launches)) & np.isin(following, calls.node[chosen])]
    return result


def _twins(tape: Tape, calls: Launching, rows: I64) -> list[Repeat]:
    """Runs of calls, each on inputs of its own, among these operators."""
    code = codes(calls.name[rows], calls.shapes[rows], calls.step[rows])
    known: dict[tuple[int, int], Operator] = {}
    operators = [
        _operator(tape, known, *one) for one in zip(calls.name[rows].tolist(), calls.shapes[rows].tolist(), strict=True)
    ]
    weights = np.cumsum([0, *(one.has_weights for one in operators)])

    def with_weights(runs: Iterable[Repeat]) -> list[Repeat]:
        return [run for run in runs if weights[run.first + run.period] - weights[run.first] >= FEWEST_WEIGHTS]

    found = [run for run in with_weights(_repeated(code)) if run.times <= MOST_CALLS]
    learns = bool(calls.backward.any())
    inside = sum(int(weights[run.first + run.period * run.times] - weights[run.first]) for run in found)
    alone = not learns and inside == int(weights[-1])
    few = _accepted(
        code, found, lambda run: _of_other_size(operators, run) or (alone and _put_together(operators, run))
    )
    if few:
        return few
    name = codes(calls.name[rows], calls.step[rows])
    steps = calls.step[rows]
    return _accepted(name, with_weights(_repeated(name)), lambda run: independent(operators, steps, run))


def _accepted(code: I64, runs: Iterable[Repeat], test: Callable[[Repeat], bool]) -> list[Repeat]:
    """The runs that pass the test, from where they do: a run may begin later than it seems to, where the call before
    it, on an input of another size, ends as all of them do."""
    placed = (next(filter(test, dict.fromkeys((run, _latest(code, run)))), None) for run in runs)
    return [run for run in placed if run is not None]


def _latest(code: I64, run: Repeat) -> Repeat:
    """The same run from the last place at which as many calls can begin."""
    after = code[run.first + run.period * run.times :][: run.period]
    alike = after == code[run.first :][: len(after)]
    return run._replace(first=run.first + (len(after) if alike.all() else int(alike.argmin())))


def _repeated(code: I64) -> list[Repeat]:
    """Stretches that come several times in a row and are not made of equal parts themselves, as layers are: so one of
    their operators is met once in each, and the distance between two of its kind is the stretch's length."""
    order = np.argsort(code, kind="stable")
    apart = np.diff(order)[code[order][1:] == code[order][:-1]]
    periods, often = np.unique(apart[(apart >= SHORTEST_CALL) & (apart <= LONGEST_CALL)], return_counts=True)
    found, taken = [], np.zeros(len(code), bool)
    for period in np.sort(periods[np.argsort(-often, kind="stable")][:MOST_PERIODS]).tolist():
        for start, count in in_a_row(code, period, taken):
            if count > 1 and not made_of_parts(code[start : start + period]):
                taken[start : start + period * count] = True
                found.append(Repeat(start, period, count))
    return found


def _operator(tape: Tape, known: dict[tuple[int, int], Operator], name: int, shapes: int) -> Operator:
    if (name, shapes) not in known:
        trace = tape.source.trace
        inputs = parse_inputs(trace.text(shapes) or "", None, None) or (None,)
        single = tuple(one.shape for one in inputs if isinstance(one, Tensor))
        listed = tuple(one.shape for one in inputs[0]) if isinstance(inputs[0], tuple) else ()
        known[name, shapes] = Operator(trace.text(name) or "", single, listed)
    return known[name, shapes]


def _taken(operators: list[Operator]) -> Shape | None:
    """The shape of what the first operator with weights takes."""
    first = next(one for one in operators if one.has_weights)
    return first.shapes[0] if first.shapes and "embedding" not in first.name else None


def _of_other_size(operators: list[Operator], run: Repeat) -> bool:
    """Whether no call gives what the next one takes."""
    call = operators[run.first : run.first + run.period]
    taken, given = _taken(call), given_by(call[-1].name, list(call[-1].shapes))
    if taken is None or given is None or math.prod(taken) == math.prod(given):
        return False
    return not met_again(call, taken)


def _put_together(operators: list[Operator], run: Repeat) -> bool:
    """Whether results of the calls are put together after them, and what they take is worked on nowhere within."""
    call, stop = operators[run.first : run.first + run.period], run.first + run.period * run.times
    taken = _taken(call)
    if taken is None or any(taken in one.shapes and not one.has_weights for one in call):
        return False
    after = operators[stop : stop + run.times]
    return any(PUTS_TOGETHER.match(one.name) and one.shapes.count(taken) > 1 for one in after)
