"""When a series of step times is settled, and how well its median is known."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from traceanalyzer.collect.steps.step_clock import is_steady, median_interval, steady_from


@pytest.mark.parametrize("count", [5, 10, 20, 45])
def test_the_interval_holds_nine_of_ten_medians(count):
    drawn = np.random.default_rng(count).exponential(1.0, (4000, count))
    inside = [low <= np.log(2) <= high for low, high in map(median_interval, drawn.tolist())]
    assert 0.89 <= np.mean(inside) <= 0.985, "counts are whole, so that small ones promise more"


@given(st.lists(st.floats(0.001, 1e6), min_size=1, max_size=80))
def test_the_interval_holds_the_median_itself(values):
    low, high = median_interval(values)
    assert min(values) <= low <= np.median(values) <= high <= max(values) or len(values) == 1


@pytest.mark.parametrize(
    ("values", "steady"),
    [
        ([10.0] * 20, True),
        ([10.0] * 19 + [500.0], True),
        ([10.0, 10.3] * 10, True),
        ([12.0] * 10 + [10.0] * 10, False),
        ([10.0, 20.0] * 10, False),
        ([3.0, 57.0, 46.0, 20.0, 33.0] * 4, False),
        ([336.0, 153.0, 340.0, 68.0, 328.0, 337.0, 158.0, 336.0, 34.0, 338.0] * 2, False),
        ([10.0], False),
        ([0.0] * 20, False),
    ],
)
def test_what_is_steady(values, steady):
    assert is_steady(values) == steady


def test_noise_without_drift_is_steady_once_its_median_is_known():
    noisy = np.random.default_rng(1).normal(59, 9.6, 200).tolist()
    found = [is_steady(noisy[:count]) for count in (20, 100, 200)]
    assert found[-1]


def test_the_longest_steady_end_counts():
    values = [50.0] * 20 + [10.0] * 23
    first = steady_from(values, 10)
    assert first == 15, "of 28 steps 5 are slow: each half's median is 10 ms"
    assert not is_steady(values[first - 5 :])
    assert steady_from([10.0] * 30, 10) == 0
    assert steady_from([float(i) for i in range(1, 31)], 10) is None
    assert steady_from([10.0] * 5, 10) is None
