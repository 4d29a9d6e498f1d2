"""Whether a difference of two means is more than noise.

Welch's unequal variances interval (B. L. Welch, "The generalization of 'Student's' problem when
several different population variances are involved", Biometrika 34, 1947, with the
Welch-Satterthwaite degrees of freedom), at 95 %, of the means of successive batches of steps: batch
means let the steps of a batch depend on each other (A. M. Law, "Simulation Modeling and Analysis",
chapter 9). A resampling test is no alternative for the three to five steps that are usual: its
smallest possible p-value for three against three is 0.1.

The steps of one recording do not show how runs differ from each other (clocks, temperature, memory
layout, other tenants). A difference below `RUN_NOISE_SHARE` is therefore never called significant,
however little steps vary."""

import math
from collections.abc import Sequence
from statistics import variance
from typing import NamedTuple

RUN_NOISE_SHARE = 0.02
"""Rounds of one unchanged program: over 41 workloads their standard deviation was 2.4 % in the
median, under 0.5 % for a quarter of them. Less than this cannot be distinguished from another run
of the same."""
T_975 = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228),
    *(2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086),
    *(2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042),
)
"""Student's t for a two-sided 95 % interval with 1 to 30 degrees of freedom: as many as two times
16 batches have."""


class Interval(NamedTuple):
    """95 % confidence interval of a difference."""

    low: float
    high: float


def difference_interval(
    a: Sequence[float], b: Sequence[float], difference: float
) -> Interval | None:
    """Where the true difference of the means of `b` and `a` lies around the one measured; None if
    either has fewer than two values."""
    if len(a) < 2 or len(b) < 2:
        return None
    of_a = variance(a) / len(a)
    of_b = variance(b) / len(b)
    error = of_a + of_b
    if error == 0:
        return Interval(difference, difference)
    spread = of_a**2 / (len(a) - 1) + of_b**2 / (len(b) - 1)
    freedom = error**2 / spread
    # Rounded down, so the interval is never too narrow.
    known = min(max(int(freedom), 1), len(T_975))
    half = T_975[known - 1] * math.sqrt(error)
    return Interval(difference - half, difference + half)


def is_significant(a: float, b: float, interval: Interval | None) -> bool | None:
    """Whether `b` differs from `a` by more than steps and runs vary; None where the spread of steps
    is unknown."""
    if abs(b - a) <= RUN_NOISE_SHARE * max(abs(a), abs(b)):
        return False
    return None if interval is None else interval.low > 0 or interval.high < 0
