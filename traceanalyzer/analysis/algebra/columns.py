"""Columns of millions of rows in as little memory as their values need: few bytes, few distinct
values, long runs."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.analysis.algebra.blocks import AT_ONCE, blocks, blockwise
from traceanalyzer.analysis.algebra.lookup import Column, LookedUp
from traceanalyzer.base import dataclass
from traceanalyzer.trace import F64, I32, I64, distinct, is_constant

_NARROW = np.iinfo(np.int32)


MOST = 1 << 16  # distinct numbers; so many codes fit two bytes
FEWEST_ROWS_CODED = 1 << 16  # shorter columns are kept as they are
SELDOM = 64  # columns that change more often than once in so many rows are kept as they are
NEAR = 8
"""Rows that are spread over less than so many times their number are taken from the whole stretch
that holds them."""
FEWEST_ROWS = 1 << 16  # shorter ones are, too


def compact(values: NDArray[Any]) -> NDArray[Any]:
    """The column in less memory: of one value without any, whole numbers that fit 32 bits in these.
    Not to be written to, and not to be multiplied before it is widened."""
    values = dedup_constant(values)
    if (
        values.dtype == np.int64
        and len(values)
        and values.min() >= _NARROW.min
        and values.max() <= _NARROW.max
    ):
        return values if is_constant(values) else values.astype(np.int32)
    return values


def dedup_each(value: Any) -> Any:
    """An array, or a named tuple of arrays and other things, each array as `dedup_constant` makes
    it."""
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*map(dedup_each, value))
    return dedup_constant(value) if isinstance(value, np.ndarray) and value.ndim == 1 else value


def dedup_constant(values: NDArray[Any]) -> NDArray[Any]:
    """The column without any memory where its values are all one. Not to be written to."""
    if not len(values) or is_constant(values):
        return values
    first = values[0]
    same = np.isnan(values) if values.dtype.kind == "f" and np.isnan(first) else values == first
    return np.broadcast_to(first.copy(), len(values)) if same.all() else values


@dataclass(frozen=True, eq=False)
class Coded(LookedUp):
    """A column that is looked up when it is asked for: `column[rows]` is an array, `column[:]` all
    of it."""

    values: F64  # the distinct ones
    codes: NDArray[Any]  # for each row its place among them

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, rows: Any) -> Any:
        # Indexing by codes of one byte takes numpy three times as long.
        return self.values.take(self.codes[rows])

    def copy(self) -> F64:
        """All of it, to be written to."""
        return self[:]


def dictionary_encoded(values: F64) -> F64 | Coded:
    """The column, equal bit by bit, in less memory where there are few distinct numbers. Not to be
    written to."""
    values = dedup_constant(values)
    if len(values) < FEWEST_ROWS_CODED or is_constant(values):
        return values
    bits = values.view(np.int64)
    known = distinct(bits[:: len(bits) // FEWEST_ROWS_CODED])
    while len(known) <= MOST:
        codes, others = _codes(known, bits)
        if codes is not None:
            return Coded(known.view(np.float64), codes)
        known = distinct(np.concatenate((known, others)))
    return values


def _codes(known: I64, bits: I64) -> tuple[NDArray[Any] | None, I64]:
    """The place of each number among the known ones (ascending), or None and those that are not
    known."""
    codes = np.empty(len(bits), np.uint8 if len(known) <= 1 << 8 else np.uint16)
    others = [np.empty(0, np.int64)]
    left = MOST
    for block in blocks(len(bits)):
        place = np.minimum(np.searchsorted(known, bits[block]), len(known) - 1)
        codes[block] = place
        unknown = bits[block][known[place] != bits[block]]
        if len(unknown):
            others.append(distinct(unknown))
            left -= len(others[-1])
        if left < 0:
            break
    return (codes if len(others) == 1 else None), np.concatenate(others)


@dataclass(frozen=True, eq=False)
class RunLengths(LookedUp):
    """A column that is looked up when it is asked for: `column[rows]` is an array, `column[:]` all
    of it."""

    first: I32  # row with which each run begins, the first one 0
    # what the column is in that row, and in all of the run; where it `counts`, one more from row to
    # row
    value: I32
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
        rows = np.flatnonzero(rows) if rows.dtype == np.bool_ else rows
        if not rows.ndim:
            return self._some(rows[None])[0]
        return self._some(rows) if len(rows) <= AT_ONCE else blockwise(self._some, rows)

    def _some(self, rows: I32 | I64) -> I32:
        """The column in these rows."""
        if not len(rows):
            return np.empty(0, np.int32)
        low = int(rows.min())
        high = int(rows.max())
        if low < 0:
            return self._some(np.where(rows < 0, rows + self.rows, rows))
        if high - low < NEAR * len(rows):
            return self._stretch(low, high + 1).take(rows - low)
        # Of another type, all runs would be converted for it.
        rows = rows.astype(np.int32, copy=False)
        run = np.searchsorted(self.first, rows, side="right") - 1
        if not self.counts:
            return self.value.take(run)
        return self.value.take(run) + (rows - self.first.take(run))

    def _stretch(self, start: int, stop: int) -> I32:
        """The column in these rows."""
        if stop <= start:
            return np.empty(0, np.int32)
        runs = slice(
            int(np.searchsorted(self.first, np.int32(start), side="right")) - 1,
            int(np.searchsorted(self.first, np.int32(stop))),
        )
        first = self.first[runs]
        value = self.value[runs]
        edges = np.append(np.maximum(first, start), stop)
        length = edges[1:] - edges[:-1]
        if not self.counts:
            return np.repeat(value, length)
        return np.repeat(value - first, length) + np.arange(start, stop, dtype=np.int32)


def run_lengths(values: I32, *, counts: bool = False) -> Column:
    """The numbers in less memory where they seldom change; where they are to `count`, seldom by
    other than one."""
    if len(values) < FEWEST_ROWS:
        return values
    parts = [np.zeros(1, np.int32)]
    left = len(values) // SELDOM
    for block in blocks(len(values)):
        before = max(block.start - 1, 0)
        parts.append(
            (np.flatnonzero(np.diff(values[before : block.stop]) != counts) + before + 1).astype(
                np.int32
            )
        )
        left -= len(parts[-1])
        if left < 0:
            return values
    first = np.concatenate(parts)
    return RunLengths(first, values[first], len(values), counts)


lean = compact
