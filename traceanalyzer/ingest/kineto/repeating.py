"""Events that repeat from step to step, but for times and ids.

Of each kind of event the first one is decoded, packed into rows like any other, and kept as the
prototype of its text with zeros for times and ids (`masked`), however many digits these have. Where all
events of a chunk are of known kinds, their rows are those of the prototypes with times and ids of their
own: nothing is decoded, and no object is made. A kind is admitted only where the numbers in its text
are, value by value, those of its decoded row; a chunk with anything else is read as if there were no
kinds.
"""

from collections.abc import Collection, Mapping, Sequence
from itertools import repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.base import dataclass
from traceanalyzer.ingest.kineto.event_text import (
    NUMBERS,
    EventText,
    UnlikeAnyKindError,
    event_text,
)
from traceanalyzer.ingest.kineto.events import Event, RowGroup, group_of
from traceanalyzer.ingest.kineto.repair import Decoded, decode_quickly
from traceanalyzer.ingest.kineto.rows import TABLE_OF, KinetoRows
from traceanalyzer.trace import I64, Table

LEAST_REPEATING_BYTES = 16 << 20
"""Of a file: in a smaller one kinds are learned more than met."""
MOST_TEXT_BYTES = 32 << 20
"""Of kinds. Where there are more, events do not repeat."""
FAILURES_ALLOWED = 4
"""So many chunks more may be read in vain than have been read by kinds, then it is given up."""
MOST_PENDING = 1 << 16
"""Rows that are packed at once: fewer cost calls, more memory."""
_MOST_NEW = 3
"""Of so many events of a chunk one may be of a new kind: to learn one costs as much as ten events."""
_MOSTLY_NEW = 2
"""Where of so many events one is new, the chunk counts as two in vain: of real recordings that repeat
at most 0.47 of a chunk was, of one with names of their own 0.67 of each."""
_TELLING = 1_000
"""Events of a chunk from which none is learned where most are new: a megabyte of text has thousands."""
_GROUPS = list(RowGroup)
_ONLY_COUNTED = (RowGroup.SKIP, RowGroup.RANGE_COUNTERS, RowGroup.MTIA)
_OF_KINDS = {*TABLE_OF, *_ONLY_COUNTED}
_OF_NO_KIND = 0
"""The number of no kind."""
_TABLES = list(dict.fromkeys(TABLE_OF.values()))
_NO_TABLE = -1
_TABLE_NUMBERS = np.array(
    [_TABLES.index(TABLE_OF[group]) if group in TABLE_OF else _NO_TABLE for group in _GROUPS],
    np.int8,
)
"""By the number of a group."""


@dataclass(frozen=True, eq=False)
class _Pending:
    """Events by their kinds, shape (events,), in the order of their rows, and their numbers, shape
    (events, columns of `NUMBERS`)."""

    kinds: NDArray[np.int32]
    numbers: I64


@dataclass(frozen=True, eq=False)
class _Kinds:
    """Kinds of events: the group of each, the row of its prototype, and for each column of `NUMBERS`
    which of the numbers in its text that is, shape (kinds, columns); -1: as in the prototype."""

    groups: NDArray[np.uint8]
    rows: NDArray[np.int32]
    ordinals: NDArray[np.int16]

    def with_others(self, others: "_Kinds") -> "_Kinds":
        """These kinds, and others behind them."""
        return _Kinds(
            np.concatenate((self.groups, others.groups)),
            np.concatenate((self.rows, others.rows)),
            np.concatenate((self.ordinals, others.ordinals)),
        )


_NO_ROW = -1
_NO_KINDS = _Kinds(
    groups=np.zeros(1, np.uint8),
    rows=np.full(1, _NO_ROW, np.int32),
    ordinals=np.full((1, len(NUMBERS)), -1, np.int16),
)
"""The first of all kinds stands for none."""


