"""Percentiles and medians as numpy's, bit for bit: the first call of `np.percentile` or of `np.median`
of floats (as of `np.unique` without indices, and `np.isin` of an empty list) loads numpy's masked
arrays, which takes a thirtieth of a small recording's time."""

from typing import Any

import numpy as np
from numpy.typing import NDArray


def percentiles(values: NDArray[Any], *wanted: float) -> list[float]:
    """The percentiles (0..100) of at least one value, linearly interpolated between neighbours."""
    last = len(values) - 1
    place = last * (np.array(wanted) / 100)
    below = np.floor(place).astype(np.int64)
    above = np.minimum(below + 1, last)
    ordered = np.partition(values, sorted({*below.tolist(), *above.tolist()}))
    low = ordered[below]
    high = ordered[above]
    share = place - below
    # from the nearer of both, as numpy does
    result = np.where(share < 0.5, low + (high - low) * share, high - (high - low) * (1 - share))
    return result.astype(np.float64).tolist()


def median_of(values: NDArray[Any]) -> float:
    """The median; NaN of no number, and where one of them is."""
    if not len(values) or np.isnan(values.max()):
        return float("nan")
    high = len(values) // 2
    low = high if len(values) % 2 else high - 1
    ordered = np.partition(values, sorted({low, high}))
    return (float(ordered[low]) + float(ordered[high])) / 2
