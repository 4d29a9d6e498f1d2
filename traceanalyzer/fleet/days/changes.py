"""Where a series of step times changes for good, and whether it drifts."""

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
    whole = len(values) // width
    blocks = np.median(values[: whole * width].reshape(whole, width), axis=1) if whole else values
    cuts = _cuts(blocks, 0, len(blocks), max(LEAST_BLOCKS, -(-LEAST_STEPS // width)))
    drift = _drift(blocks, cuts, width)
    return ([_refined(values, cut, width) for cut in cuts] if drift is None else []), drift


def _cuts(x: F64, first: int, end: int, least: int) -> list[int]:
    """By halves: where the sum of clipped deviations is farthest from zero, if chance does not
    bring it so far."""
    here = x[first:end]
    if len(here) < 2 * least:
        return []
    score = _scores(here)
    path = np.cumsum(score - score.mean())[least - 1 : len(here) - least]
    at = int(np.argmax(np.abs(path))) + least
    noise = max(_noise(score, 1), _noise(score, len(score) // PARTS), _lasting(score, at), 0.1)
    near = max(least, len(here) // PARTS)
    before = float(np.median(here[max(at - near, 0) : at]))
    after = float(np.median(here[at : at + near]))
    sure = np.abs(path).max() > CERTAIN * noise * len(here) ** 0.5
    if not sure or abs(after - before) < LEAST_CHANGE * before:
        return []
    return [*_cuts(x, first, first + at, least), first + at, *_cuts(x, first + at, end, least)]


def _noise(score: F64, length: int) -> float:
    """Sigma of a score, from means of so many neighbours: where noise lasts, many show it."""
    length = max(length, 1)
    apart = np.diff(score[: len(score) // length * length].reshape(-1, length).mean(axis=1))
    return MAD_SIGMA * float(np.median(np.abs(apart - np.median(apart)))) * (length / 2) ** 0.5


def _lasting(score: F64, at: int) -> float:
    """Sigma of a score whose noise lasts, in a short series; the level is taken to change at a
    place."""
    rest = np.concatenate([part - part.mean() for part in (score[:at], score[at:])])
    size = len(rest)
    near, one, few, more = (
        float((rest[lag:] * rest[: size - lag]).sum()) / size for lag in (0, 1, FEW, 2 * FEW)
    )
    if near <= 0 or size > SHORT:
        return 0.0
    # What is left of a deviation a step later, and the bias of its estimate from so few (Kendall).
    kept = min(max(one / near + 2 * (1 + 3 * one / near) / size, 0.0), 0.99)
    long = near * (1 + kept) / (1 - kept)
    if few > 2 / size**0.5 * near:
        kept = min(max(more / few, 0.1), 0.9) ** (1 / FEW)
        long = max(long, near + 2 * few * kept ** (1 - FEW) / (1 - kept))
    return float(long**0.5)


def _scores(x: F64) -> F64:
    middle = float(np.median(x))
    spread = max(MAD_SIGMA * float(np.median(np.abs(x - middle))), LEAST_CHANGE / 4 * middle)
    return np.clip((x - middle) / spread, -CLIPPED, CLIPPED)


def _refined(values: F64, cut: int, width: int) -> int:
    """The step within two blocks around at which the level changes."""
    first = max(cut - 2, 0) * width
    end = min((cut + 2) * width, len(values))
    score = _scores(values[first:end]) if width > 1 else np.zeros(0)
    path = np.cumsum(score - score.mean()) if len(score) else score
    return first + int(np.argmax(np.abs(path))) + 1 if len(path) else cut * width


def _drift(blocks: F64, cuts: list[int], width: int) -> Drift | None:
    """The line through the medians, where it is steep, and fits better than levels do."""
    if len(blocks) < 2 * LEAST_BLOCKS:
        return None
    t = np.arange(len(blocks), dtype=np.float64)
    parts = [float(np.median(part)) for part in np.array_split(blocks, min(len(blocks), COARSE))]
    i, j = np.triu_indices(len(parts), 1)
    slope = (
        float(np.median(np.subtract(*np.take(parts, (j, i))) / (j - i))) * len(parts) / len(blocks)
    )
    steady = (
        abs(float(np.corrcoef(np.arange(len(parts)), np.argsort(np.argsort(parts)))[0, 1]))
        >= CORRELATED
    )
    levels = np.concatenate(
        [np.full(len(part), np.median(part)) for part in np.split(blocks, cuts)]
    )
    line = slope * t + np.median(blocks - slope * t)
    share = slope * len(blocks) / float(np.median(blocks))
    # Levels have a number more to fit with for each cut.
    better = np.abs(blocks - line).mean() <= np.abs(blocks - levels).mean() * (1 + 0.25 * len(cuts))
    return Drift(share, slope / width) if steady and abs(share) >= LEAST_CHANGE and better else None
