"""Columns of millions of rows in as little memory as their values need."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.trace import is_constant

_NARROW = np.iinfo(np.int32)


def lean(values: NDArray[Any]) -> NDArray[Any]:
    """The same values: of one value without any memory, whole numbers that fit 32 bits in these. Not to be written to,
    and not to be multiplied before it is widened."""
    values = flat(values)
    if values.dtype == np.int64 and len(values) and values.min() >= _NARROW.min and values.max() <= _NARROW.max:
        return values if is_constant(values) else values.astype(np.int32)
    return values


def flat_each(made: Any) -> Any:
    """The same array, or named tuple of arrays and other things, each array as `flat` makes it."""
    if isinstance(made, tuple) and hasattr(made, "_fields"):
        return type(made)(*map(flat_each, made))
    return flat(made) if isinstance(made, np.ndarray) and made.ndim == 1 else made


def flat(values: NDArray[Any]) -> NDArray[Any]:
    """The same values, without any memory where they are all one. Not to be written to."""
    if not len(values) or is_constant(values):
        return values
    one = values[0]
    same = np.isnan(values) if values.dtype.kind == "f" and np.isnan(one) else values == one
    return np.broadcast_to(one.copy(), len(values)) if same.all() else values
