"""Ops that belong together, and equal stretches of operators right after each other: how loops of a
program look.

Operators stand in the order in which they launch; what makes two of them equal (name, shapes, step)
is told by a code.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.analysis.algebra import where_changed
from traceanalyzer.base import dataclass
from traceanalyzer.replay.patterns.operators import Operator, operators
from traceanalyzer.replay.tape import Tape
from traceanalyzer.trace import I32, I64, Bool, distinct, distinct_places


def each_step(step: I32 | I64, chosen: Bool) -> Iterator[I64]:
    """The chosen entries of each step that has any."""
    for number in distinct(step[chosen]).tolist():
        yield np.flatnonzero(chosen & (step == number))


def forward_of_steps(tape: Tape) -> Iterator[I64]:
    """The outermost operators of each step's forward pass, nodes of the host tree."""
    steps = tape.source.timed.steps
    outer = tape.forward_operators
    called = tape.source.linked.tree.start[outer]
    for step in distinct(steps.of_op[tape.row]).tolist():
        yield outer[(called >= steps.host_start[step]) & (called < steps.host_end[step])]


def after_each(chosen: NDArray[Any]) -> NDArray[Any]:
    """For each entry that of the one before it; False for the first."""
    none = np.zeros(1, chosen.dtype)
    return np.append(none, chosen[:-1])[: len(chosen)]


def split_where(rows: I64, apart: Bool) -> list[I64]:
    """The rows in parts: a new one begins where a row is `apart` (one entry fewer) from the one
    before it."""
    if not len(rows):
        return []
    ends = [0, *(np.flatnonzero(apart) + 1).tolist(), len(rows)]
    return [
        rows[first:stop] for first, stop in pairwise(ends)
    ]  # `np.split` takes ten times as long


def every(rows: Bool, count: int) -> Bool:
    """One of so many of these, from the first on."""
    return rows & ((np.cumsum(rows) - 1) % count == 0)


Entry = TypeVar("Entry", bound=np.generic)
Test = Callable[[Sequence[Operator]], bool]  # whether a stretch of operators is what is looked for


class Launching(NamedTuple):
    """Outermost operators that launch something, one entry a call, in launch order; whatever
    launches outside of operators has entries, too, with no node."""

    node: I64  # of the host tree, -1 without an operator
    first: I64  # its first op on the tape: those up to the next entry's are its own
    step: I32
    name: I32
    shapes: I32  # codes of texts, -1 where there is none
    backward: Bool  # whether it is part of a backward pass

    @property
    def forward(self) -> I64:
        """The entries that are operators outside of the backward pass."""
        return np.flatnonzero(~self.backward & (self.node >= 0))

    def of_ops(self, values: NDArray[Entry], count: int) -> NDArray[Entry]:
        """The values, one for each entry, for each of so many ops."""
        return np.repeat(values, np.diff(self.first, append=count))


def launching(tape: Tape) -> Launching:
    """The operators of a tape's steps."""
    ranges = tape.source.trace.host_ranges
    step = tape.step_of_op
    outer = tape.of_launches(tape.source.linked.tree.outer_operator).astype(np.int64)
    first = np.flatnonzero(where_changed(outer) | where_changed(step))
    node = outer[first]
    name, shapes = (tape.of_operators(node, column) for column in (ranges.name, ranges.shapes))
    return Launching(node, first, step[first], name, shapes, tape.in_backward[first])


class Repeat(NamedTuple):
    """Entries of a sequence that come again and again, right after each other."""

    first: int
    period: int
    times: int

    @property
    def stop(self) -> int:
        """The entry after the last of them."""
        return self.first + self.period * self.times


@dataclass(frozen=True)
class Loop:
    """So many equal stretches at least, of so many operators at most, that are not made of equal
    parts themselves and pass a test."""

    fewest: int
    longest: int
    is_turn: Callable[[Sequence[Operator]], bool]

    def find(self, tape: Tape, nodes: I64, code: I64) -> list[Repeat]:
        """Where these operators, nodes of the host tree with a code each, do so, short stretches
        first."""
        known = operators(tape.source.linked)
        fewest = self.fewest
        taken = np.zeros(len(code), bool)
        found = list[Repeat]()
        for period in range(1, min(self.longest, len(code) // self.fewest) + 1):
            if np.count_nonzero(code[period:] == code[:-period]) < (fewest - 1) * period:
                continue
            for run in in_a_row(code, period, taken):
                turn = slice(run.first, run.first + period)
                enough = run.times >= fewest and period_of(code[turn]) == period
                if enough and self.is_turn(known.of_nodes(nodes[turn])):
                    taken[run.first : run.stop] = True
                    found.append(run)
        return found


def in_a_row(code: I64, period: int, taken: Bool) -> Iterator[Repeat]:
    """Where stretches of so many entries, none of them taken yet, equal the one before them."""
    free = ~taken[period:] & ~taken[:-period]
    same = (code[period:] == code[:-period]) & free
    bounded = np.concatenate(([0], same.astype(np.int8), [0]))
    edge = np.flatnonzero(np.diff(bounded)).tolist()
    for start, stop in zip(edge[::2], edge[1::2], strict=True):
        yield Repeat(start, period, (stop - start) // period + 1)


def by_distance(code: I64, shortest: int, longest: int, most_tried: int) -> list[Repeat]:
    """Stretches of so many entries that come several times in a row and are not made of equal parts
    themselves, as layers are: one of their operators is met once in each, and the distance between
    two of its kind is their length. The commonest distances are tried."""
    order = np.argsort(code, kind="stable")
    apart = np.diff(order)[code[order][1:] == code[order][:-1]]
    periods, often = np.unique(apart[(apart >= shortest) & (apart <= longest)], return_counts=True)
    found = list[Repeat]()
    taken = np.zeros(len(code), bool)
    commonest = periods[np.argsort(-often, kind="stable")][:most_tried]
    for period in np.sort(commonest).tolist():
        for run in in_a_row(code, period, taken):
            if run.times > 1 and period_of(code[run.first : run.first + period]) == period:
                taken[run.first : run.stop] = True
                found.append(run)
    return found


def latest(code: I64, run: Repeat) -> Repeat:
    """A run from the last place at which as many stretches can begin: where the one before it ends
    as all of them do, it may begin later than it seems to."""
    after = code[run.stop :][: run.period]
    alike = after == code[run.first :][: len(after)]
    later = len(after) if alike.all() else int(alike.argmin())
    return run._replace(first=run.first + later)


def period_of(code: I32 | I64) -> int:
    """After how many entries these repeat themselves, their number where they do not."""
    length = len(code)
    parts = (part for part in range(1, length // 2 + 1) if length % part == 0)
    repeating = (part for part in parts if (code[part:] == code[:-part]).all())
    return next(repeating, length)


def codes(*columns: I64 | I32) -> I64:
    """A number for each kind of rows that these columns have together."""
    code = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        values, place = distinct_places(column)
        code = distinct_places(code * len(values) + place)[1].astype(np.int64)
    return code
