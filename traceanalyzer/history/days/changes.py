"""Where a series of step times changes for good, and whether it drifts."""

from math import ceil

import numpy as np

from traceanalyzer.base import dataclass
from traceanalyzer.trace import F64

MAD_SIGMA = 1.4826
CLIPPED = 3.0  # standard deviations: a step that is further off counts as one that is so far off
BLOCKS = 2_000  # a longer series is looked at in medians of blocks
LEAST_BLOCKS = 8  # a level of fewer is none
LEAST_STEPS = 20
CERTAIN = 2.0
"""The largest sum of deviations over sigma and the root of their number, by chance above 1.63 in 1
% of series."""
PARTS = 20  # of a series, whose means tell how long its noise lasts
SHORT = 1_000
"""Steps of a series whose noise may last for so much of it that its parts do not show how long."""
FEW = 4  # steps after which noise is looked at again: what is left of it lasts
LEAST_NOISE = 0.1  # sigma of a score: series of equal values have none
LEAST_CHANGE = 0.02  # of the step time: machines differ by so much from one hour to the next
COARSE = 40
"""Parts of a series, and the rank correlation of their medians with time where it drifts."""
CORRELATED = 0.9


@dataclass(frozen=True)
class Drift:
    """A step time that grows or falls all the time."""

    total_share: float
    per_step_ms: float


def changes(values: F64) -> tuple[list[int], Drift | None]:
    """Where new levels begin; or a drift, where one line fits better than levels."""
    width = max(len(values) // BLOCKS, 1)
    count = len(values) // width
    blocks = values
    if count:
        blocks = np.median(values[: count * width].reshape(count, width), axis=1)
    least = max(LEAST_BLOCKS, ceil(LEAST_STEPS / width))
    cuts = _cuts(blocks, 0, len(blocks), least)
    drift = _drift(blocks, cuts, width)
    if drift is not None:
        return [], drift
    return [_refined(values, cut, width) for cut in cuts], None


def _cuts(x: F64, first: int, end: int, least: int) -> list[int]:
    """By halves: where the sum of clipped deviations is farthest from zero, if chance does not
    bring it so far."""
    part = x[first:end]
    if len(part) < 2 * least:
        return []
    score = _scores(part)
    deviations = np.cumsum(score - score.mean())
    path = np.abs(deviations[least - 1 : len(part) - least])
    at = int(np.argmax(path)) + least
    noise = max(
        _noise(score, 1), _noise(score, len(score) // PARTS), _lasting(score, at), LEAST_NOISE
    )
    near = max(least, len(part) // PARTS)
    before = float(np.median(part[max(at - near, 0) : at]))
    after = float(np.median(part[at : at + near]))
    sure = path.max() > CERTAIN * noise * len(part) ** 0.5
    if not sure or abs(after - before) < LEAST_CHANGE * before:
        return []
    cut = first + at
    return [*_cuts(x, first, cut, least), cut, *_cuts(x, cut, end, least)]


def _noise(score: F64, length: int) -> float:
    """Sigma of a score, from means of so many neighbours: where noise lasts, many show it."""
    length = max(length, 1)
    parts = score[: len(score) // length * length].reshape(-1, length)
    apart = np.diff(parts.mean(axis=1))
    deviation = float(np.median(np.abs(apart - np.median(apart))))
    return MAD_SIGMA * deviation * (length / 2) ** 0.5


def _lasting(score: F64, at: int) -> float:
    """Sigma of a score whose noise lasts, in a short series; the level is taken to change at a
    place."""
    before = score[:at]
    after = score[at:]
    rest = np.concatenate([before - before.mean(), after - after.mean()])
    size = len(rest)
    variance = _covariance(rest, 0)
    if variance <= 0 or size > SHORT:
        return 0.0
    # What is left of a deviation a step later, and the bias of its estimate from so few (Kendall).
    next_step = _covariance(rest, 1) / variance
    kept = min(max(next_step + 2 * (1 + 3 * next_step) / size, 0.0), 0.99)
    long_run = variance * (1 + kept) / (1 - kept)
    few = _covariance(rest, FEW)
    if few > 2 / size**0.5 * variance:
        kept = min(max(_covariance(rest, 2 * FEW) / few, 0.1), 0.9) ** (1 / FEW)
        long_run = max(long_run, variance + 2 * few * kept ** (1 - FEW) / (1 - kept))
    return float(long_run**0.5)


def _covariance(rest: F64, lag: int) -> float:
    """Of deviations with those so many steps later."""
    size = len(rest)
    return float((rest[lag:] * rest[: size - lag]).sum()) / size


def _scores(x: F64) -> F64:
    middle = float(np.median(x))
    deviation = float(np.median(np.abs(x - middle)))
    spread = max(MAD_SIGMA * deviation, LEAST_CHANGE / 4 * middle)
    return np.clip((x - middle) / spread, -CLIPPED, CLIPPED)


def _refined(values: F64, cut: int, width: int) -> int:
    """The step within two blocks around at which the level changes."""
    first = max(cut - 2, 0) * width
    end = min((cut + 2) * width, len(values))
    if width == 1 or first >= end:
        return cut * width
    score = _scores(values[first:end])
    path = np.cumsum(score - score.mean())
    return first + int(np.argmax(np.abs(path))) + 1


def _drift(blocks: F64, cuts: list[int], width: int) -> Drift | None:
    """The line through the medians, where it is steep, and fits better than levels do."""
    if len(blocks) < 2 * LEAST_BLOCKS:
        return None
    slope = _slope(blocks)
    share = slope * len(blocks) / float(np.median(blocks))
    if abs(share) < LEAST_CHANGE or not _is_steady(blocks):
        return None
    along = slope * np.arange(len(blocks), dtype=np.float64)
    off_line = np.abs(blocks - along - np.median(blocks - along)).mean()
    parts = np.split(blocks, cuts)
    levels = [np.full(len(part), np.median(part)) for part in parts]
    off_levels = np.abs(blocks - np.concatenate(levels)).mean()
    # Levels have a number more to fit with for each cut.
    if off_line > off_levels * (1 + 0.25 * len(cuts)):
        return None
    return Drift(share, slope / width)


def _slope(blocks: F64) -> float:
    """Growth from one block to the next: the median over all pairs of parts (Theil-Sen)."""
    parts = _coarse(blocks)
    i, j = np.triu_indices(len(parts), 1)
    slopes = (parts[j] - parts[i]) / (j - i)
    return float(np.median(slopes)) * len(parts) / len(blocks)


def _is_steady(blocks: F64) -> bool:
    """Whether the parts are in the order of time (Spearman)."""
    ranks = np.argsort(np.argsort(_coarse(blocks)))
    correlation = np.corrcoef(np.arange(len(ranks)), ranks)[0, 1]
    return bool(abs(correlation) >= CORRELATED)


def _coarse(blocks: F64) -> F64:
    parts = np.array_split(blocks, min(len(blocks), COARSE))
    return np.array([np.median(part) for part in parts])
