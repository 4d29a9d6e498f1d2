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
    masked_text,
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
NUMBERS = (*TIMES, *IDS)
_MOST_NUMBERS = 1 << 12
"""Of an event of a kind: its ordinals fit 16 bits."""
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

    def numbers(self, events: I64, ordinals: NDArray[np.int16]) -> I64:
        """The numbers of these events in the columns of `NUMBERS`, shape (events, columns), by which of
        the numbers in its text each is; 0 for -1. Raises UnlikeAnyKindError."""
        numbers = self.text.numbers
        first = np.searchsorted(numbers.starts, self.text.events[events])
        values = numbers.values.take(first[:, None] + ordinals, mode="clip")
        values[ordinals < 0] = 0
        if values.min(initial=0) < 0:
            raise UnlikeAnyKindError
        return values

    def ordinals(self, events: I64) -> list[list[int]]:
        """For each event and each column of `NUMBERS`, which of the numbers in its text that is; -1
        where there is none. Raises UnlikeAnyKindError."""
        return [self._ordinals(numbers) for numbers in self._within(events)]

    def without_widths(self, events: I64) -> list[bytes]:
        """The masked text of each event by itself, with one zero for the digits of each number: for
        those of a time before its point, which are at most those of a duration. Raises
        UnlikeAnyKindError."""
        return [
            self._without_widths(number, numbers)
            for number, numbers in zip(events.tolist(), self._within(events), strict=True)
        ]

    def _without_widths(self, number: int, numbers: Numbers) -> bytes:
        """The text of one event, with its numbers."""
        begin, end = self.places[number : number + 2]
        parts = []
        for start, width in numbers.whole_parts():
            if 0 < width <= _LONGEST_DURATION:
                parts.append(self.text.masked[begin:start])
                begin = start + width
        return b"0".join((*parts, self._alone(number, self.text.masked[begin:end])))

    def _within(self, events: I64) -> list[Numbers]:
        """The numbers of each event."""
        numbers = self.text.numbers
        begins = self.text.events[events]
        ends = np.append(self.text.events, self.places[-1])[events + 1]
        first = np.searchsorted(numbers.starts, begins).tolist()
        end = np.searchsorted(numbers.starts, ends).tolist()
        return [numbers.select(slice(*bounds)) for bounds in zip(first, end, strict=True)]

    def _ordinals(self, numbers: Numbers) -> list[int]:
        """For each column of numbers its place among those of an event; -1 for none. Raises
        UnlikeAnyKindError."""
        places = zip(numbers.starts.tolist(), numbers.widths.tolist(), strict=True)
        names = [self._column(start, width) for start, width in places]
        found = {name: ordinal for ordinal, name in enumerate(names) if name}
        if len(found) < sum(map(bool, names)) or len(names) > _MOST_NUMBERS:
            raise UnlikeAnyKindError
        return [found.get(name, -1) for name in NUMBERS]

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
