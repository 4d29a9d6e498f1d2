"""Order statistics of a list of times, without numpy: this runs inside the recorded script."""

import math
import statistics
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def percentile(ordered: "Sequence[float]", share: float) -> float:
    """Linear interpolation between the closest ranks of sorted values (numpy's default)."""
    place = share * (len(ordered) - 1)
    low, high = math.floor(place), math.ceil(place)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def summarize(values: "Sequence[float]") -> dict[str, float]:
    """Count, mean, median, standard deviation, extremes, p95 and p99; empty for no values."""
    if not values:
        return {}
    ordered = sorted(values)
    return {
        "count": len(ordered),
        "mean": statistics.fmean(ordered),
        "median": percentile(ordered, 0.5),
        "std": statistics.stdev(ordered) if len(ordered) > 1 else 0.0,
        "min": ordered[0],
        "max": ordered[-1],
        "p95": percentile(ordered, 0.95),
        "p99": percentile(ordered, 0.99),
    }
