"""Entries that belong together, against the same by loops."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from traceanalyzer.replay.patterns.repeats import after_each, each_step, every, split_where

BOOLS = st.lists(st.booleans(), max_size=12)


@given(st.lists(st.tuples(st.integers(0, 3), st.booleans()), max_size=12))
def test_the_chosen_entries_of_each_step(entries: list[tuple[int, bool]]) -> None:
    step = np.array([one for one, _ in entries], np.int64)
    chosen = np.array([is_ for _, is_ in entries], bool)
    expected = {
        one: [i for i, entry in enumerate(entries) if entry == (one, True)]
        for one, is_ in entries
        if is_
    }
    assert [rows.tolist() for rows in each_step(step, chosen)] == [
        expected[one] for one in sorted(expected)
    ]


@given(BOOLS)
def test_after_each(values: list[bool]) -> None:
    assert after_each(np.array(values, bool)).tolist() == [False, *values][: len(values)]


@given(BOOLS)
def test_parts_are_all_rows_in_order(apart: list[bool]) -> None:
    rows = np.arange(len(apart) + 1) * 3
    parts = split_where(rows, np.array(apart, bool))
    assert np.concatenate(parts).tolist() == rows.tolist()
    assert len(parts) == sum(apart) + 1
    assert split_where(rows[:0], np.zeros(0, bool)) == []


@given(BOOLS, st.integers(1, 4))
def test_one_of_so_many(values: list[bool], count: int) -> None:
    chosen = [i for i, value in enumerate(values) if value]
    assert np.flatnonzero(every(np.array(values, bool), count)).tolist() == chosen[::count]
