"""The order of rows whose values are nearly in order (times, ids), and how far values scatter."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.trace import F64, I64, Bool, is_sorted

_DIGIT_BITS = 16
"""numpy sorts numbers of so many bits by their digits, in a tenth of the time of comparing them."""


def largest(values: NDArray[Any], count: int) -> I64:
    """The rows of so many of the largest values, largest first, of equal ones the first."""
    rows = np.arange(len(values))
    if 0 < count < len(values):
        rows = np.flatnonzero(values >= np.partition(values, len(values) - count)[len(values) - count])
    return rows[np.argsort(-values[rows], kind="stable")][:count]


def sorted_values(values: NDArray[Any]) -> NDArray[Any]:
    """The values in ascending order; the same array where they are."""
    return values if is_sorted(values) else np.sort(values, kind="stable")


def where_changed(values: NDArray[Any]) -> Bool:
    """Which values differ from the one before them; the first does."""
    result = np.ones(len(values), bool)
    np.not_equal(values[1:], values[:-1], out=result[1:])
    return result


def stable_order(values: NDArray[Any]) -> I64:
    """`np.argsort(values, kind="stable")` of an integer column, quicker where its values lie in a narrow range."""
    low, high = (int(values.min()), int(values.max())) if len(values) else (0, 0)
    if high - low >= 1 << _DIGIT_BITS:
        return np.argsort(values, kind="stable")
    return np.argsort(np.subtract(values, low, dtype=np.int64).astype(np.uint16), kind="stable")


SIGMA_OF_MAD = 1.4826
"""Standard deviation of a normal distribution over its median absolute deviation."""


def robust_sigma(values: F64 | I64, centre: float) -> float:
    """Standard deviation from the median distance to the centre; at least one value."""
    return SIGMA_OF_MAD * float(np.median(np.abs(values - centre)))
