from __future__ import annotations

from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from traceanalyzer.analysis.algebra import lookup
from traceanalyzer.analysis.algebra.lookup import (
    at,
    first_with,
    isin,
    isin_few,
    local_searchsorted,
    look_up,
)

numbers = st.lists(st.integers(-3, 9), max_size=8)
ids = st.lists(st.integers(-1, 9) | st.sampled_from([2**40, 2**40 + 1]), max_size=12)


@given(numbers, numbers)
def test_each_value_is_found_where_it_stands_first(keys: list[int], wanted: list[int]) -> None:
    keys.sort()
    expected = [keys.index(value) if value in keys else -1 for value in wanted]
    assert look_up(np.array(keys, np.int64), np.array(wanted, np.int64)).tolist() == expected


@pytest.mark.parametrize("side", ["left", "right"])
@given(numbers, numbers)
def test_places_are_those_of_searchsorted(side, keys: list[int], values: list[int]) -> None:
    ordered = np.array(sorted(keys), np.int64)
    asked = np.array(values, np.int64)
    with patch.multiple(lookup, AT_ONCE=2, FEW=1):
        assert (
            local_searchsorted(ordered, asked, side).tolist()
            == np.searchsorted(ordered, asked, side).tolist()
        )


@pytest.mark.parametrize("side", ["left", "right"])
@given(numbers, st.lists(st.integers(-4, 10), max_size=40))
def test_places_of_ascending_values_are_those_of_searchsorted(
    side, keys: list[int], values: list[int]
) -> None:
    """Few keys, about as many as values, and many more."""
    asked = np.array(sorted(values), np.int64)
    for times in (0, 1, 12):
        ordered = np.array(sorted(keys * times), np.int64)
        with patch.multiple(lookup, AT_ONCE=32, FEW=1):
            assert (
                local_searchsorted(ordered, asked, side).tolist()
                == np.searchsorted(ordered, asked, side).tolist()
            )


@given(ids, ids, st.data())
def test_of_several_rows_with_a_key_the_first_preferred_one_is_found(keys, wanted, data) -> None:
    preferred = data.draw(st.lists(st.booleans(), min_size=len(keys), max_size=len(keys)))

    def row(value: int) -> int:
        rows = [i for i, key in enumerate(keys) if key == value > 0]
        return min(rows, key=lambda i: (not preferred[i], i), default=-1)

    found = first_with(
        np.array(keys, np.int64), np.array(wanted, np.int64), np.array(preferred, bool)
    )
    assert found.tolist() == [row(value) for value in wanted]


def test_what_is_nowhere_gets_the_other_value() -> None:
    assert at(np.array([5, 6], np.int32), np.array([1, -1, 0]), -1).tolist() == [6, -1, 5]
    assert at(np.array([], bool), np.array([-1, -1]), False).tolist() == [False, False]
    assert isin_few(np.array([1, 2, 3, 2], np.uint8), (2, 7)).tolist() == [False, True, False, True]


@given(st.lists(st.integers(-5, 2**40)), st.lists(st.integers(-5, 9)))
def test_isin_is_that_of_numpy(values: list[int], wanted: list[int]) -> None:
    column = np.array(values, np.int64)
    assert isin(column, np.array(wanted, np.int64)).tolist() == np.isin(column, wanted).tolist()
