from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from traceanalyzer.trace import constant_column
from traceanalyzer.trace.table import distinct, distinct_places

near = st.lists(st.integers(-3, 9), max_size=40)
wide = st.lists(st.integers(-(2**62), 2**62), max_size=12).map(lambda values: values + values[:3])


@given(near | wide)
def test_distinct_values_are_those_that_sorting_finds(values: list[int]) -> None:
    column = np.array(values, np.int64)
    found, place = distinct_places(column)
    assert found.tolist() == distinct(column).tolist() == sorted(set(values))
    assert found[place].tolist() == values


@pytest.mark.parametrize("dtype", [np.bool_, np.uint8, np.int16, np.int32])
def test_the_type_stays(dtype: type[np.generic]) -> None:
    column = np.array([1, 0, 1], dtype)
    assert distinct(column).dtype == distinct_places(column)[0].dtype == dtype
    assert distinct(column).tolist() == [0, 1]
    assert distinct_places(column)[1].tolist() == [1, 0, 1]


def test_of_a_column_of_one_value_that_value_is_found() -> None:
    assert distinct(constant_column(7, 3, np.int32)).tolist() == [7]
    assert not distinct(constant_column(7, 0, np.int32)).size
