"""The operators of a tape's steps in the order in which they launch: what loops of a program are found in."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np

from traceanalyzer.analysis.algebra.ordering import where_changed
from traceanalyzer.analysis.replay.on_tape import in_backward, of_launches, of_operators

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from traceanalyzer.analysis.replay.tape import Tape
    from traceanalyzer.trace import I32, I64, Bool

Entry = TypeVar("Entry", bound=np.generic)


class Launching(NamedTuple):
    """Outermost operators that launch something, one entry a call, in launch order; whatever launches outside of
    operators has entries, too, with no node."""

    node: I64
    """Of the host tree, -1 without an operator."""
    first: I64
    """Its first op on the tape: those up to the next entry's are its own."""
    step: I32
    name: I32
    shapes: I32
    """Codes of texts, -1 where there is none."""
    backward: Bool
    """Whether it is part of a backward pass."""

    def of_ops(self, values: NDArray[Entry], count: int) -> NDArray[Entry]:
        """The values, one for each entry, for each of so many ops."""
        return np.repeat(values, np.diff(self.first, append=count))


def launching(tape: Tape) -> Launching:
    """The operators of a tape's steps."""
    ranges = tape.source.trace.host_ranges
    outer = of_launches(tape, tape.source.tree.outer_operator).astype(np.int64)
    step = tape.step_of_op
    new = where_changed(outer) | where_changed(step)
    first = np.flatnonzero(new)
    node = outer[first]
    name, shapes = (of_operators(tape, node, column) for column in (ranges.name, ranges.shapes))
    return Launching(node, first, step[first], name, shapes, in_backward(tape)[first])


class Repeat(NamedTuple):
    """Entries of a sequence that come again and again, right after each other."""

    first: int
    period: int
    times: int


def repeats(code: I64, longest: int, fewest: int, accepted: Callable[[int, int], bool]) -> list[Repeat]:
    """Where at least `fewest` equal stretches of at most `longest` entries follow each other, short ones first;
    `accepted` says whether such a stretch, by its first entry and the one after it, is what is looked for. Stretches
    that are made of equal parts themselves are left out."""
    taken = np.zeros(len(code), bool)
    found: list[Repeat] = []
    for period in range(1, min(longest, len(code) // fewest) + 1):
        for start, times in in_a_row(code, period, taken):
            if times < fewest or made_of_parts(code[start : start + period]):
                continue
            if accepted(start, start + period):
                taken[start : start + period * times] = True
                found.append(Repeat(start, period, times))
    return found


def in_a_row(code: I64, period: int, taken: Bool) -> Iterator[tuple[int, int]]:
    """Where stretches of so many entries, none of them taken yet, equal the one before them: the first entry of the
    first one, and how many they are."""
    same = (code[period:] == code[:-period]) & ~taken[period:] & ~taken[:-period]
    edge = np.flatnonzero(np.diff(np.concatenate(([0], same.astype(np.int8), [0]))))
    for start, stop in zip(edge[::2].tolist(), edge[1::2].tolist(), strict=True):
        yield start, (stop - start) // period + 1


def made_of_parts(code: I64) -> bool:
    """Whether this is one part several times."""
    length = len(code)
    parts = (part for part in range(1, length // 2 + 1) if length % part == 0)
    return any(bool((code[part:] == code[:-part]).all()) for part in parts)


def codes(*columns: I64 | I32) -> I64:
    """A number for each kind of rows that these columns have together."""
    _, code = np.unique(np.stack(columns), axis=1, return_inverse=True)
    result: I64 = code.reshape(-1).astype(np.int64)
    return result
