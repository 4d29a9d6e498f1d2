"""Whether a series of step times has settled, and how well its median is known. Without numpy: runs in the script."""

import math
from typing import TYPE_CHECKING

from traceanalyzer.collect.steps.summary import percentile

if TYPE_CHECKING:
    from collections.abc import Sequence

AGREE_SHARE = 0.05
"""How far the medians of the two halves may be apart: a series that still falls or rises is not settled."""

TIGHT_SHARE = 0.05
"""Half width of the median's interval: steps that vary by 16 % (a busy host) get there after about 45."""

STRIDE = 5
"""Steps between two looks at the series."""

OUTSIDE = 0.10
"""Share of medians that may lie outside of their interval."""


def median(values: "Sequence[float]") -> float:
    """The middle of at least one value."""
    return percentile(sorted(values), 0.5)


def median_interval(values: "Sequence[float]") -> tuple[float, float]:
    """The 90 % interval of the median between order statistics: it assumes nothing about the distribution.

    Fewer than 5 values cannot promise that much: their extremes. Source: David and Nagaraja, Order Statistics,
    3rd edition, section 7.1.
    """
    ordered, count = sorted(values), len(values)
    below, tail = 0, 0.0
    for k in range(count // 2):
        tail += math.comb(count, k) / 2**count
        if 2 * tail > OUTSIDE:
            break
        below = k
    return ordered[below], ordered[count - 1 - below]


def is_steady(values: "Sequence[float]") -> bool:
    """Whether both halves agree on the median and the median is known to `TIGHT_SHARE`."""
    if len(values) < 2:
        return False
    middle, half = median(values), len(values) // 2
    if middle <= 0 or abs(median(values[:half]) - median(values[half:])) > AGREE_SHARE * middle:
        return False
    low, high = median_interval(values)
    return high - low <= 2 * TIGHT_SHARE * middle


def steady_from(values: "Sequence[float]", least: int) -> int | None:
    """Where the longest steady end of the series begins that has at least `least` values; None without one."""
    for first in range(0, len(values) - least + 1, STRIDE):
        if is_steady(values[first:]):
            return first
    last = len(values) - least
    return last if last > 0 and is_steady(values[last:]) else None
