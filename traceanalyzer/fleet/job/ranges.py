"""How sure a mean over steps is: drawn again from the steps that there are."""

from collections.abc import Sequence

import numpy as np

from traceanalyzer.base.figures import NS_PER_MS
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


def range_ms(per_step: F64) -> tuple[float, float]:
    """The range of the mean of times of steps (ns), ms."""
    if not len(per_step):
        return 0.0, 0.0
    if len(per_step) < FEW:
        low, high = float(per_step.min()), float(per_step.max())
    else:
        low, high = np.percentile(per_step[draws_of(len(per_step))].mean(axis=1), INSIDE).tolist()
    return max(low, 0.0) / NS_PER_MS, max(high, 0.0) / NS_PER_MS


def share_of_draws(of_ranks: Sequence[F64], which: int) -> float:
    """In which share of the draws one of several has the largest sum."""
    table = np.stack(of_ranks)
    sums = table[:, draws_of(table.shape[1])].sum(axis=2)
    return float((sums.argmax(axis=0) == which).mean())
