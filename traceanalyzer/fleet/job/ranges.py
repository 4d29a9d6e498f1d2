"""How sure a mean over steps is: drawn again from the steps that there are."""

import numpy as np

from traceanalyzer.base import NS_PER_MS, digits
from traceanalyzer.fleet.job.model import Change, Culprit
from traceanalyzer.trace import F64

DRAWS = 400
INSIDE = (5.0, 95.0)
"""Percentiles: a 90 % range."""
FEW = 5
"""Of fewer steps the least and the most are the range."""
SEED = 39


def draws_of(steps: int) -> "np.ndarray[tuple[int, int], np.dtype[np.int64]]":
    """Which steps each draw consists of."""
    return np.random.default_rng(SEED).integers(0, max(steps, 1), (DRAWS, max(steps, 1)))


def range_ms(per_step: F64, mean_ms: float | None = None) -> tuple[float | None, float | None]:
    """The range of the mean of times of steps (ns), ms, around `mean_ms`; None of one step, which tells nothing."""
    if len(per_step) < 2:
        return None, None
    if len(per_step) < FEW:
        low, high = float(per_step.min()), float(per_step.max())
    else:
        low, high = np.percentile(per_step[draws_of(len(per_step))].mean(axis=1), INSIDE).tolist()
    low, high = max(low, 0.0) / NS_PER_MS, max(high, 0.0) / NS_PER_MS
    return (low, high) if mean_ms is None else (min(low, mean_ms), max(high, mean_ms))


def ends_of(one: Culprit | Change) -> str:
    """The range as text, empty where there is none."""
    return "" if one.low_ms is None or one.high_ms is None else f"{digits(one.low_ms)} to {digits(one.high_ms)}"
