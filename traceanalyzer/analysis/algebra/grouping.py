"""Rows put into groups by equal keys, and figures of each group, without a loop over rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from traceanalyzer.trace import F64, I32, I64, U8, Bool

LARGEST = np.iinfo(np.int64).max


@dataclass(frozen=True, eq=False)
class Groups:
    """A partition of rows; groups are in ascending order of their keys."""

    index: I64
    """For each row its group."""
    first: I64
    """For each group its first row."""
    count: I64
    """For each group how many rows it has; at least 1."""

    @classmethod
    def of(cls, *keys: I32 | I64 | U8 | Bool) -> Groups:
        """Group rows that are equal in all of the keys (integers from -1 up, of any size together)."""
        combined = np.zeros(len(keys[0]), np.int64)
        for key in keys if len(combined) else ():
            distinct = int(key.max()) + 2
            if distinct > LARGEST // (int(combined.max()) + 1):
                combined, key = _ranked(combined), _ranked(key)
                distinct = int(key.max()) + 2
            combined = combined * distinct + key + 1
        _, first, index, count = np.unique(combined, return_index=True, return_inverse=True, return_counts=True)
        return cls(index, first, count)

    def __len__(self) -> int:
        return len(self.count)

    @property
    def rows(self) -> list[I64]:
        """The rows of each group, in order."""
        ordered = np.argsort(self.index, kind="stable")
        return np.split(ordered, np.cumsum(self.count)[:-1]) if len(self) else []

    def sum(self, values: I64 | F64 | Bool) -> F64:
        """Sum of the values in each group; exact below 2**53."""
        result: F64 = np.bincount(self.index, weights=values, minlength=len(self)).astype(np.float64)
        return result

    def quantiles(self, values: I64, *shares: float) -> list[F64]:
        """The quantiles at `shares` (0..1) of the values in each group, linearly interpolated."""
        ordered = values[np.lexsort((values, self.index))]
        begin = np.cumsum(self.count) - self.count
        result = []
        for share in shares:
            position = (self.count - 1) * share
            low = np.floor(position).astype(np.int64)
            high = np.minimum(low + 1, self.count - 1)
            below = ordered[begin + low].astype(np.float64)
            result.append(below + (ordered[begin + high] - below) * (position - low))
        return result

    def most_common(self, values: I32 | I64) -> I64:
        """The value other than -1 that occurs most often in each group (the smallest of several), else -1."""
        result = np.full(len(self), -1, np.int64)
        known = np.flatnonzero(values >= 0)
        pairs = Groups.of(self.index[known], values[known])
        group, value = self.index[known][pairs.first], values[known][pairs.first]
        order = np.lexsort((-value, pairs.count, group))
        result[group[order]] = value[order]
        return result


def mostly(groups: Groups, values: I32 | I64, weights: I64) -> I64:
    """The value that holds most of each group's weight; -1 (a value like others here) where that is most."""
    pairs = Groups.of(groups.index, values)
    group, weight = groups.index[pairs.first], pairs.sum(weights)
    order = np.lexsort((weight, group))
    result = np.full(len(groups), -1, np.int64)
    result[group[order]] = values[pairs.first][order]
    return result


def _ranked(key: I32 | I64 | U8 | Bool) -> I64:
    """Each value's place among the distinct ones: the same groups in the same order, by small numbers."""
    result: I64 = np.unique(key, return_inverse=True)[1].reshape(-1).astype(np.int64)
    return result
