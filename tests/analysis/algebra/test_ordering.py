from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from traceanalyzer.analysis.algebra.columns import compact
from traceanalyzer.analysis.algebra.lookup import largest, sorted_values, where_changed
from traceanalyzer.trace import is_constant, is_sorted, ordered

small = st.integers(0, 4)


@given(st.lists(st.tuples(small, small, st.booleans()), max_size=20))
def test_rows_are_ordered_as_by_lexsort(rows) -> None:
    first, second, third = (
        (np.array(column, np.int64) for column in zip(*rows, strict=True))
        if rows
        else [np.empty(0, np.int64)] * 3
    )
    found = ordered(first, lambda tied: (third[tied], -second[tied]))
    assert found.tolist() == np.lexsort((third, -second, first)).tolist()


@given(st.lists(small, max_size=8))
def test_changes_and_order_of_a_column(values: list[int]) -> None:
    column = np.array(values, np.int64)
    assert sorted_values(column).tolist() == sorted(values)
    assert is_sorted(column) == (values == sorted(values))
    assert where_changed(column).tolist() == [
        i == 0 or values[i - 1] != value for i, value in enumerate(values)
    ]


@given(st.lists(small, max_size=9), st.integers(0, 10))
def test_the_largest_are_those_of_a_stable_sort(values: list[int], count: int) -> None:
    expected = sorted(range(len(values)), key=lambda row: -values[row])[:count]
    assert largest(np.array(values, np.int64), count).tolist() == expected


@given(st.lists(st.integers(-(2**40), 2**40) | st.integers(-3, 3), max_size=6))
def test_a_lean_column_has_the_same_values(values: list[int]) -> None:
    column = compact(np.array(values, np.int64))
    assert column.tolist() == values
    assert not values or is_constant(column) == (len(set(values)) == 1)


def test_one_value_takes_no_memory_whether_it_is_a_number_or_none() -> None:
    assert is_constant(compact(np.full(3, np.nan)))
    assert not is_constant(compact(np.array([np.nan, 0.0])))
    assert compact(np.array([1, -5])).dtype == np.int32
    assert compact(np.array([1, 2**31])).dtype == np.int64
