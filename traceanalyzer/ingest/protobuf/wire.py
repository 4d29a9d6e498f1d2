"""The wire format of protobuf (protobuf.dev/programming-guides/encoding): numbered fields, each a
number or bytes. Lengths are checked against the bytes that there are, and nothing is copied, so
that damage costs no memory. Nothing recurses: a reader goes only as deep as its format does."""

import math
import struct

import numpy as np

from traceanalyzer.base import dataclass
from traceanalyzer.ingest.columns import concatenated
from traceanalyzer.trace import I64, U8, Bool

VARINT = 0
FIXED64 = 1
BYTES = 2
FIXED32 = 5
_FIXED = {FIXED64: 8, FIXED32: 4}
_KINDS = frozenset((VARINT, FIXED64, BYTES, FIXED32))
_NEGATIVE = 1 << 63
MOST_SHIFT = 63  # bits of a number: what goes on after them is damage
MOST_FIELDS = 1 << 21
"""Of one message: a line of an XPlane has a million at most. Each takes a hundred bytes while it is
read."""
FEW = 32  # so few messages are read one by one: a round of arrays costs as much as this many fields
Field = tuple[int, int, int, int]
"""Number, value, start and end: of a number its value, else the length; where its bytes are (a
number has none)."""


class DamagedMessageError(ValueError):
    """The bytes are no message."""


def fields(data: bytes, at: int = 0, end: int | None = None) -> list[Field]:
    """The fields of one message, in order. Raises DamagedMessageError."""
    found, damage = fields_before_damage(data, at, end)
    if damage:
        raise DamagedMessageError(damage)
    return found


def fields_before_damage(
    data: bytes, at: int = 0, end: int | None = None
) -> tuple[list[Field], str]:
    """The fields of one message up to the one that is cut off, with what there is of that one, and why there are
    no more."""
    end = len(data) if end is None else end
    result: list[Field] = []
    try:
        while at < end and len(result) < MOST_FIELDS:
            key, at = (data[at], at + 1) if data[at] < 0x80 else varint(data, at, end)
            wire = key & 7
            if key < 8 or wire not in _KINDS:
                return result, f"no field before byte {at}"
            if wire in _FIXED:
                size = _FIXED[wire]
            elif at < end and data[at] < 0x80:
                size = data[at]
                at = at + 1
            else:
                size, at = varint(data, at, end)
            stop = at if wire == VARINT else at + size
            if stop > end:
                if at < end:
                    result.append((key >> 3, size, at, end))
                return result, f"the message is cut off at byte {end}"
            result.append((key >> 3, size, at, stop))
            at = stop
    except DamagedMessageError as error:
        return result, str(error)
    return result, "" if at >= end else f"more than {MOST_FIELDS:,} fields"


class ProtoMessage(dict[int, Field]):
    """The fields of one message by number, of several with one number the last. Raises
    DamagedMessageError."""

    def __init__(self, data: bytes, at: int = 0, end: int | None = None) -> None:
        super().__init__([(field[0], field) for field in fields(data, at, end)])
        self._data = data

    def value(self, number: int, otherwise: int = 0) -> int:
        """A number, as int64."""
        field = self.get(number)
        if field is None:
            return otherwise
        return field[1] if field[1] < _NEGATIVE else as_int64(field[1])

    def bytes(self, number: int) -> bytes:
        """Bytes; none where there is no such field."""
        field = self.get(number)
        return b"" if field is None else self._data[field[2] : field[3]]

    def text(self, number: int) -> str:
        """Text; empty where there is no such field."""
        return self.bytes(number).decode("utf-8", "replace")

    def double(self, number: int) -> float:
        """A double; NaN where there is none."""
        raw = self.bytes(number)
        return float(struct.unpack("<d", raw)[0]) if len(raw) == _FIXED[FIXED64] else math.nan


def varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    """The number at a place (64 bits, without a sign), and the place after it. Raises
    DamagedMessageError."""
    value = shift = 0
    while at < end and shift <= MOST_SHIFT:
        byte = data[at]
        at += 1
        if byte < 0x80:
            return value | byte << shift, at
        value |= (byte & 0x7F) << shift
        shift += 7
    raise DamagedMessageError(f"no number before byte {at}")


def as_int64(value: int) -> int:
    """A number as int64, which is how negative ones are written."""
    value &= 2 * _NEGATIVE - 1
    return value - 2 * _NEGATIVE if value >= _NEGATIVE else value


@dataclass(frozen=True, eq=False)
class Fields:
    """The fields of many messages: columns, one row a field. Those of one message are in order."""

    message: I64  # which of the messages it is of
    number: I64
    value: I64  # of a number its value as int64, else the length
    start: I64  # where its bytes are; a number has none
    end: I64

    def take(self, rows: Bool) -> "Fields":
        """The chosen fields."""
        return Fields(*(column[rows] for column in vars(self).values()))


def fields_of(data: bytes, start: I64, end: I64) -> tuple[Fields, Bool]:
    """The fields of many messages, and which messages are damaged (they have the fields before the
    damage). All messages go on to their next field at the same time."""
    view = np.frombuffer(data, np.uint8)
    damaged = (start < 0) | (end > len(data))
    at = start.copy()
    live = np.flatnonzero((start < end) & ~damaged)
    found: list[Fields] = []
    while len(live) > FEW:
        read, is_whole = _next_fields(view, live, at[live], end[live])
        damaged[live[~is_whole]] = True
        found.append(read if is_whole.all() else read.take(is_whole))
        at[live] = read.end
        live = live[is_whole & (read.end < end[live])]
    found.append(_one_by_one(data, live, at, end, damaged))
    columns = zip(*(vars(part).values() for part in found), strict=True)
    return Fields(*(concatenated(list(parts)) for parts in columns)), damaged


def _next_fields(view: U8, messages: I64, at: I64, end: I64) -> tuple[Fields, Bool]:
    """The field at these places of some messages, which end at `end`, and which of the fields are
    undamaged."""
    key, after_key = _varints(view, at)
    value, after_value = _varints(view, after_key)
    wire = key & 7
    is_bytes = wire == BYTES
    width = np.where(wire == FIXED64, 8, np.where(wire == FIXED32, 4, 0))
    is_fixed = width > 0
    begin = np.where(is_fixed, after_key, after_value)
    finish = begin + np.where(is_bytes, value, width)
    is_known = (wire == VARINT) | is_bytes | is_fixed
    is_whole = (key >= 8) & (finish >= begin) & (finish <= end) & is_known
    return Fields(messages, key >> 3, np.where(is_fixed, width, value), begin, finish), is_whole


def _one_by_one(data: bytes, messages: I64, at: I64, end: I64, damaged: Bool) -> Fields:
    """The fields of few messages from `at` on; those that are damaged are marked in `damaged`."""
    rows: list[tuple[int, ...]] = []
    for message in messages.tolist():
        found, damage = fields_before_damage(data, int(at[message]), int(end[message]))
        if damage:
            damaged[message] = True
        for number, value, begin, stop in found:
            if stop in (begin, begin + value):  # the last one may be cut off
                rows.append((message, number, as_int64(value), begin, stop))
    return Fields(*np.array(rows, np.int64).reshape(-1, 5).T)


def _varints(view: U8, at: I64) -> tuple[I64, I64]:
    """Numbers at many places, and the places after them; beyond all bytes where there is no
    number."""
    byte = view.take(at, mode="clip")
    value = (byte & 0x7F).astype(np.int64)
    after = at + 1
    rows = np.flatnonzero(byte >= 0x80)
    shift = 7
    while len(rows) and shift <= MOST_SHIFT:
        byte = view.take(after[rows], mode="clip")
        value[rows] |= (byte & 0x7F).astype(np.int64) << shift
        after[rows] += 1
        rows = rows[byte >= 0x80]
        shift = shift + 7
    after[rows] = np.iinfo(np.int64).max // 2
    return value, after
