"""Columns as few bytes: a column of one value is that value, any other its distance from its least in few bytes."""

from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from traceanalyzer.trace import alike

_WIDTHS = (1, 2, 4)
"""Bytes of an unsigned distance; what needs more is kept as it is."""


class Packed(Struct, array_like=True, forbid_unknown_fields=True):
    """How a column is kept."""

    width: int
    """Bytes a value; 0: all values are `least`."""
    least: int
    """Added to every value."""


def pack(values: NDArray[Any], dtype: np.dtype[Any] | None = None) -> tuple[Packed, bytes]:
    """An integer column's form and bytes (little-endian); `dtype`: what it is unpacked to, if not its own type."""
    dtype = dtype or values.dtype
    if not len(values):
        return Packed(0, 0), b""
    least, most = int(values.min()), int(values.max())
    if least == most:
        return Packed(0, least), b""
    for width in _WIDTHS:
        if width < dtype.itemsize and most - least < 1 << (8 * width):
            distance = values.astype(np.int64) - least
            return Packed(width, least), distance.astype(_stored(width)).tobytes()
    return Packed(dtype.itemsize, 0), values.astype(dtype.newbyteorder("<")).tobytes()


def unpack(form: Packed, data: bytearray, rows: int, dtype: np.dtype[Any]) -> NDArray[Any]:
    """The column of `rows` values. Raises ValueError where form and bytes are not those of such a column."""
    if len(data) != rows * form.width:
        raise ValueError("a column of another length")
    if form.width == 0:
        return alike(_fitting(form.least, dtype), rows, dtype)
    if form.width == dtype.itemsize and form.least == 0:
        return np.frombuffer(data, dtype.newbyteorder("<")).astype(dtype, copy=False)
    if form.width not in _WIDTHS or form.width >= dtype.itemsize:
        raise ValueError("a column of another type")
    _fitting(form.least + (1 << 8 * form.width) - 1, np.dtype(np.int64))
    values = np.frombuffer(data, _stored(form.width)).astype(np.int64)
    values += _fitting(form.least, dtype)
    if len(values):
        _fitting(int(values.max()), dtype)
    return values.astype(dtype, copy=False)


def _stored(width: int) -> np.dtype[Any]:
    return np.dtype(f"<u{width}")


def _fitting(value: int, dtype: np.dtype[Any]) -> int:
    limits = np.iinfo(dtype)
    if not limits.min <= value <= limits.max:
        raise ValueError("a value beyond its column")
    return value
