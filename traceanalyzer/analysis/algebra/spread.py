"""How far values scatter, whatever a few of them are."""

from __future__ import annotations

import numpy as np

from traceanalyzer.trace import F64, I64

SIGMA_OF_MAD = 1.4826
"""Standard deviation of a normal distribution over its median absolute deviation."""


def robust_sigma(values: F64 | I64, centre: float) -> float:
    """Standard deviation from the median distance to the centre; at least one value."""
    return SIGMA_OF_MAD * float(np.median(np.abs(values - centre)))
