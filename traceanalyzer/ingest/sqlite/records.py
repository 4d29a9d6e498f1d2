"""Values of thousands of rows of an SQLite table at once.

A row is a header (its length, then the type of every value) and the values, without a gap
(https://sqlite.org/fileformat2.html, section 2.1). A type tells how many bytes a value takes, so
of thousands of rows only some ten headers differ: places and types are worked out for these, and
what lies at the same place in all rows is taken from one copy of their first bytes."""

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.trace import I64, U8

_MOST_COPIED = 120
"""Bytes from a row's beginning; what lies behind them is taken row by row."""
_WORD_BYTES = 8
_TWO_BYTES = 128  # from here on a number of variable length goes on in the next byte
_LEAST_TEXT = 12
_TYPES = np.arange(256)
_NUMBER_WIDTHS = (0, 1, 2, 3, 4, 6, 8, 8, 0, 0, 0, 0)
_TEXT_WIDTHS = (_TYPES[_LEAST_TEXT:] - _LEAST_TEXT) // 2
_WIDTH = np.array([*_NUMBER_WIDTHS, *_TEXT_WIDTHS], np.int64)
"""Bytes of a value by its type."""
_NULL = 0
_FLOAT = 7
_ZERO = 8
_NO_INTEGER = np.isin(_TYPES, (_FLOAT, 10, 11)) | (_TYPES >= _LEAST_TEXT)
_FIRST_BYTES = np.array([0, *(-1 << bits for bits in range(56, -1, -8))])
"""So many first ones of eight bytes."""
_MIXING = -7046029254386353131  # odd, with as many ones as zeros, strewn
_FEW_BITS = 13
"""Of a mixed number: few headers have the same, and a table of all stays in the processor's
cache."""


class OddPageError(Exception):
    """The table is not of the plain kind that is read here."""


def varints(data: U8, place: I64) -> tuple[I64, I64]:
    """The numbers of variable length that begin at these places, and where they end."""
    value = np.zeros(len(place), np.int64)
    place = place.copy()
    open_: slice | I64 = slice(None)  # numbers with a further byte, as a rule all or few
    for _ in range(_WORD_BYTES):
        byte = data[place[open_]]
        value[open_] = value[open_] << 7 | (byte & (_TWO_BYTES - 1))
        place[open_] += 1
        goes_on = byte >= _TWO_BYTES
        if not goes_on.any():
            return value, place
        if not goes_on.all():
            open_ = np.flatnonzero(goes_on) if isinstance(open_, slice) else open_[goes_on]
    raise OddPageError  # nine bytes: negative, or beyond what is counted


def after_varints(data: U8, place: I64) -> I64:
    """Where the numbers of variable length end that begin at these places, quicker than `varints`.
    Raises OddPageError."""
    end = place
    goes_on = np.ones(1, bool)
    for _ in range(_WORD_BYTES):
        byte = data.take(end)
        end = end + goes_on
        goes_on = goes_on & (byte >= _TWO_BYTES)
        if not goes_on.any():
            return end
    raise OddPageError


class Headers(NamedTuple):
    """The headers of some rows, those that are equal byte by byte as one kind."""

    begin: I64  # where each row's header begins
    kind: I64  # of each row
    first: I64  # of each kind a row

    @classmethod
    def of(cls, data: U8, begin: I64) -> "Headers":
        """Those that begin at these places. Raises OddPageError."""
        length = data[begin].astype(np.int64)
        longest = int(length.max())
        if longest >= _TWO_BYTES:
            raise OddPageError
        rows = _copied(data, begin, longest + _WORD_BYTES)
        if length.min() == longest:
            length = length[:1]
        parts: list[I64] = []
        mixed = np.zeros(len(begin), np.int64)
        for at in range(0, longest, _WORD_BYTES):
            of_header = np.clip(length - at, 0, _WORD_BYTES)
            parts.append(_word(rows, at) & _FIRST_BYTES[of_header])
            mixed = (mixed + parts[-1]) * _MIXING
        for shift in (0, _FEW_BITS):
            kind, first = _few_kinds(mixed << shift)
            if _are_equal(parts, kind, first):
                return cls(begin, kind, first)
        _, first, kind = np.unique(mixed, return_index=True, return_inverse=True)
        if not _are_equal(parts, kind, first):
            raise OddPageError  # two headers that are mixed to one number
        return cls(begin, kind, first)


def _few_kinds(mixed: I64) -> tuple[I64, I64]:
    """The rows by the highest bits of these numbers: the kind of each, and of each kind a row."""
    code = mixed >> (64 - _FEW_BITS) & ((1 << _FEW_BITS) - 1)
    row = np.full(1 << _FEW_BITS, -1)
    row[code] = np.arange(len(code))
    is_kind = row >= 0
    return (np.cumsum(is_kind) - 1).take(code), row[is_kind]


def _are_equal(parts: list[I64], kind: I64, first: I64) -> bool:
    """Whether the rows of each kind have the same parts."""
    return all(np.array_equal(part, part[first].take(kind)) for part in parts)


