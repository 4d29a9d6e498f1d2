"""Interval algebra as properties, against arrays with one boolean a nanosecond."""

from __future__ import annotations

from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from traceanalyzer.analysis.algebra import intervals
from traceanalyzer.analysis.algebra.intervals import (
    EMPTY,
    IntervalSet,
    clip,
    complement,
    covered_before,
    intersect,
    join,
    measure,
    subtract,
    union,
)

LENGTH = 40
"""Nanoseconds of the little world these properties live in."""

OFFSET = 1_790_857_026_000_000_000
"""Wall-clock nanoseconds do not fit a float64: sums and differences must not pass through one."""

times = st.integers(0, LENGTH)
pairs = st.tuples(times, times).map(sorted)
many_pairs = st.lists(pairs, max_size=8)
sets = many_pairs.map(lambda rows: union(*columns(rows)))


def columns(rows) -> tuple[np.ndarray, np.ndarray]:
    table = np.array(rows, np.int64).reshape(-1, 2)
    return table[:, 0], table[:, 1]


def cells(start, end) -> np.ndarray:
    """One boolean a nanosecond: whether any of the intervals covers it."""
    covered = np.zeros(LENGTH, bool)
    for first, last in zip(start, end, strict=True):
        for t in range(first, last):
            covered[t] = True
    return covered


def assert_is_set(a: IntervalSet) -> None:
    assert a.start.dtype == a.end.dtype == np.int64
    assert np.all(a.start < a.end)
    assert np.all(a.end[:-1] <= a.start[1:])


def assert_covers(a: IntervalSet, expected: np.ndarray) -> None:
    assert_is_set(a)
    assert cells(*a).tolist() == expected.tolist()
    assert a.total == expected.sum()


@given(many_pairs)
def test_union_covers_what_any_interval_covers(rows):
    a = union(*columns(rows))
    assert_covers(a, cells(*columns(rows)))
    assert np.all(a.end[:-1] < a.start[1:]), "touching intervals merge"


@given(st.lists(st.tuples(times, times), max_size=8))
def test_union_ignores_reversed_intervals(rows):
    start, end = columns(rows)
    assert_covers(union(start, end), cells(start, end))


@given(many_pairs, st.randoms())
def test_union_does_not_depend_on_the_order(rows, random):
    shuffled = list(rows)
    random.shuffle(shuffled)
    for one, other in zip(union(*columns(rows)), union(*columns(shuffled)), strict=True):
        assert one.tolist() == other.tolist()


@given(sets, pairs)
def test_complement_covers_the_rest_of_the_window(a, window):
    inside = cells([window[0]], [window[1]])
    assert_covers(complement(tuple(window), a), inside & ~cells(*a))


@given(sets, pairs)
def test_clip_keeps_what_is_in_the_window(a, window):
    assert_covers(clip(a, tuple(window)), cells(*a) & cells([window[0]], [window[1]]))


@given(st.lists(sets, min_size=1, max_size=3))
def test_join_covers_what_any_set_covers(several):
    assert_covers(join(*several), np.logical_or.reduce([cells(*a) for a in several]))


@given(sets, sets)
def test_subtract_removes_the_other(a, b):
    assert_covers(subtract(a, b), cells(*a) & ~cells(*b))


@given(sets, sets)
def test_intersect_keeps_what_both_cover(a, b):
    assert_covers(intersect(a, b), cells(*a) & cells(*b))


@given(sets, sets)
def test_exposed_and_hidden_parts_sum_to_the_whole(a, b):
    assert subtract(a, b).total + intersect(a, b).total == a.total
    assert join(a, b).total == a.total + b.total - intersect(a, b).total


@given(sets, st.lists(st.integers(-5, LENGTH + 5), max_size=6))
def test_covered_before_counts_the_cells_to_the_left(a, at):
    covered = cells(*a)
    expected = [int(covered[: max(t, 0)].sum()) for t in at]
    assert covered_before(a, np.array(at, np.int64)).tolist() == expected


@given(sets, many_pairs)
def test_measure_counts_the_cells_of_each_window(a, windows):
    covered = cells(*a)
    expected = [int(covered[first:last].sum()) for first, last in windows]
    assert measure(a, *columns(windows)).tolist() == expected


@given(sets, many_pairs, st.booleans())
def test_windows_that_sparse_intervals_leave_empty_measure_nothing(a, windows, in_order) -> None:
    start, end = columns(windows)
    if in_order:
        start = np.sort(start)
        end = np.maximum.accumulate(np.maximum(np.sort(end), start))
    covered = cells(*a)
    expected = [int(covered[i:j].sum()) for i, j in zip(start, end, strict=True)]
    with patch.object(intervals, "SPARSE", 0):
        assert measure(a, start, end).tolist() == expected


@given(sets, sets, many_pairs)
def test_wall_clock_times_lose_no_nanosecond(a, b, windows):
    def moved(s: IntervalSet) -> IntervalSet:
        return IntervalSet(s.start + OFFSET, s.end + OFFSET)

    for operation in (subtract, intersect, join):
        here = operation(a, b)
        there = operation(moved(a), moved(b))
        assert (there.start - OFFSET).tolist() == here.start.tolist()
        assert (there.end - OFFSET).tolist() == here.end.tolist()
    start, end = columns(windows)
    assert (
        measure(moved(a), start + OFFSET, end + OFFSET).tolist() == measure(a, start, end).tolist()
    )


@pytest.mark.parametrize("operation", [subtract, intersect, join])
def test_nothing_and_nothing_is_nothing(operation):
    assert operation(EMPTY, EMPTY).total == 0


def test_select_takes_intervals_by_row_or_mask():
    a = union(*columns([(0, 1), (2, 3), (4, 5)]))
    assert a.select(np.array([0, 2])).start.tolist() == [0, 4]
    assert a.select(np.array([False, True, False])).end.tolist() == [3]


def test_inputs_are_left_alone():
    start, end = columns([(4, 6), (0, 5)])
    union(start, end)
    assert start.tolist() == [4, 0]
    assert end.tolist() == [6, 5]
