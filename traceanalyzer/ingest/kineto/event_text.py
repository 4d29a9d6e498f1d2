"""The text of a chunk of events, taken apart: its events, and the times and ids in each."""

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.base import dataclass
from traceanalyzer.ingest.kineto.events import Event
from traceanalyzer.ingest.kineto.masked import (
    DECIMALS,
    PAD,
    MaskedText,
    Numbers,
    ids_of,
    masked_text,
    nanoseconds_of,
)
from traceanalyzer.ingest.kineto.repair import decode_strictly
from traceanalyzer.trace import I64

FIELDS = {
    b"ts": "start",
    b"dur": "duration",
    b"memory bandwidth (GB/s)": "",
    b"id": "",
    b"External id": "external_id",
    b"external id": "external_id",
    b"Sequence number": "sequence",
    b"correlation": "correlation",
    b"Ev Idx": "",
    b"wait_on_cuda_event_record_corr_id": "record",
    b"Python id": "",
    b"Python parent id": "",
}
"""Columns of numbers that differ from event to event, by their keys; empty: no table has it."""
TIMES = ("start", "duration")
IDS = ("external_id", "sequence", "correlation", "record")
_LONGEST_DURATION = 12
"""Digits before the point, within `MAX_DURATION_US`."""
_LONGEST_KEY = max(map(len, FIELDS)) + len(b'"": ')
_SPACE = b" \t\r\n"
_BEHIND_NUMBERS = b",}]" + _SPACE


class UnlikeAnyKindError(ValueError):
    """A chunk that has to be decoded."""


@dataclass(frozen=True, eq=False)
class EventText:
    """Text of events: where each begins, with the end of the last; its masked text; all values."""

    text: MaskedText
    places: list[int]
    masked: list[bytes]
    times: I64  # in ns, and a 0 behind them
    ids: I64

    def event(self, number: int) -> Event:
        """One of them, decoded. Raises UnlikeAnyKindError."""
        begin, end = self.places[number : number + 2]
        text = self.text.text[begin:end].rstrip(_SPACE)
        if number + 2 < len(self.places):
            text = _without(_without(text, b"{"), b",")
        found = decode_strictly(b"{" + text)
        if found is None or len(found) != 1:
            raise UnlikeAnyKindError
        return found[0]

    def numbers(self, events: I64, kinds: NDArray[np.void]) -> dict[str, I64]:
        """For each column of numbers those of these events, which are of these kinds; of no meaning
        where their text has none."""
        begins = self.text.events[events]
        times = np.searchsorted(self.text.times.starts, begins)
        ids = np.searchsorted(self.text.ids.starts, begins)
        found = {name: self.times[times + kinds[name]] for name in TIMES}
        return found | {name: self.ids[ids + kinds[name]] for name in IDS}

    def ordinals(self, events: I64) -> list[dict[str, int]]:
        """For the columns of numbers of each event: which of its times or ids they are. Raises
        UnlikeAnyKindError."""
        begins = self.text.events[events]
        ends = np.array(self.places)[events + 1]
        times = self._columns(self.text.times, begins, ends)
        ids = self._columns(self.text.ids, begins, ends)
        return [one | other for one, other in zip(times, ids, strict=True)]

    def _columns(self, numbers: Numbers, begins: I64, ends: I64) -> list[dict[str, int]]:
        """For the columns of each event the places of their numbers among those of the event."""
        first = np.searchsorted(numbers.starts, begins).tolist()
        end = np.searchsorted(numbers.starts, ends).tolist()
        names = []
        for bounds in map(slice, first, end):
            places = zip(
                numbers.starts[bounds].tolist(), numbers.widths[bounds].tolist(), strict=True
            )
            names.append([self._column(start, width) for start, width in places])
        if any(name and of_event.count(name) > 1 for of_event in names for name in of_event):
            raise UnlikeAnyKindError
        return [
            {name: ordinal for ordinal, name in enumerate(of_event) if name} for of_event in names
        ]

    def _column(self, start: int, width: int) -> str:
        """Which column a number belongs to; empty for none. Raises UnlikeAnyKindError."""
        text = self.text.text
        key = text[start - _LONGEST_KEY : start].rsplit(b'"', 2)[-2]
        name = FIELDS.get(key)
        if name is None or (width and text[start + width] not in _BEHIND_NUMBERS):
            raise UnlikeAnyKindError
        integer, _, decimals = text[start : start + width].partition(b".")
        if name in TIMES and len(decimals) > DECIMALS:
            raise UnlikeAnyKindError
        if name == "duration" and len(integer) > _LONGEST_DURATION:
            raise UnlikeAnyKindError
        return name if width else ""


def event_text(*parts: bytes | memoryview) -> EventText:
    """The text of a chunk. Raises UnlikeAnyKindError."""
    text = masked_text(*parts)
    if text is None or not len(text.events):
        raise UnlikeAnyKindError
    places = [*text.events.tolist(), len(text.text) - len(PAD)]
    if text.text[: places[0]].strip(_SPACE) != b"{":
        raise UnlikeAnyKindError
    times = nanoseconds_of(text.text, text.times)
    if times is None:
        raise UnlikeAnyKindError
    masked = [text.masked[begin:end] for begin, end in pairwise(places)]
    ids = ids_of(text.text, text.ids)
    return EventText(text, places, masked, np.append(times, 0), np.append(ids, 0))


def _without(text: bytes, last: bytes) -> bytes:
    """The text without this character and blanks at its end. Raises UnlikeAnyKindError."""
    if not text.endswith(last):
        raise UnlikeAnyKindError
    return text[: -len(last)].rstrip(_SPACE)
