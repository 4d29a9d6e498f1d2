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
    """Text of events: where each begins, with the end of the last; its masked text."""

    text: MaskedText
    places: list[int]
    masked: list[bytes]

    def event(self, number: int) -> Event:
        """One of them, decoded. Raises UnlikeAnyKindError."""
        begin, end = self.places[number : number + 2]
        found = decode_strictly(b"{" + self._alone(number, self.text.text[begin:end]))
        if found is None or len(found) != 1:
            raise UnlikeAnyKindError
        return found[0]

    def _alone(self, number: int, text: bytes) -> bytes:
        """The text of an event without what leads to the next one. Raises UnlikeAnyKindError."""
        text = text.rstrip(_SPACE)
        is_last = number + 2 == len(self.places)
        return text if is_last else _without(_without(text, b"{"), b",")

    def numbers(self, events: I64, kinds: NDArray[np.void]) -> dict[str, I64]:
        """For each column of numbers those of these events, which are of these kinds; 0 where their
        text has none. Raises UnlikeAnyKindError."""
        begins = self.text.events[events]
        times = np.searchsorted(self.text.times.starts, begins)
        ids = np.searchsorted(self.text.ids.starts, begins)
        found = {name: self._values(name, times, kinds[name]) for name in TIMES}
        return found | {name: self._values(name, ids, kinds[name]) for name in IDS}

    def _values(self, name: str, first: I64, ordinal: NDArray[np.int8]) -> I64:
        """Numbers of a column, by the first of an event's and by which of them it is; 0 for -1."""
        stated = np.flatnonzero(ordinal >= 0)
        places = first[stated] + ordinal[stated]
        result = np.zeros(len(first), np.int64)
        result[stated] = self._times_at(places) if name in TIMES else self._ids_at(places)
        return result

    def _times_at(self, places: I64) -> I64:
        """Times, in ns, by their places among all. Raises UnlikeAnyKindError."""
        times = nanoseconds_of(self.text.text, self.text.times.select(places))
        if times is None:
            raise UnlikeAnyKindError
        return times

    def _ids_at(self, places: I64) -> I64:
        """Ids, by their places among all."""
        return ids_of(self.text.text, self.text.ids.select(places))

    def ordinals(self, events: I64) -> list[dict[str, int]]:
        """For the columns of numbers of each event: which of its times or ids they are. Raises
        UnlikeAnyKindError."""
        times = self._columns(self._within(self.text.times, events))
        ids = self._columns(self._within(self.text.ids, events))
        return [one | other for one, other in zip(times, ids, strict=True)]

    def without_widths(self, events: I64) -> list[bytes]:
        """The masked text of each event by itself, with one zero for the digits of each number: for
        those of a time before its point, which are at most those of a duration. Raises
        UnlikeAnyKindError."""
        times = self._within(self.text.times, events)
        ids = self._within(self.text.ids, events)
        return [
            self._without_widths(number, of_event)
            for number, *of_event in zip(events.tolist(), times, ids, strict=True)
        ]

    def _without_widths(self, number: int, of_event: list[Numbers]) -> bytes:
        """The text of one event, with its times and its ids."""
        cuts = [
            (start, start + width)
            for numbers in of_event
            for start, width in numbers.whole_parts()
            if 0 < width <= _LONGEST_DURATION
        ]
        begin, end = self.places[number : number + 2]
        parts = []
        for cut_begin, cut_end in sorted(cuts):
            parts.append(self.text.masked[begin:cut_begin])
            begin = cut_end
        return b"0".join((*parts, self._alone(number, self.text.masked[begin:end])))

    def _within(self, numbers: Numbers, events: I64) -> list[Numbers]:
        """The numbers of each event."""
        begins = self.text.events[events]
        ends = np.append(self.text.events, self.places[-1])[events + 1]
        first = np.searchsorted(numbers.starts, begins).tolist()
        end = np.searchsorted(numbers.starts, ends).tolist()
        return [numbers.select(slice(*bounds)) for bounds in zip(first, end, strict=True)]

    def _columns(self, of_events: list[Numbers]) -> list[dict[str, int]]:
        """For the columns of each event the places of their numbers among those of the event."""
        names = []
        for numbers in of_events:
            places = zip(numbers.starts.tolist(), numbers.widths.tolist(), strict=True)
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
    masked = [text.masked[begin:end] for begin, end in pairwise(places)]
    return EventText(text, places, masked)


def _without(text: bytes, last: bytes) -> bytes:
    """The text without this character and blanks at its end. Raises UnlikeAnyKindError."""
    if not text.endswith(last):
        raise UnlikeAnyKindError
    return text[: -len(last)].rstrip(_SPACE)
