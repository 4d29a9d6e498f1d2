"""Exact algebra of half-open time intervals [start, end), int64 ns, by sorting and prefix sums.

A *set* is a pair of arrays (starts, ends), sorted, disjoint and non-empty in each interval; `union`
makes one from any intervals, all but `shared_time` take and return sets."""

from typing import NamedTuple

import numpy as np

from traceanalyzer.analysis.algebra.blocks import blocks, blockwise
from traceanalyzer.analysis.algebra.lookup import local_searchsorted
from traceanalyzer.trace import F64, I64, Bool, distinct, is_sorted

FEW = 64  # for so many times fewer times than intervals lengths are added up to these times alone
SPARSE = 8  # so many times fewer intervals than windows leave most windows empty


class IntervalSet(NamedTuple):
    """Sorted, disjoint, non-empty half-open intervals."""

    start: I64
    end: I64

    @property
    def total(self) -> int:
        """Length of the set, ns."""
        parts = (self.select(rows) for rows in blocks(len(self.start)))
        return sum(int((part.end - part.start).sum()) for part in parts)

    def total_within(self, window: tuple[int, int]) -> int:
        """Length of what lies in the window, ns."""
        near = self.select(_near(self, window))
        if not len(near.start) or window[1] <= window[0]:
            return 0
        return (
            near.total
            - max(window[0] - int(near.start[0]), 0)
            - max(int(near.end[-1]) - window[1], 0)
        )

    def select(self, rows: I64 | Bool | slice) -> "IntervalSet":
        """The chosen intervals; rows in ascending order."""
        return IntervalSet(self.start[rows], self.end[rows])


EMPTY = IntervalSet(np.empty(0, np.int64), np.empty(0, np.int64))


def union(start: I64, end: I64) -> IntervalSet:
    """The set covered by any of the intervals. Touching intervals merge; empty ones vanish."""
    keep = end > start
    if not keep.all():
        start = start[keep]
        end = end[keep]
    if not len(start):
        return EMPTY
    if np.any(start[1:] < start[:-1]):
        order = np.argsort(start, kind="stable")
        start = start[order]
        end = end[order]
    apart = start[1:] > end[:-1]
    if apart.all():
        return IntervalSet(start, end)  # no copy: columns of a trace may be millions of rows long
    reach = np.maximum.accumulate(end)
    np.greater(start[1:], reach[:-1], out=apart)
    return IntervalSet(start[np.append(True, apart)], reach[np.append(apart, True)])


def complement(within: tuple[int, int], a: IntervalSet) -> IntervalSet:
    """What of the window `within` the set does not cover."""
    a = clip(a, within)
    start = np.concatenate((np.array([within[0]], np.int64), a.end))
    end = np.concatenate((a.start, np.array([within[1]], np.int64)))
    keep = end > start
    return IntervalSet(start[keep], end[keep])


def clip(a: IntervalSet, within: tuple[int, int]) -> IntervalSet:
    """The part of the set inside the window."""
    if not len(a.start):
        return a
    first, last = within
    if a.start[0] >= first and a.end[-1] <= last:
        return a
    near = a.select(_near(a, within))
    if not len(near.start) or last <= first:
        return EMPTY
    start = near.start.copy()
    end = near.end.copy()
    start[0] = max(int(start[0]), first)
    end[-1] = min(int(end[-1]), last)
    return IntervalSet(start, end)


def _near(a: IntervalSet, window: tuple[int, int]) -> slice:
    """The intervals of which any part lies in the window."""
    return slice(
        int(np.searchsorted(a.end, window[0], side="right")),
        int(np.searchsorted(a.start, window[1])),
    )


def join(*sets: IntervalSet) -> IntervalSet:
    """The union of sets."""
    sets = tuple(one for one in sets if len(one.start))
    if not sets:
        return EMPTY
    if len(sets) == 1:
        return union(*sets[0])
    start = np.concatenate([one.start for one in sets])
    end = np.concatenate([one.end for one in sets])
    return union(start, end)


def subtract(a: IntervalSet, b: IntervalSet) -> IntervalSet:
    """What is in `a` and not in `b`."""
    if not len(a.start) or not len(b.start):
        return a
    first = int(min(a.start[0], b.start[0]))
    last = int(max(a.end[-1], b.end[-1]))
    return intersect(a, complement((first, last), b))


def intersect(a: IntervalSet, b: IntervalSet) -> IntervalSet:
    """What is in both sets."""
    return overlaps(a, b)[1]