class RepeatingEvents:
    """Adds chunks to rows. `decode` adds what is of known kinds and returns what is left, for `add`;
    `flush` is due before the rows are taken."""

    def __init__(self, rows: KinetoRows, *, is_worthwhile: bool) -> None:
        self._rows = rows
        self._is_worthwhile = is_worthwhile
        self._prototypes = KinetoRows(rows)
        self._numbers: dict[bytes, int] = {}  # of kinds, by their text
        self._numbers_alike: dict[bytes, int] = {}  # by that text without widths
        self._kinds = _NO_KINDS
        self._text_bytes = 0  # of all kinds
        self._failures = 0  # chunks read in vain, less those that were not
        self._pending: list[_Pending] = []
        self._pending_rows = 0

    def go_on_with(self, rows: KinetoRows) -> None:
        """Add to other rows, of a later part of the file, from now on."""
        self.flush()
        self._rows = rows

    def decode(self, *parts: bytes | memoryview) -> list[Event] | None:
        """The events of a chunk that are still to be added; None where it is damaged."""
        if self._is_worthwhile:
            try:
                return self._by_kind(event_text(*parts))
            except UnlikeAnyKindError:
                self._note(failures=1)
        self.flush()
        return decode_quickly(*parts)

    def add(self, chunk: Decoded) -> None:
        """Add the events of a chunk behind all that were added before."""
        if chunk.events:
            self.flush()
        self._rows.add(chunk)

    def _note(self, *, failures: int) -> None:
        self._failures = max(self._failures + failures, -FAILURES_ALLOWED)
        is_full = self._text_bytes > MOST_TEXT_BYTES
        self._is_worthwhile &= self._failures <= FAILURES_ALLOWED and not is_full

    def _by_kind(self, chunk: EventText) -> list[Event]:
        """Adds the events of kinds; returns the others. Raises UnlikeAnyKindError, having added
        nothing."""
        kinds = self._known(chunk.masked)
        apart: list[Event] = []
        unknown = np.flatnonzero(kinds == _OF_NO_KIND)
        if len(unknown):
            apart = self._learn(chunk, unknown.tolist())
            kinds[unknown] = self._known([chunk.masked[place] for place in unknown.tolist()])
        groups = self._kinds.groups[kinds]
        is_of_kind = kinds != _OF_NO_KIND
        has_row = is_of_kind & (_TABLE_NUMBERS[groups] != _NO_TABLE)
        rows = np.flatnonzero(has_row)
        rows = rows[np.argsort(groups[rows], kind="stable")]
        kinds = kinds[rows]
        numbers_of_rows = chunk.numbers(rows, self._kinds.ordinals.take(kinds, axis=0))
        self._count(groups[is_of_kind], len(rows))
        self._pending.append(_Pending(kinds, numbers_of_rows))
        self._pending_rows += len(rows)
        if self._pending_rows > MOST_PENDING:
            self.flush()
        return apart

    def _known(self, texts: list[bytes]) -> NDArray[np.int32]:
        """The kinds of events with these masked texts; `_OF_NO_KIND` of others."""
        numbers = map(self._numbers.get, texts, repeat(_OF_NO_KIND))
        return np.fromiter(numbers, np.int32, len(texts))

    def _count(self, groups: NDArray[np.uint8], with_row: int) -> None:
        """Events of kinds, by the numbers of their groups."""
        self._rows.events += len(groups)
        self._rows.skipped += len(groups) - with_row
        counts = np.bincount(groups, minlength=len(_GROUPS)).tolist()
        self._rows.counts.update(dict(zip(_GROUPS, counts, strict=True)))

    def _learn(self, chunk: EventText, unknown: list[int]) -> list[Event]:
        """Make kinds of events that are of none; returns those that cannot be. Raises
        UnlikeAnyKindError, also where most of many events would be of new kinds: to learn these takes
        longer than to decode them."""
        of_places = {chunk.masked[place]: place for place in unknown}
        alike = chunk.without_widths(np.array(list(of_places.values())))
        texts = dict(zip(of_places, alike, strict=True))
        events = len(chunk.masked)
        new_texts = set(alike).difference(self._numbers_alike)
        if events >= _TELLING and len(new_texts) * _MOSTLY_NEW > events:
            self._note(failures=1)  # besides that of a chunk read in vain
            raise UnlikeAnyKindError
        apart, new = self._learn_kinds(chunk, unknown, texts)
        of_kinds = {
            masked: self._numbers_alike[text]
            for masked, text in texts.items()
            if text in self._numbers_alike
        }
        self._numbers |= of_kinds
        self._text_bytes += sum(map(len, of_kinds))
        self._note(failures=_failures(new + len(apart), events))
        return apart

    def _learn_kinds(
        self, chunk: EventText, unknown: list[int], texts: Mapping[bytes, bytes]
    ) -> tuple[list[Event], int]:
        """The events that are of no kind, and how many kinds the others make. `texts`: those without
        widths, by the masked ones. Raises UnlikeAnyKindError."""
        apart: list[Event] = []
        first: dict[bytes, int] = {}  # of each new kind, by its text without widths
        events: list[Event] = []
        for place in unknown:
            text = texts[chunk.masked[place]]
            if text in first or text in self._numbers_alike:
                continue
            event = chunk.event(place)
            if group_of(event.cat) in _OF_KINDS:
                first[text] = place
                events.append(event)
            else:
                apart.append(event)
        if first:
            kinds = self._kinds_of(chunk, events, np.array(list(first.values())))
            new = {text: number for number, text in enumerate(first, len(self._kinds.rows))}
            self._numbers_alike |= new
            self._kinds = self._kinds.with_others(kinds)
        return apart, len(first)

    def _kinds_of(self, chunk: EventText, events: list[Event], places: I64) -> _Kinds:
        """The kinds of these events, with their prototypes. Raises UnlikeAnyKindError."""
        groups = np.array([_GROUPS.index(group_of(event.cat)) for event in events], np.uint8)
        ordinals = np.array(chunk.ordinals(places), np.int16)
        before = [len(self._prototypes.tables[table]) for table in _TABLES]
        self._prototypes.add(Decoded(events))
        if self._prototypes.repaired or self._prototypes.lost or self._prototypes.mended:
            self._is_worthwhile = False
            raise UnlikeAnyKindError
        kinds = _Kinds(groups, self._rows_of_prototypes(groups, before), ordinals)
        self._check(kinds, chunk.numbers(places, ordinals))
        return kinds

    def _rows_of_prototypes(
        self, groups: NDArray[np.uint8], before: Sequence[int]
    ) -> NDArray[np.int32]:
        """The row of each prototype of new kinds; the tables had so many rows `before`."""
        rows = np.full(len(groups), _NO_ROW, np.int32)
        order = np.argsort(groups, kind="stable")  # that of rows
        tables = _TABLE_NUMBERS[groups[order]]
        for number, first in enumerate(before):
            of_table = order[tables == number]
            rows[of_table] = first + np.arange(len(of_table))
        return rows

    def _check(self, kinds: _Kinds, stated: I64) -> None:
        """Raises UnlikeAnyKindError where a number that the text states is not the prototype's."""
        tables = _TABLE_NUMBERS[kinds.groups]
        for number, table in enumerate(_TABLES):
            of_table = np.flatnonzero(tables == number)
            if not len(of_table):
                continue
            recorded = self._with_duration(table, kinds.rows[of_table], (*NUMBERS, "end"))
            for column, name in enumerate(NUMBERS):
                if name in recorded:
                    is_stated = kinds.ordinals[of_table, column] >= 0
                    if (stated[of_table, column] != recorded[name])[is_stated].any():
                        raise UnlikeAnyKindError

    def _with_duration(
        self, table: type[Table], rows: NDArray[np.int32], names: Collection[str] | None = None
    ) -> dict[str, NDArray[Any]]:
        """Columns of these prototypes: those of these names, None: all of them."""
        columns = self._prototypes.tables[table].rows(rows, names)
        columns["duration"] = columns["end"] - columns["start"]
        return columns

    def flush(self) -> None:
        """Pack the rows of events of kinds."""
        if not self._pending:
            return
        kinds = np.concatenate([part.kinds for part in self._pending])
        numbers = np.concatenate([part.numbers for part in self._pending])
        self._pending.clear()
        self._pending_rows = 0
        tables = _TABLE_NUMBERS[self._kinds.groups[kinds]]
        for table_number, table in enumerate(_TABLES):
            rows = np.flatnonzero(tables == table_number)
            if len(rows):
                columns = self._rows_of(table, kinds[rows], numbers.take(rows, axis=0))
                self._rows.tables[table].append(columns)

    def _rows_of(
        self, table: type[Table], kinds: NDArray[np.int32], numbers: I64
    ) -> dict[str, NDArray[Any]]:
        """Rows of a table: those of the prototypes, with numbers of their own."""
        columns = self._with_duration(table, self._kinds.rows[kinds])
        is_stated = self._kinds.ordinals.take(kinds, axis=0) >= 0
        for column, name in enumerate(NUMBERS):
            if name in columns:
                columns[name] = np.where(is_stated[:, column], numbers[:, column], columns[name])
        columns["end"] = columns["start"] + columns["duration"]
        return columns


def _failures(new: int, events: int) -> int:
    """How many chunks in vain one counts as, of whose events so many are new; -1: it was of use."""
    if new * _MOSTLY_NEW > events:
        return 2
    return 1 if new * _MOST_NEW > events else -1
