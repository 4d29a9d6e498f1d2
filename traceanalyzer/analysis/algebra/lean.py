"""Columns of millions of rows in as little memory as their values need."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_NARROW = np.iinfo(np.int32)


def lean(values: NDArray[Any]) -> NDArray[Any]:
    """The same values: of one value without any memory, whole numbers that fit 32 bits in these. Not to be written to,
    and not to be multiplied before it is widened."""
    if not len(values):
        return values
    one = values[0]
    same = np.isnan(values) if values.dtype.kind == "f" and np.isnan(one) else values == one
    if same.all():
        return np.broadcast_to(one.copy(), len(values))
    if values.dtype == np.int64 and values.min() >= _NARROW.min and values.max() <= _NARROW.max:
        return values.astype(np.int32)
    return values
