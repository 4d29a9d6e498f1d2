"""How regular steps are, from their times alone: drift, outliers, two kinds; and how long single
ones last at most."""

import numpy as np

from traceanalyzer.analysis.algebra import median_of, percentiles, robust_sigma
from traceanalyzer.base import dataclass, metric, ms
from traceanalyzer.trace import F64, Bool

MIN_STEPS = 20  # fewer steps show neither a trend nor two modes
DRIFT_BLOCKS = 40
"""The trend is that of the medians of this many blocks of steps: single slow steps do not move
it."""
DRIFT_Z = 3.0
"""Kendall's statistic, in standard deviations, from which a trend is not chance (1 in 400)."""
OUTLIER_RATIO = 1.25
"""An outlier is this much slower than the typical step: steps spread by a few percent, checkpoints,
garbage collection and stalled input cost whole factors."""
OUTLIER_DEVIATIONS = 6.0
"""And it is this many robust standard deviations away, where steps spread more."""
MODE_SHARE = 0.1  # each of two modes holds at least this share of the steps; fewer are outliers
MODE_RATIO = 1.1  # two kinds that differ by less are not worth telling apart
MODE_SEPARATION = 4.0
"""Ashman's D of the best split in two: 2.7 for one normal distribution, 3.5 for a uniform one;
above 4 there are two (Ashman, Bird and Zepf, The Astronomical Journal 108, 1994)."""
BETWEEN = 0.1
"""Share of the steps of a kind that may be nearer to the other kind: more of them, and times spread
from one to the other."""
EXTREME_RATIO = 3.0
"""Steps this many times the median, if fewer than `MODE_SHARE` (checkpoints, evaluation), are left
out of the split: they would hide two kinds among the others."""


@dataclass(frozen=True)
class Regularity:
    """How the recorded steady steps differ from each other; the profiler's own idle time is taken
    out of each."""

    steps: int = metric("steady steps that were compared")
    drift_share: float | None = metric(
        "change of the step time over them, by its robust slope, as a share of the median; 0 where the slope is within "
        "chance"
    )
    busy_drift_share: float | None = metric(
        "change of the GPU's busy time over them, as a share of the median step: a profiler slows the host more and "
        "more, not the GPU; null without device work"
    )
    outliers: int = metric("steps that are much slower than the typical one")
    outlier_excess_share: float = metric("time beyond the median that outliers cost, of all of it")
    fast_mode_ms: float | None = metric(
        "median of the fast steps where steps are of two kinds; null where they are of one kind"
    )
    slow_mode_ms: float | None = metric("median of the slow steps; null where they are of one kind")
    slow_steps_share: float | None = metric(
        "share of the steps that are of the slow kind; null with one kind"
    )


def regularity(time: F64, busy: F64 | None = None) -> Regularity | None:
    """How regular steps of these lengths (and device time in them), ns, are; None: too few, or one
    has no length."""
    if len(time) < MIN_STEPS or time.min() <= 0:
        return None
    slow = outliers(time)
    modes = two_modes(time)
    change = None
    if busy is not None:
        change = drift(busy) if busy.any() else 0.0
    fast = ms(modes[0]) if modes else None
    slower = ms(modes[1]) if modes else None
    share = modes[2] if modes else None
    changed = None if busy is None or change is None else change * median_of(busy) / median_of(time)
    return Regularity(
        steps=len(time),
        drift_share=drift(time),
        busy_drift_share=changed,
        outliers=int(slow.sum()),
        outlier_excess_share=excess_share(time, slow),
        fast_mode_ms=fast,
        slow_mode_ms=slower,
        slow_steps_share=share,
    )


def excess_share(time: F64, slow: Bool) -> float:
    """Time of the slow ones beyond the median of all, as a share of all time."""
    if not slow.any():
        return 0.0
    excess = time[slow] - median_of(time)
    return float(excess.sum() / time.sum())


def percentile_of(time: F64, q: float) -> float | None:
    """The q-th percentile, linearly interpolated; None where fewer than one value in expectation
    lies beyond it."""
    return percentiles(time, q)[0] if len(time) * (100 - q) >= 100 else None


def drift(time: F64) -> float | None:
    """Theil and Sen's slope over blocks of steps times their number, as a share of the median
    time."""
    if len(time) < MIN_STEPS:
        return None
    blocks = np.array(
        [median_of(block) for block in np.array_split(time, min(DRIFT_BLOCKS, len(time) // 2))]
    )
    early, late = np.triu_indices(len(blocks), 1)
    change = blocks[late] - blocks[early]
    count = len(blocks)
    variance = count * (count - 1) * (2 * count + 5) / 18
    score = np.sign(change).sum() / np.sqrt(variance)
    if abs(score) < DRIFT_Z:
        return 0.0
    middle = median_of(time)
    return float(median_of(change / (late - early)) * (count - 1) / middle) if middle else 0.0


def outliers(time: F64) -> Bool:
    """Which steps are much slower than the typical one, of the slow kind where there are two."""
    if len(time) < MIN_STEPS:
        return np.zeros(len(time), bool)
    modes = two_modes(time)
    typical = time if modes is None else time[time > np.sqrt(modes[0] * modes[1])]
    centre = median_of(typical)
    return time > max(
        OUTLIER_RATIO * centre, centre + OUTLIER_DEVIATIONS * robust_sigma(typical, centre)
    )


def two_modes(time: F64) -> tuple[float, float, float] | None:
    """Medians of the fast and slow steps and the share of the slow ones, where the times are of two
    kinds.

    The split is the one with the largest variance between its sides (Otsu); extremes count as the
    1st and 99th percentile, so that a few outliers are not a side."""
    extreme = time > EXTREME_RATIO * median_of(time) if len(time) else np.zeros(0, bool)
    if extreme.sum() < MODE_SHARE * len(time):
        time = time[~extreme]
    if len(time) < MIN_STEPS:
        return None
    order = np.sort(_without_extremes(time))
    least = max(int(np.ceil(MODE_SHARE * len(order))), 2)
    left = np.arange(least, len(order) - least + 1)
    total = np.cumsum(order)
    low = total[left - 1] / left
    high = (total[-1] - total[left - 1]) / (len(order) - left)
    apart = left * (len(order) - left) * (high - low) ** 2
    cut = int(left[np.argmax(apart)])
    fast = order[:cut]
    slow = order[cut:]
    apart = float(slow.mean() - fast.mean())
    spread = float(np.sqrt(fast.var() + slow.var()))
    if apart * np.sqrt(2) < MODE_SEPARATION * spread or median_of(slow) < MODE_RATIO * median_of(
        fast
    ):
        return None
    middle = np.sqrt(median_of(fast) * median_of(slow))
    if (fast > middle).mean() > BETWEEN or (slow < middle).mean() > BETWEEN:
        return None
    share = len(slow) / len(order)
    return median_of(fast), median_of(slow), share


def _without_extremes(time: F64) -> F64:
    """Times in which extremes count as the 1st and the 99th percentile."""
    low, high = percentiles(time, 1, 99)
    return np.clip(time, low, high)
