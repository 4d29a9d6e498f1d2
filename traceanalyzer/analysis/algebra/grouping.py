"""Rows put into groups by equal keys, and figures of each group, without a loop over rows."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.analysis.algebra.blocks import blocks, scatter
from traceanalyzer.analysis.algebra.columns import Coded
from traceanalyzer.analysis.algebra.lookup import rows_or_slice, stable_order
from traceanalyzer.base import dataclass
from traceanalyzer.trace import F64, I32, I64, U8, Bool, distinct_places, near

_MOST_COMBINED = 2**62


@dataclass(frozen=True, eq=False)
class Groups:
    """A partition of rows; groups are in ascending order of their keys."""

    index: I32 | I64  # for each row its group
    first: I64  # for each group its first row
    count: I64  # for each group how many rows it has; at least 1

    @classmethod
    def of(cls, *keys: I32 | I64 | U8 | Bool) -> "Groups":
        """Group rows that are equal in all of the keys (integers of any size together: those too
        large for a table are replaced by their places among the distinct ones)."""
        combined: I32 | I64
        combined = np.zeros(len(keys[0]), np.int32)
        highest = 0
        for key in keys if len(combined) else ():
            low = int(key.min())
            width = int(key.max()) - low + 1
            if width == 1:
                continue
            if highest and not near(0, (highest + 1) * width, len(combined)):
                values, combined = distinct_places(combined)
                highest = len(values) - 1
            if not near(0, (highest + 1) * width, len(combined)):
                values, key = distinct_places(key)
                low = 0
                width = len(values)
            highest = (highest + 1) * width - 1
            if highest > np.iinfo(combined.dtype).max:
                combined = combined.astype(np.int64)
            combined *= width
            for block in blocks(len(key)):
                combined[block] += np.subtract(key[block], low, dtype=np.int64)
        values, index = distinct_places(combined)
        return cls(index, first_rows(index, len(values)), counts(index, len(values)))

    def __len__(self) -> int:
        return len(self.count)

    @property
    def rows(self) -> list[I64]:
        """The rows of each group, in order."""
        if not len(self):
            return []
        return np.split(stable_order(self.index), np.cumsum(self.count)[:-1])

    def sum(self, values: I32 | I64 | F64 | Bool) -> F64:
        """Sum of the values in each group; exact below 2**53."""
        return sums(self.index, values, len(self))

    def quantiles(self, values: I32 | I64, *shares: float) -> list[F64]:
        """The quantiles at `shares` (0..1) of the values in each group, linearly interpolated."""
        ordered = self._ordered(values)
        begin = np.cumsum(self.count) - self.count
        result = []
        for share in shares:
            position = (self.count - 1) * share
            low = np.floor(position).astype(np.int64)
            high = np.minimum(low + 1, self.count - 1)
            below = ordered[begin + low].astype(np.float64)
            result.append(below + (ordered[begin + high] - below) * (position - low))
        return result

    def _ordered(self, values: I32 | I64) -> I32 | I64:
        """The values group by group, each ascending."""
        low = int(values.min()) if len(values) else 0
        span = int(values.max()) - low + 1 if len(values) else 1
        if span > _MOST_COMBINED // max(len(self), 1):
            return values[np.lexsort((values, self.index))]
        # As one number each, which is sorted in a tenth of the time.
        combined: I64 = np.multiply(self.index, span, dtype=np.int64)
        combined += values
        combined -= low
        combined.sort()
        combined %= span
        combined += low
        return combined

    def most_common(self, values: I32 | I64 | U8) -> I64:
        """The value other than -1 that occurs most often in each group (the smallest of several),
        else -1."""
        result = np.full(len(self), -1, np.int64)
        known: slice | I64 = rows_or_slice(values >= 0)
        index = self.index[known]
        values = values[known]
        pairs = Groups.of(index, values)
        group = index[pairs.first]
        value = values[pairs.first]
        order = np.lexsort((-value, pairs.count, group))
        result[group[order]] = value[order]
        return result


def sums(index: I32 | I64, values: NDArray[Any] | Coded, count: int) -> F64:
    """Sum of the values of each of so many groups, of which `index` has that of each: `np.bincount`
    to the last bit, without copies of both."""

    def numbers(index: I32 | I64, values: Any) -> tuple[I32 | I64, F64]:
        return index, np.asarray(values, np.float64)

    return scatter(np.add, np.zeros(count), numbers, index, values)


def counts(index: I32 | I64, count: int) -> I64:
    """How many rows each of so many groups has."""
    return scatter(np.add, np.zeros(count, np.int64), lambda index: (index, 1), index)


def first_rows(index: I32 | I64, count: int) -> I64:
    """The first row of each of so many groups, each of which has one; `index`: the group of each
    row."""
    first = np.empty(count, np.int64)
    for block in reversed(blocks(len(index))):
        first[index[block][::-1]] = np.arange(
            block.stop - 1, block.start - 1, -1
        )  # the first row is written last
    return first


def weighted_mode(groups: Groups, values: I32 | I64, weights: I32 | I64) -> I64:
    """The value that holds most of each group's weight; -1 (a value like others here) where that is
    most."""
    pairs = Groups.of(groups.index, values)
    group = groups.index[pairs.first]
    weight = pairs.sum(weights)
    order = np.lexsort((weight, group))
    result = np.full(len(groups), -1, np.int64)
    result[group[order]] = values[pairs.first][order]
    return result
