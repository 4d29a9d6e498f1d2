"""Columns of millions of rows that seldom change from row to row: what they are from where on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from traceanalyzer.analysis.algebra.lookup import blocks, places

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from traceanalyzer.analysis.algebra.lookup import Column
    from traceanalyzer.trace import I32

SELDOM = 64
"""Columns that change more often than once in so many rows are kept as they are."""
WORTH = 1 << 16
"""Shorter ones are, too."""


@dataclass(frozen=True, eq=False)
class RunLengths:
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
            rows = np.arange(*rows.indices(self.rows), dtype=np.int32)
        rows = np.asarray(rows)
        if rows.dtype == np.bool_:
            rows = np.flatnonzero(rows)
        if rows.ndim == 0:
            return self[rows[None]][0]
        if len(rows) and rows.min() < 0:
            rows = np.where(rows < 0, rows + self.rows, rows)
        run = places(self.first, rows, side="right") - 1
        result = self.value[run]
        if self.counts:
            result += (rows - self.first[run]).astype(np.int32)
        return result

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        del copy  # it is one in any case
        return np.asarray(self[:], dtype)


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
