from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from traceanalyzer.analysis.algebra import median_of, percentiles

WHOLE = st.lists(st.integers(-(2**40), 2**50), min_size=1, max_size=30)
TIMES = st.lists(st.floats(0, 1e9), min_size=1, max_size=30)
WANTED = st.lists(st.sampled_from([0, 1, 5, 33.3, 50, 90, 95, 99, 100]), min_size=1, max_size=4)


@given(WHOLE.map(np.array) | TIMES.map(np.array), WANTED)
def test_they_are_those_of_numpy(values: np.ndarray, wanted: list[float]) -> None:
    assert percentiles(values, *wanted) == np.percentile(values, wanted).tolist()


@given(WHOLE.map(np.array) | TIMES.map(np.array))
def test_the_median_is_that_of_numpy(values: np.ndarray) -> None:
    assert median_of(values) == np.median(values)


def test_there_is_no_median_of_nothing_nor_of_what_is_unknown() -> None:
    assert math.isnan(median_of(np.empty(0)))
    assert math.isnan(median_of(np.array([1.0, np.nan, 3.0])))


def test_they_lie_between_neighbours() -> None:
    assert percentiles(np.array([30, 10, 20]), 50, 75) == [20, 25]
