"""Columns of millions of rows that seldom change from row to row: what they are from where on."""

from __future__ import annotations

from typing import Any

import numpy as np

from traceanalyzer.analysis.algebra.blocks import blocks, blockwise
from traceanalyzer.analysis.algebra.lookup import Column, LookedUp
from traceanalyzer.base.frozen import dataclass
from traceanalyzer.trace import I32, I64

SELDOM = 64
"""Columns that change more often than once in so many rows are kept as they are."""
NEAR = 8
"""Rows that are spread over less than so many times their number are taken from the whole stretch that holds them."""
WORTH = 1 << 16
"""Shorter ones are, too."""


@dataclass(frozen=True, eq=False)
class RunLengths(LookedUp):
    """A column that is looked up when it is asked for: `column[rows]` is an array, `column[:]` all of it."""

    first: I32
    """Row with which each run begins, the first one 0."""
    value: I32
    """What the column is in that row, and in all of the run; where it `counts`, one more from row to row."""
    rows: int
    counts: bool

    @property
    def dtype(self) -> np.dtype[np.int32]:
        """Type of its numbers."""
        return self.value.dtype

    def __len__(self) -> int:
        return self.rows

    def __getitem__(self, rows: Any) -> Any:
        if isinstance(rows, slice):
            start, stop, step = rows.indices(self.rows)
            return self._stretch(start, stop) if step == 1 else self[np.arange(start, stop, step)]
        rows = np.asarray(rows)
        if rows.dtype == np.bool_:
            rows = np.flatnonzero(rows)
        if rows.ndim == 0:
            return self._some(rows[None])[0]
        return blockwise(self._some, rows)

    def _some(self, rows: I32 | I64) -> I32:
        """The column in these rows."""
        if not len(rows):
            return np.empty(0, np.int32)
        low, high = int(rows.min()), int(rows.max())
        if low < 0:
            return self._some(np.where(rows < 0, rows + self.rows, rows))
        if high - low < NEAR * len(rows):
            return self._stretch(low, high + 1)[rows - low]
        run = np.searchsorted(self.first, rows, side="right") - 1
        passed = (rows - self.first[run]).astype(np.int32) if self.counts else np.int32(0)
        return self.value[run] + passed

    def _stretch(self, start: int, stop: int) -> I32:
        """The column in these rows."""
        if stop <= start:
            return np.empty(0, np.int32)
        runs = slice(int(np.searchsorted(self.first, start, side="right")) - 1, int(np.searchsorted(self.first, stop)))
        first, value = self.first[runs], self.value[runs]
        edges = np.append(np.maximum(first, start), stop)
        length = edges[1:] - edges[:-1]
        if not self.counts:
            return np.repeat(value, length)
        result = np.repeat(value - first, length)
        result += np.arange(start, stop, dtype=np.int32)
        return result


def run_lengths(values: I32, *, counts: bool = False) -> Column:
    """The same numbers in less memory where they seldom change; where they are to `count`, seldom by other than one."""
    if len(values) < WORTH:
        return values
    parts, left = [np.zeros(1, np.int32)], len(values) // SELDOM
    for here in blocks(len(values)):
        before = max(here.start - 1, 0)
        new = np.flatnonzero(np.diff(values[before : here.stop]) != int(counts)) + before + 1
        left -= len(new)
        if left < 0:
            return values
        parts.append(new.astype(np.int32))
    first = np.concatenate(parts)
    return RunLengths(first, values[first], len(values), counts)
