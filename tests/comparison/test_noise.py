"""When a difference is more than noise."""

import random
from statistics import fmean

import pytest

from traceanalyzer.comparison.noise import T_975, difference_interval, is_significant


def test_the_interval_is_welchs():
    # By hand: variances 1 and 4 of three values each, error sqrt(5/3) = 1.29, 2.94 degrees of
    # freedom, t = 4.303 for 2.
    found = difference_interval([1, 2, 3], [5, 7, 9], 5.0)
    assert found == pytest.approx((5 - 4.303 * (5 / 3) ** 0.5, 5 + 4.303 * (5 / 3) ** 0.5))


@pytest.mark.parametrize(("a", "b"), [([1.0], [2.0, 2.1]), ([], []), ([1.0, 1.1], [2.0])])
def test_there_is_none_without_a_spread(a, b):
    assert difference_interval(a, b, 1.0) is None


def test_steps_without_any_spread_give_a_point():
    assert difference_interval([0, 0, 0], [2, 2, 2], 2.0) == (2.0, 2.0)


def test_the_quantiles_fall_towards_the_normal_distributions():
    assert list(T_975) == sorted(T_975, reverse=True)
    assert len(T_975) == 30
    assert T_975[-1] > 1.96


@pytest.mark.parametrize(
    ("count_a", "count_b", "noise_a", "noise_b"), [(3, 3, 1, 1), (4, 16, 1, 5), (16, 16, 2, 1)]
)
def test_the_interval_holds_the_true_difference_in_95_percent_of_cases(
    count_a, count_b, noise_a, noise_b
):
    rng = random.Random(1)  # noqa: S311
    held = 0
    for _ in range(2000):
        a = [rng.gauss(100, noise_a) for _ in range(count_a)]
        b = [rng.gauss(103, noise_b) for _ in range(count_b)]
        low, high = difference_interval(a, b, fmean(b) - fmean(a))
        held += low <= 3 <= high
    assert 0.94 <= held / 2000 <= 0.995


@pytest.mark.parametrize(
    ("a", "b", "interval", "expected"),
    [
        (10.0, 10.1, (0.09, 0.11), False),  # as runs of one program differ
        (10.0, 11.0, (0.9, 1.1), True),
        (10.0, 9.0, (-1.1, -0.9), True),
        (10.0, 11.0, (-0.1, 2.1), False),  # as its steps differ
        (0.0, 1.0, (0.9, 1.1), True),
        (10.0, 11.0, None, None),
        (10.0, 10.0, None, False),
    ],
)
def test_what_is_significant(a, b, interval, expected):
    from traceanalyzer.comparison.noise import Interval

    assert is_significant(a, b, interval and Interval(*interval)) is expected