class Value(NamedTuple):
    """A value of each row, by the kind of the row's header."""

    type: I64
    offset: I64  # from where the header begins

    @property
    def width(self) -> I64:
        """Bytes that it takes; none where the type says what it is."""
        return _WIDTH[self.type]

    @property
    def fixed(self) -> int | None:
        """Its offset, where that is the same in all rows and not far."""
        offset = int(self.offset[0])
        return offset if offset <= _MOST_COPIED and (self.offset == offset).all() else None

    def places(self, headers: Headers) -> I64:
        """Where it lies in each row."""
        return headers.begin + self.offset.take(headers.kind)


def values_of(
    data: U8, headers: Headers, end: I64, names: tuple[str, ...], wanted: Collection[str]
) -> dict[str, Value]:
    """Each wanted value of rows that have these headers and end there. Raises OddPageError."""
    begin = headers.begin[headers.first]
    at = begin + 1
    body = begin + data[begin]
    stop = body.copy()
    found: dict[str, Value] = {}
    for name in names[: 1 + max(map(names.index, wanted), default=-1)]:
        type_ = data[at].astype(np.int64)
        at += 1
        width = _WIDTH[type_]
        longer = np.flatnonzero(type_ >= _TWO_BYTES)
        if len(longer):
            more = data[at[longer]]
            if (more >= _TWO_BYTES).any():  # a text that does not fit a page
                raise OddPageError
            type_[longer] = (type_[longer] & (_TWO_BYTES - 1)) << 7 | more
            width[longer] = (type_[longer] - _LEAST_TEXT) // 2
            at[longer] += 1
        if name in wanted:
            found[name] = Value(type_, body - begin)
        body += width
    length = (body - begin).take(headers.kind)
    if (at > stop).any() or (headers.begin + length > end).any():
        raise OddPageError
    return found


def integer_columns(
    data: U8, headers: Headers, values: Mapping[str, Value], nulls: Mapping[str, int]
) -> dict[str, I64]:
    """Columns of these values; `nulls`: what stands for NULL in each. Raises OddPageError."""
    fixed = [value.fixed or 0 for value in values.values()]
    rows = _copied(data, headers.begin, max(fixed, default=0) + _WORD_BYTES)
    return {
        name: _column(data, rows, headers, value, nulls[name]) for name, value in values.items()
    }


def _column(data: U8, rows: NDArray[Any], headers: Headers, value: Value, null: int) -> I64:
    """A column; `rows`: what begins with each header."""
    if int(value.type.max()) >= len(_NO_INTEGER) or _NO_INTEGER[value.type].any():
        raise OddPageError
    is_empty = value.width == 0
    told = np.where(value.type == _NULL, null, value.type - _ZERO)
    if is_empty.all():
        return told.take(headers.kind)
    if value.fixed is not None:
        result = _shortened(_word(rows, value.fixed), _WORD_BYTES, headers, value)
    elif value.width.max() <= 2:
        result = _one_or_two_bytes(data, headers, value)
    else:
        result = _shortened(_words(data, value.places(headers)), _WORD_BYTES, headers, value)
    if is_empty.any():
        result = np.where(is_empty.take(headers.kind), told.take(headers.kind), result)
    return result


def _one_or_two_bytes(data: U8, headers: Headers, value: Value) -> I64:
    """Values of no more: bytes are taken in a sixth of the time of words."""
    place = value.places(headers)
    result = data.view(np.int8).take(place).astype(np.int64)
    most = int(value.width.max())
    if most == 2:
        result <<= 8
        result |= data.take(place + 1)
    return _shortened(result, most, headers, value)


def _shortened(found: I64, width: int, headers: Headers, value: Value) -> I64:
    """The values that begin in so many bytes each."""
    beyond = 8 * (width - value.width) % 64  # of one without bytes any
    is_one = (beyond == beyond[0]).all()
    found >>= beyond[:1] if is_one else beyond.take(headers.kind)
    return found


def _copied(data: U8, places: I64, length: int) -> NDArray[Any]:
    """So many bytes from each place: one item each."""
    words = -(-length // _WORD_BYTES)
    item = np.dtype((np.void, _WORD_BYTES * words))
    count = len(data) - item.itemsize + 1
    every = np.ndarray((count,), item, data.data, strides=(1,))
    return every[places]


def _word(rows: NDArray[Any], at: int) -> I64:
    """The eight bytes that begin there in each row."""
    strides = (rows.itemsize,)
    return np.ndarray((len(rows),), ">i8", rows.data, at, strides).astype(np.int64)


def _words(data: U8, places: I64) -> I64:
    """The eight bytes that begin at each place."""
    return _word(_copied(data, places, _WORD_BYTES), 0)


def text_column(data: U8, headers: Headers, value: Value) -> list[bytes]:
    """A column of text, undecoded; nothing where none is recorded. Raises OddPageError."""
    if ((value.type > _NULL) & (value.type < _LEAST_TEXT)).any():
        raise OddPageError
    raw = data.tobytes()
    place = value.places(headers)
    length = np.maximum(value.type - _LEAST_TEXT, 0) // 2
    stop = place + length.take(headers.kind)
    places = zip(place.tolist(), stop.tolist(), strict=True)
    return [raw[a:b] for a, b in places]
