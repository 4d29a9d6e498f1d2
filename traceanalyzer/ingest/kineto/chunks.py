"""A Kineto file as metadata text and chunks of whole events, whatever its layout, cut where events
end."""

import re
from collections import deque
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Protocol

from traceanalyzer.base import regex
from traceanalyzer.ingest.kineto.events import Event
from traceanalyzer.ingest.kineto.repair import (
    BOUNDARY,
    Decoded,
    decode,
    decode_quickly,
    decode_strictly,
)
from traceanalyzer.ingest.stream import ByteStream

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_EVENTS_KEY = regex(rb'"traceEvents"\s*:\s*\[')
_END = regex(rb'\}\s*+(?:,\s*+)?(?=\]\s*(?:,\s*(?:"|$)|\}|$))')
"""Where the last event may end: the array closes, and a key or the end of the object follows."""
_COMMA = regex(rb"\}\s*+,\s*+(?=\{)")
_EMPTY = regex(rb"^\s*+(?:,\s*+)?(?=\])")
_BLANK = b" \t\r\n,\x00"
TAIL_BYTES = 8192
"""How much of a piece is searched for the end of an event before all of it is; few events are
longer."""
_MAX_METADATA_BYTES = 64 * 1024 * 1024  # the process groups of the largest jobs take a few MB
_OVERLAP_BYTES = 4096
"""Bytes of the text already searched that are searched again, so that nothing is missed across two pieces."""
_MAX_EVENT_BYTES = 16 * 1024 * 1024
"""No event is longer; text without an end of an event for so long is damage, and is not collected
further."""
_MAX_CLOSINGS = 8  # places tried as the end of the array in one chunk; each costs a decode


class WholeDecoder(Protocol):
    """Decodes an undamaged chunk that comes in parts; None if it is not one."""

    def __call__(self, *parts: bytes | memoryview) -> list[Event] | None:
        """The events that are still to be added to the rows."""
        ...


@dataclass
class KinetoFile:
    """What is met besides the events while they are read; holds once `rest` is exhausted."""

    # text of the object around the events, with an empty array in their place
    metadata: bytes = b""
    # of events in the file: more than one where recordings were written one after the other
    arrays: int = 0
    truncated: bool = False

    def begin(self, stream: ByteStream) -> bytes | None:
        """Read up to the first array of events: what has been read of it, None where there is
        none."""
        self.metadata, buffer = _to_events(stream, b"", at_start=True)
        return buffer

    def rest(
        self, stream: ByteStream, buffer: bytes | None, decode_whole: WholeDecoder = decode_quickly
    ) -> Iterator[Decoded]:
        """The decoded chunks from somewhere in the array, of which `buffer` has been read."""
        while buffer is not None:
            self.arrays += 1
            trailer = yield from _array(stream, buffer, decode_whole)
            if trailer is None:
                self.metadata += b"]}"
                self.truncated = True
                return
            between, buffer = _to_events(stream, trailer)
            self.metadata += between


class DamagedStretchError(ValueError):
    """A stretch of an array that is damaged, or in which the array ends."""


def whole_chunks(
    stream: ByteStream, end: int, buffer: bytes, decode_whole: WholeDecoder = decode_quickly
) -> Iterator[Decoded]:
    """The chunks of a stretch from within an array up to this place, of which `buffer` has been
    read: those that `KinetoFile.rest` makes of it, up to the last boundary. Raises NotWholeError
    where that would have to mend anything.
    """
    while stream.place < end and (piece := stream.read()):
        decoded = _whole(buffer, piece, decode_whole) or _whole(b"", buffer + piece, decode_whole)
        if decoded is None:
            raise DamagedStretchError
        yield Decoded(decoded[0])
        buffer = decoded[1]


def _whole(
    left: bytes, piece: bytes, decode_whole: WholeDecoder
) -> tuple[list[Event], bytes] | None:
    """The events in what a piece has left over and the next piece, and what that leaves over:
    without copying it more than once. None where it is damaged, or the piece's end alone does not
    tell where the last event ends."""
    cut = boundary_in_tail(piece)
    events = None if cut is None else decode_whole(left, memoryview(piece)[: cut.start() + 1])
    return None if cut is None or events is None else (events, piece[cut.end() :])


