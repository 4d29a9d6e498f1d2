"""Damaged JSON text of a few events: mend what is mendable, contain the rest. A chunk is tried
strictly, then with numbers as text, with NaN and Infinity taken out, with any JSON types, and last
event by event, mended: from cheap to dear. What that kept and lost is counted, and the rows are
checked against the raw text, so that no two events merge and none vanishes unnoticed."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from traceanalyzer.base import regex
from traceanalyzer.ingest.kineto.events import LAX, NEAR, STRICT, CompleteEvent, Event
from traceanalyzer.ingest.kineto.loose import event_of

BOUNDARY = regex(rb'\}\s*+(?:,\s*+)?(?=\{(?:[^{}]{0,4096}?"ph"|\s*"args")\s*:)')
"""Between two events: what ends one, and an object that has a phase, which none nested in an
event's `args` has."""
_COMPLETE = regex(rb'"ph"\s*:\s*"X"')
_LOOSE: msgspec.json.Decoder[Any] = msgspec.json.Decoder(float_hook=str)
_NOT_FINITE = regex(
    rb'((?<!\\)"\s*:\s*)-?(?:nan|inf(?:inity)?)\b(?:\((?:ind|snan)\))?', re.IGNORECASE
)
"""NaN or Infinity as the value of a key; inside a string the quote before the colon would be
escaped."""
_VALUE_BEGINS = regex(rb':\s*+"')
_VALUE_ENDS = regex(rb'"(?=\s*+(?:,\s*+"[^"\n]{1,60}"\s*+:|[}\]]))')
"""A text value goes up to the first quote after which another key, or the end of the object,
follows."""
_SURROGATE_PAIR = rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_IN_STRING = regex(
    _SURROGATE_PAIR
    + rb'|(\\u[dD][89a-fA-F][0-9a-fA-F]{2})|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})|[\\"\x00-\x1f]'
)  # the group: a lone surrogate
_OUTSIDE = regex(
    rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\Z)|-?\b(?:nan|inf(?:inity)?)\b(?:\((?:ind|snan)\))?|,(?=\s*[}\]])|\}(?=\s*\{)',
    re.DOTALL | re.IGNORECASE,
)
_MENDED = {b",": b"", b"}": b"},"}
"""What becomes of what is damaged outside strings; of all else `null`."""
_CONTROL = {0x08: b"\\b", 0x09: b"\\t", 0x0A: b"\\n", 0x0C: b"\\f", 0x0D: b"\\r"}


@dataclass
class Decoded:
    """Events of a chunk and what it took to read them."""

    events: list[Event] = field(default_factory=list)
    repaired: int = 0
    lost: int = 0


def decode(text: bytes) -> Decoded:
    """The events in a chunk of text, which holds whole events separated by commas. Never raises."""
    for decoder in (STRICT, LAX):
        events = _typed(decoder, text)
        if events is not None:
            return Decoded(events)
    return _finite(text) or _loosely(text) or _one_by_one(text)


def decode_quickly(*parts: bytes | memoryview) -> list[Event] | None:
    """The events of an undamaged chunk that comes in parts, None if it is not one. Their times are
    all numbers, or all text."""
    events = _typed(NEAR, *parts)
    return _typed(STRICT, *parts) if events is None else events


def decode_strictly(text: bytes) -> list[Event] | None:
    """The events of an undamaged chunk, None if it is not one. Their times are text."""
    return _typed(STRICT, text)


def _typed(
    decoder: msgspec.json.Decoder[list[Event]], *parts: bytes | memoryview
) -> list[Event] | None:
    try:
        return decoder.decode(b"".join((b"[", *parts, b"]")))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _finite(text: bytes) -> Decoded | None:
    """The chunk with null for NaN and Infinity."""
    finite, replaced = _NOT_FINITE.subn(rb"\1null", text)
    events = _typed(LAX, finite) if replaced else None
    return None if events is None else Decoded(events, repaired=replaced)


def _loosely(text: bytes) -> Decoded | None:
    try:
        rows = _LOOSE.decode(b"[" + text + b"]")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    result = Decoded()
    for row in rows:
        try:
            event, mended = event_of(row)
        except RecursionError:
            event = None
            mended = False
        result.repaired += mended
        if event is None:
            result.lost += 1
        else:
            result.events.append(event)
    return result


def _one_by_one(text: bytes) -> Decoded:
    """Each event by itself; rows that the raw text promises and that did not come out are lost."""
    result = Decoded()
    start = 0
    pieces = []
    for match in BOUNDARY.finditer(text):
        pieces.append(text[start : match.start() + 1])
        start = match.end()
    stripped = (piece.strip(b" \t\r\n,\x00") for piece in (*pieces, text[start:]))
    for piece in filter(None, stripped):
        strict = decode_strictly(piece)
        if strict is not None:
            result.events += strict
            continue
        found = _finite(piece) or _loosely(piece) or _loosely(mend(piece)) or Decoded(lost=1)
        result.events += found.events
        result.lost += found.lost
        result.repaired += max(found.repaired, len(found.events))
    spans = sum(type(event) is CompleteEvent for event in result.events)
    result.lost = max(result.lost, len(_COMPLETE.findall(text)) - spans)
    return result


def mend(text: bytes) -> bytes:
    """JSON text with quotes, backslashes, control characters and bytes in strings escaped, NaN and
    Infinity null, superfluous commas dropped and missing ones between objects added."""
    return _substituted(
        _OUTSIDE, _outside, _with_quoted_values(text.decode("utf-8", "replace").encode())
    )


def _with_quoted_values(text: bytes) -> bytes:
    """The text with what stands in text values escaped. Ends are looked for once, in step with
    beginnings: a search for the end from each beginning costs the square of the text's length where
    there is none."""
    result = bytearray()
    done = 0
    ends = _VALUE_ENDS.finditer(text)
    end = next(ends, None)
    for begins in _VALUE_BEGINS.finditer(text):
        if begins.start() < done:
            continue
        while end is not None and end.start() < begins.end():
            end = next(ends, None)
        if end is None:
            break
        result += text[done : begins.end()]
        result += _substituted(_IN_STRING, _escape, text[begins.end() : end.start()])
        done = end.start()
    return bytes(result + text[done:])


def _substituted(
    pattern: re.Pattern[bytes], change: Callable[[re.Match[bytes]], bytes], text: bytes
) -> bytes:
    """As `pattern.sub`, but it keeps no list of the parts, which takes fifty times the text's
    memory."""
    result = bytearray()
    done = 0
    for match in pattern.finditer(text):
        result += text[done : match.start()]
        result += change(match)
        done = match.end()
    return bytes(result + text[done:])


def _escape(match: re.Match[bytes]) -> bytes:
    if match[1]:
        return b"\\ufffd"
    found = match[0]
    if len(found) > 1:
        return found
    return b"\\" + found if found in b'\\"' else _CONTROL.get(found[0], b"\\u%04x" % found[0])


def _outside(match: re.Match[bytes]) -> bytes:
    found = match[0]
    return found if found.startswith(b'"') else _MENDED.get(found, b"null")
