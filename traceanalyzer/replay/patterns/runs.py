"""Ops or events that belong together: in one step, in one run of neighbours."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.trace import I32, I64, Bool
from traceanalyzer.trace.distinct import distinct


def each_step(step: I32 | I64, chosen: Bool) -> Iterator[I64]:
    """The chosen entries of each step that has any."""
    for one in distinct(step[chosen]).tolist():
        yield np.flatnonzero(chosen & (step == one))


def after_each(chosen: NDArray[Any]) -> NDArray[Any]:
    """For each entry that of the one before it; False for the first."""
    return np.append(np.zeros(1, chosen.dtype), chosen[:-1])[: len(chosen)]


def split_where(rows: I64, apart: Bool) -> list[I64]:
    """The rows in parts: a new one begins where a row is `apart` (one entry fewer) from the one before it."""
    return np.split(rows, np.flatnonzero(apart) + 1) if len(rows) else []


def every(rows: Bool, count: int) -> Bool:
    """One of so many of these, from the first on."""
    return rows & ((np.cumsum(rows) - 1) % count == 0)