def _to_events(
    stream: ByteStream, text: bytes, *, at_start: bool = False
) -> tuple[bytes, bytes | None]:
    """Read up to the next array of events: the text before it, and what has been read of it (None:
    no array)."""
    searched = 0
    while True:
        match = _EVENTS_KEY.search(text, max(0, searched - _OVERLAP_BYTES))
        if match:
            return text[: match.end()], text[match.end() :]
        bare = text.removeprefix(BYTE_ORDER_MARK).lstrip(_BLANK)
        if at_start and bare.startswith(b"["):
            return b"", bare[1:]
        searched = len(text)
        piece = stream.read()
        if not piece or searched > _MAX_METADATA_BYTES:
            return text, None
        text += piece


def _array(
    stream: ByteStream, buffer: bytes, decode_whole: WholeDecoder
) -> Generator[Decoded, None, bytes | None]:
    """Yield the chunks of an array; returns the text from its closing bracket on, None if the file
    ends first."""
    searched = 0
    while piece := stream.read():
        decoded = None if searched else _whole(buffer, piece, decode_whole)
        if decoded is not None:
            yield Decoded(decoded[0])
            buffer = decoded[1]
            continue
        buffer += piece
        cut = _last_boundary(buffer, max(0, searched - _OVERLAP_BYTES))
        if cut is None:
            searched = len(buffer)
            if searched >= _MAX_EVENT_BYTES:
                yield Decoded(decode_strictly(buffer) or [], lost=1)
                buffer = b""
                searched = 0
            continue
        chunk = buffer[: cut.start() + 1]
        events = decode_strictly(chunk)
        closed = _closed(chunk) if events is None else None
        if closed:
            yield closed[0]
            return closed[1] + buffer[cut.start() + 1 :]
        yield Decoded(events) if events is not None else decode(chunk)
        buffer = buffer[cut.end() :]
        searched = 0
    return (yield from _last(buffer))


def _last(buffer: bytes) -> Generator[Decoded, None, bytes | None]:
    """What comes before the end of the file: the events but the last one, in which lists of objects
    may look like the end of the array, and what is left."""
    cut = _last_boundary(buffer, 0)
    before = decode_quickly(buffer[: cut.start() + 1]) if cut else None
    if cut and before:
        yield Decoded(before)
        buffer = buffer[cut.end() :]
    empty = _EMPTY.match(buffer)
    if empty:
        return buffer[empty.end() :]
    closed = _closed(buffer)
    if closed:
        yield closed[0]
        return closed[1]
    end = _END.search(buffer)
    if end:
        yield decode(buffer[: end.end()])
        return buffer[end.end() :]
    cut = _last_boundary(buffer, 0)
    if cut:
        yield decode(buffer[: cut.start() + 1])
        buffer = buffer[cut.end() :]
    for part in _whole_and_cut(buffer):
        rest = part.strip(_BLANK)
        if rest:
            yield decode(rest)
    return None


def _whole_and_cut(text: bytes) -> tuple[bytes, bytes]:
    """The whole events in the last text of a file that is cut off, and the beginning of the one
    after them."""
    for comma in reversed(deque(_COMMA.finditer(text), maxlen=_MAX_CLOSINGS)):
        if decode_strictly(text[: comma.start() + 1]) is not None:
            return text[: comma.start() + 1], text[comma.end() :]
    return text, b""


def boundary_in_tail(text: bytes) -> re.Match[bytes] | None:
    """The last place between two events, None where the end of the text, of which more came before,
    does not tell."""
    found = (
        deque(BOUNDARY.finditer(text, len(text) - TAIL_BYTES), maxlen=1)
        if len(text) >= TAIL_BYTES
        else None
    )
    return found[0] if found else None


def _last_boundary(buffer: bytes, start: int) -> re.Match[bytes] | None:
    """The last place between two events at or after `start`."""
    found = deque(BOUNDARY.finditer(buffer, max(start, len(buffer) - TAIL_BYTES)), maxlen=1)
    found = found or deque(BOUNDARY.finditer(buffer, start), maxlen=1)
    return found[0] if found else None


def _closed(text: bytes) -> tuple[Decoded, bytes] | None:
    """The events up to where the array closes in the text, and the text from there; None if it does
    not."""
    for end in islice(_END.finditer(text), _MAX_CLOSINGS):
        events = decode_strictly(text[: end.start() + 1])
        if events is not None:
            return Decoded(events), text[end.end() :]
    return None
