"""Distinct values of integer columns, as `np.unique` gives them: counted in one pass where the values lie near each
other (codes, streams, steps, rows), else sorted."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.trace.table import I32, I64, is_constant

NEAR = 2
"""Values are counted where their range is at most this many times as wide as there are values ..."""
NEAR_AT_LEAST = 1 << 12
"""... or this wide: that takes no longer than to sort even a few."""

AT_ONCE = 1 << 14
"""Values that are counted at once: numpy makes 64-bit places of them."""
MOST_COUNTED = 1 << 29
"""Values; so many places fit 32 bits."""


def near(low: int, high: int, count: int) -> bool:
    """Whether so many values from `low` to `high` are counted sooner than sorted."""
    return high - low < max(NEAR * count, NEAR_AT_LEAST)


def distinct(values: NDArray[Any]) -> NDArray[Any]:
    """The distinct values of an integer column, ascending."""
    if not len(values):
        return values[:0]
    if is_constant(values):
        return values[:1].copy()
    low, high = int(values.min()), int(values.max())
    if near(low, high, len(values)):
        return (np.flatnonzero(_seen(values, low, high)) + low).astype(values.dtype)
    ordered = np.sort(values)
    return ordered[np.concatenate(([True], ordered[1:] != ordered[:-1]))]


def ranked(values: NDArray[Any]) -> tuple[NDArray[Any], I32 | I64]:
    """The distinct values of an integer column, ascending, and for each value its place among them."""
    if not len(values):
        return values[:0], np.empty(0, np.int64)
    low, high = int(values.min()), int(values.max())
    if not near(low, high, min(len(values), MOST_COUNTED)):
        return np.unique(values, return_inverse=True)
    seen = _seen(values, low, high)
    places = np.cumsum(seen, dtype=np.int32)
    places -= 1
    result = np.empty(len(values), np.int32)
    for i in range(0, len(values), AT_ONCE):
        result[i : i + AT_ONCE] = places[_from(values[i : i + AT_ONCE], low)]
    return (np.flatnonzero(seen) + low).astype(values.dtype), result


def _seen(values: NDArray[Any], low: int, high: int) -> NDArray[np.bool_]:
    seen = np.zeros(high - low + 1, bool)
    for i in range(0, len(values), AT_ONCE):
        seen[_from(values[i : i + AT_ONCE], low)] = True
    return seen


def _from(values: NDArray[Any], low: int) -> NDArray[Any]:
    """Values by their distance from the least."""
    if values.dtype != np.bool_ and not low:
        return values
    return np.subtract(values, low, dtype=np.int32 if values.dtype == np.int32 else np.int64)
