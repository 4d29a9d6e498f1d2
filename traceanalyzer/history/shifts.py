"""Where a metric over runs changes for good: levels that its values stay near, one after the other."""

from collections.abc import Sequence
from statistics import median

from traceanalyzer.base.frozen import dataclass

NOISE_SHARE = 0.02
"""Runs of one program differ by so much (docs/compare.md): less is no change."""
SIGMAS, MAD_SIGMA = 3.0, 1.4826
"""Nor is what lies within three standard deviations, told from the median distance to the median (normal values)."""


@dataclass(frozen=True)
class Level:
    """Runs that follow each other (from `first` up to `end`, positions in the series) and what they vary by."""

    first: int
    end: int
    low: float
    high: float


def levels(values: Sequence[float]) -> list[Level]:
    """The levels of a series, oldest first; a new one begins where two runs in a row leave the band on the same side,
    or the last run does."""
    found, first = [], 0
    for i in range(1, len(values)):
        low, high = _band(values[first:i])
        side = _side(values[i], low, high)
        if side and side == _side(values[min(i + 1, len(values) - 1)], low, high):
            found.append(Level(first, i, low, high))
            first = i
    return [*found, Level(first, len(values), *_band(values[first:]))] if values else []


def _band(values: Sequence[float]) -> tuple[float, float]:
    middle = median(values)
    spread = MAD_SIGMA * median(abs(value - middle) for value in values)
    reach = max(SIGMAS * spread, NOISE_SHARE * abs(middle))
    return middle - reach, middle + reach


def _side(value: float, low: float, high: float) -> int:
    return (value > high) - (value < low)
