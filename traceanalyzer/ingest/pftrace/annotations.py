"""What a Perfetto event carries beside its name, as members of the JSON that Kineto writes for it."""

from __future__ import annotations

import math
import re
from collections.abc import Callable

import msgspec

from traceanalyzer.ingest.protobuf.wire import DamagedMessageError, Message, fields

DEEPEST = 16
"""Lists within lists; shapes take three."""
MOST_KEPT = 1 << 16
"""Texts of annotations kept for the next one with the same bytes: steps repeat."""

_BOOL, _UINT, _INT, _DOUBLE, _STRING, _NAME, _DICT, _ARRAY = 2, 3, 4, 5, 6, 10, 11, 12
_WHOLE = re.compile(rb"-?(?:0|[1-9]\d{0,17})")
_RENAMED = {b"device id": b"device", b"context id": b"context", b"stream id": b"stream"}
"""Kineto's names of what stages carry; all others have the same in both."""


class Kept(dict[bytes, bytes]):
    """What `make` makes of some bytes; the same bytes are made into it once."""

    def __init__(self, make: Callable[[bytes], bytes]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, raw: bytes) -> bytes:
        if len(self) >= MOST_KEPT:
            self.clear()
        made = self[raw] = self._make(raw)
        return made


def quoted(raw: bytes) -> bytes:
    """Text as JSON."""
    return msgspec.json.encode(raw.decode("utf-8", "replace"))


def member(raw: bytes) -> bytes:
    """`"name":value` of a DebugAnnotation. Raises DamagedMessageError."""
    name, value = _annotation(raw, 0, len(raw), 0)
    return quoted(name) + b":" + value


def extra(raw: bytes) -> bytes:
    """The same of a stage's ExtraData, whose values are all text."""
    found = Message(raw)
    name, value = found.bytes(1), found.bytes(2)
    return quoted(_RENAMED.get(name, name)) + b":" + (value if _WHOLE.fullmatch(value) else quoted(value))


def _annotation(raw: bytes, at: int, end: int, depth: int) -> tuple[bytes, bytes]:
    """Name and value; one without a value is an empty list."""
    if depth > DEEPEST:
        raise DamagedMessageError("lists within lists without an end")
    found, items = Message(raw, at, end), list[bytes]()
    nested = fields(raw, at, end) if _ARRAY in found or _DICT in found else ()
    for number, _, start, stop in nested:
        if number in (_DICT, _ARRAY):
            name, value = _annotation(raw, start, stop, depth + 1)
            items.append(value if number == _ARRAY else quoted(name) + b":" + value)
    form = b"{%b}" if _DICT in found else b"[%b]"
    return found.bytes(_NAME), _scalar(found) or form % b", ".join(items)


def _scalar(found: Message) -> bytes:
    if _STRING in found:
        return quoted(found.bytes(_STRING))
    if _BOOL in found:
        return b"true" if found.value(_BOOL) else b"false"
    if _DOUBLE in found:
        return repr(value).encode() if math.isfinite(value := found.double(_DOUBLE)) else b"null"
    return next((b"%d" % found.value(number) for number in (_INT, _UINT) if number in found), b"")
