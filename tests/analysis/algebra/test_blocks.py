"""What is computed some rows at a time is what is computed of all rows at once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from traceanalyzer.analysis.algebra import blocks
from traceanalyzer.analysis.algebra.blocks import (
    RowNumbers,
    Rows,
    blockwise,
    blockwise_found,
    in_blocks,
    running_sums,
    scatter,
)

COLUMNS = (
    st.lists(st.integers(-50, 50), max_size=40).map(np.array).map(lambda a: a.astype(np.int64))
)


@pytest.fixture(autouse=True, scope="module")
def short() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "AT_ONCE", 7)
        yield


@given(COLUMNS)
def test_row_by_row(values: Any) -> None:
    assert np.array_equal(blockwise(lambda a, b: a * b, values, values), values * values)
    number, negative = blockwise(lambda row, a: (row, a < 0), RowNumbers(len(values)), values)
    assert np.array_equal(number, np.arange(len(values)))
    assert np.array_equal(negative, values < 0)
    assert np.array_equal(blockwise(lambda rows: values[rows], Rows(len(values))), values)


def test_the_widest_type_that_any_rows_need_holds_all() -> None:
    values = np.arange(20)
    made = blockwise(lambda a: a.astype(np.int16) if a[0] < 7 else a.astype(np.int64) << 40, values)
    assert made.dtype == np.int64
    assert made[[0, 6, 7]].tolist() == [0, 6, 7 << 40]


@given(COLUMNS)
def test_what_is_found_comes_in_order(values: Any) -> None:
    assert np.array_equal(blockwise_found(lambda a: a[a > 0], values), values[values > 0])
    one, other = blockwise_found(lambda a: (a[a > 0], -a[a > 0]), values)
    assert np.array_equal(one, -other)
    assert sum(in_blocks(len, values)) == len(values)


@given(COLUMNS)
def test_what_is_put_into_places(values: Any) -> None:
    most = scatter(np.maximum, np.full(3, -99), lambda a: (a % 3, a), values)
    assert most.tolist() == [
        max([-99, *values[values % 3 == place].tolist()]) for place in range(3)
    ]
    assert scatter(np.add, np.zeros(3, int), lambda a: (a % 3, 1), values).sum() == len(values)


@given(COLUMNS)
def test_sums_of_the_rows_before(values: Any) -> None:
    sums = running_sums(lambda rows: values[rows].astype(float), Rows(len(values)))
    assert sums.tolist() == [0.0, *np.cumsum(values).tolist()]