def overlaps(a: IntervalSet, b: IntervalSet) -> tuple[I64, IntervalSet]:
    """What is in both sets, and for each interval of it the one of `b` in which it lies. Intervals
    of `b` may touch.

    Quick where `a` has few intervals, however many `b` has."""
    if not len(a.start) or not len(b.start):
        return np.empty(0, np.int64), EMPTY
    first = local_searchsorted(b.end, a.start, side="right")
    count = np.maximum(local_searchsorted(b.start, a.end, side="left") - first, 0)
    if int(count.max()) <= 1:  # most are asked for what lies within few
        of_a = np.flatnonzero(count)
        of_b = first[of_a]
    else:
        of_a = np.repeat(np.arange(len(count)), count)
        of_b = np.repeat(first - (np.cumsum(count) - count), count)
        of_b += np.arange(len(of_b))
    start = a.start[of_a]
    end = a.end[of_a]
    del of_a
    np.maximum(start, b.start[of_b], out=start)
    np.minimum(end, b.end[of_b], out=end)
    return of_b, IntervalSet(start, end)


def contains(a: IntervalSet, times: I64) -> Bool:
    """Which of these times lie in the set."""
    if not len(a.start):
        return np.zeros(len(times), bool)
    return blockwise(
        lambda time: (
            local_searchsorted(a.start, time, side="right")
            > local_searchsorted(a.end, time, side="right")
        ),
        times,
    )


def covered_before(a: IntervalSet, times: I64) -> I64:
    """For each time, how much of the set lies before it, ns."""
    if not len(a.start):
        return np.zeros(len(times), np.int64)
    if len(times) * FEW < len(a.start):
        count = local_searchsorted(a.start, times, side="right")
        edges = distinct(np.append(count, 0))
        inside = edges[edges < len(a.start)]
        between = np.add.reduceat(a.end, inside) - np.add.reduceat(
            a.start, inside
        )  # sums may wrap, differences do not
        return np.append(0, np.cumsum(between))[np.searchsorted(edges, count)] - _beyond(
            a, count, times
        )
    lengths = np.zeros(len(a.start) + 1, np.int64)
    np.subtract(a.end, a.start, out=lengths[1:])
    np.cumsum(lengths, out=lengths)

    def before(time: I64) -> I64:
        count = local_searchsorted(a.start, time, side="right")
        return lengths[count] - _beyond(a, count, time)

    return blockwise(before, times)


def _beyond(a: IntervalSet, count: I64, times: I64) -> I64:
    """How much of the last of the first so many intervals lies after each of these times, ns."""
    beyond = a.end[np.maximum(count - 1, 0)] - times
    beyond[count == 0] = 0
    return np.maximum(beyond, 0, out=beyond)


def measure(a: IntervalSet, start: I64, end: I64) -> I64:
    """How much of the set lies in each window [start, end), ns. Windows may overlap and come in any
    order."""
    if not len(start):
        return np.empty(0, np.int64)
    first = min(start.min(), end.min())
    last = max(start.max(), end.max())
    near = a.select(_near(a, (first, last)))
    if len(near.start) * SPARSE < len(start) and _in_order(start, end):
        rows = _touched(near, start, end)
        result = np.zeros(len(start), np.int64)
        result[rows] = _covered(near, start[rows], end[rows])
        return result
    return _covered(near, start, end)


def _covered(a: IntervalSet, start: I64, end: I64) -> I64:
    """How much of the set lies in each window."""
    result = covered_before(a, end)
    result -= covered_before(a, start)
    return result


def _in_order(start: I64, end: I64) -> bool:
    """Whether windows start and end one after the other."""
    return is_sorted(start) and is_sorted(end) and bool((start <= end).all())


def _touched(a: IntervalSet, start: I64, end: I64) -> I64:
    """The windows, which are in order, in which any part of the set may lie."""
    change = np.zeros(len(start) + 1, np.int64)
    np.add.at(change, np.searchsorted(end, a.start, side="right"), 1)
    np.add.at(change, np.searchsorted(start, a.end, side="left"), -1)
    return np.flatnonzero(np.cumsum(change[:-1]))


def shared_time(start: I64, end: I64, within: IntervalSet) -> F64:
    """How much of the set each interval covers, ns; a moment covered by n of the intervals counts
    1/n for each.

    The result sums to the part of the set that any of the intervals covers."""
    if not len(start):
        return np.empty(0, np.float64)
    if (start[1:] >= end[:-1]).all():  # none side by side
        return measure(within, start, end).astype(np.float64)
    edges = distinct(np.concatenate((start, end)))
    first = local_searchsorted(edges, start)
    last = local_searchsorted(edges, end)
    begun = np.bincount(first, None, len(edges))
    ended = np.bincount(last, None, len(edges))
    running = np.cumsum(begun - ended)[:-1]
    shares = measure(within, edges[:-1], edges[1:]) / np.maximum(running, 1)
    before = np.append(0.0, np.cumsum(shares))
    return before[last] - before[first]
