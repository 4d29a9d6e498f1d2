"""Percentiles as numpy's, bit for bit: the first call of `np.percentile` (as of `np.unique` without
indices) loads numpy's masked arrays, which takes a thirtieth of a small recording's time."""

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
