"""The order of rows by several keys of which the first nearly says it all: times and ids that are nearly sorted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from traceanalyzer.trace import I64, Bool


_DIGIT_BITS = 16
"""numpy sorts numbers of so many bits by their digits, in a tenth of the time of comparing them."""


def is_sorted(values: NDArray[Any]) -> bool:
    """Whether no value is less than the one before it."""
    return not (values[1:] < values[:-1]).any()


def ordered(first: NDArray[Any], then: Callable[[I64], Sequence[NDArray[Any]]]) -> I64:
    """The rows by `first`, those that are equal there by `then` (keys of the rows that it is given, the last one
    counting most, as `np.lexsort` has it), else as they come. Takes little where `first` is nearly sorted."""
    order = np.arange(len(first)) if is_sorted(first) else np.argsort(first, kind="stable")
    values = first[order]
    same = values[1:] == values[:-1]
    if same.any():
        tied = np.flatnonzero(np.append(same, False) | np.append(False, same))
        rows = order[tied]
        order[tied] = rows[np.lexsort((*then(rows), first[rows]))]
    return order


def largest(values: NDArray[Any], count: int) -> I64:
    """The rows of so many of the largest values, largest first, of equal ones the first."""
    rows = np.arange(len(values))
    if 0 < count < len(values):
        rows = np.flatnonzero(values >= np.partition(values, len(values) - count)[len(values) - count])
    return rows[np.argsort(-values[rows], kind="stable")][:count]


def sorted_values(values: NDArray[Any]) -> NDArray[Any]:
    """The values in ascending order; the same array where they are."""
    return values if is_sorted(values) else np.sort(values, kind="stable")


def where_changed(values: NDArray[Any]) -> Bool:
    """Which values differ from the one before them; the first does."""
    result = np.ones(len(values), bool)
    np.not_equal(values[1:], values[:-1], out=result[1:])
    return result


def stable_order(values: NDArray[Any]) -> I64:
    """`np.argsort(values, kind="stable")` of an integer column, quicker where its values lie in a narrow range."""
    low, high = (int(values.min()), int(values.max())) if len(values) else (0, 0)
    if high - low >= 1 << _DIGIT_BITS:
        return np.argsort(values, kind="stable")
    return np.argsort(np.subtract(values, low, dtype=np.int64).astype(np.uint16), kind="stable")
