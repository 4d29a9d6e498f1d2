"""Columns of millions of rows that hold few distinct numbers: each number once, and a byte or two a row."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.analysis.algebra.blocks import blocks
from traceanalyzer.analysis.algebra.lean import flat
from traceanalyzer.analysis.algebra.lookup import LookedUp
from traceanalyzer.base.frozen import dataclass
from traceanalyzer.trace import F64, I64, is_constant
from traceanalyzer.trace.distinct import distinct

MOST = 1 << 16
"""Distinct numbers; so many codes fit two bytes."""
WORTH = 1 << 16
"""Shorter columns are kept as they are."""


@dataclass(frozen=True, eq=False)
class Coded(LookedUp):
    """A column that is looked up when it is asked for: `column[rows]` is an array, `column[:]` all of it."""

    values: F64
    """The distinct ones."""
    codes: NDArray[Any]
    """For each row its place among them."""

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, rows: Any) -> Any:
        return self.values[self.codes[rows]]

    def copy(self) -> F64:
        """All of it, to be written to."""
        return self[:]


def coded(values: F64) -> F64 | Coded:
    """The same numbers, bit by bit, in less memory where there are few distinct ones. Not to be written to."""
    values = flat(values)
    if len(values) < WORTH or is_constant(values):
        return values
    bits = values.view(np.int64)
    known = distinct(bits[:: len(bits) // WORTH])
    while len(known) <= MOST:
        codes, others = _codes(known, bits)
        if codes is not None:
            return Coded(known.view(np.float64), codes)
        known = distinct(np.concatenate((known, others)))
    return values


def _codes(known: I64, bits: I64) -> tuple[NDArray[Any] | None, I64]:
    """The place of each number among the known ones (ascending), or None and those that are not known."""
    codes = np.empty(len(bits), np.uint8 if len(known) <= 1 << 8 else np.uint16)
    others, left = [np.empty(0, np.int64)], MOST
    for here in blocks(len(bits)):
        place = np.minimum(np.searchsorted(known, bits[here]), len(known) - 1)
        codes[here] = place
        unknown = bits[here][known[place] != bits[here]]
        if len(unknown):
            others.append(distinct(unknown))
            left -= len(others[-1])
            if left < 0:
                break
    return (codes if len(others) == 1 else None), np.concatenate(others)
