"""`.xplane.pb`: an XSpace of XLA's profiler (xla/tsl/profiler/protobuf/xplane.proto), a plane at a
time."""

from collections import defaultdict
from functools import cache
from itertools import starmap

import numpy as np

from traceanalyzer.ingest.columns import StringCodes, by_value, concatenated, tight
from traceanalyzer.ingest.protobuf.wire import (
    Field,
    Fields,
    as_int64,
    fields_before_damage,
    fields_of,
)
from traceanalyzer.ingest.xplane.space import COLUMNS, STATS, TEXTS, Plane, Space, XLine
from traceanalyzer.trace import I64, Bool

PLANE = 1
ERROR = 2
WARNING = 3
HOST = 4
PLANE_NAME = 2
LINE = 3
EVENT_NAMES = 4
STAT_NAMES = 5
PLANE_STAT = 6
LINE_ID = 1
LINE_NAME = 2
LINE_TIME = 3
EVENT = 4
_KEY = 1
_VALUE = 2
_NAME = 2
_NO_FIELD: Field = (0, 0, 0, 0)
_Names = dict[int, str]  # by id
_ID = 1
_OFFSET_PS = 2
_DURATION_PS = 3
_STAT = 4
_TIMES = 5
_UNSIGNED = 3
_SIGNED = 4
_TEXT = 5
_REFERENCE = 7
_AT_ONCE = 1 << 15
"""Events of a line that are decoded together: their stats are ten times as many, and should stay in
the cache."""
_MOST_PARTS = 1 << 13  # planes of a file, lines of a plane: devices, and streams or threads
_LATEST = 2**62
_KEPT = ("/device:", "/host:CPU", "/host:CUPTI", "/host:ROCTRACER", "/host:python-tracer")
"""Planes whose events are read; XLA's own analysis, and the programs of modules, are others."""


def read_space(data: bytes, texts: StringCodes) -> Space:
    """The recording in the bytes. What is cut off is read as far as it goes."""
    reader = _Reader(data, texts)
    found = reader.fields(0, len(data))
    places = [(start, end) for _, _, start, end in reader.first(PLANE, found)]
    planes = tuple(reader.plane(*place) for place in places)
    messages = tuple(
        reader.text(start, end) for number, _, start, end in found if number in (ERROR, WARNING)
    )
    hosts = (reader.text(start, end) for number, _, start, end in found if number == HOST)
    return Space(
        planes=planes,
        host=next(hosts, None),
        messages=messages,
        lost=reader.lost,
        skipped=reader.skipped,
        truncated=reader.truncated,
    )


class _Reader:
    """Reads messages of one file; counts what is lost."""

    def __init__(self, data: bytes, texts: StringCodes) -> None:
        self._data = data
        self._texts = texts
        self.lost = self.skipped = 0
        self.truncated = False

    def text(self, start: int, end: int) -> str:
        return self._data[start:end].decode("utf-8", "replace")

    def fields(self, start: int, end: int) -> list[Field]:
        """The fields of a message, of a damaged one those before the damage."""
        found, damage = fields_before_damage(self._data, start, end)
        self.truncated |= bool(damage)
        return found

    def first(self, number: int, found: list[Field]) -> list[Field]:
        """The planes of a file or the lines of a plane; of more than any file has the first."""
        those = [field for field in found if field[0] == number]
        self.lost += len(those[_MOST_PARTS:])
        return those[:_MOST_PARTS]

    def plane(self, start: int, end: int) -> Plane:
        """One plane. Its names come after its lines."""
        found = self.fields(start, end)
        places = defaultdict[int, list[tuple[int, int]]](list)
        for number, _, begin, stop in found:
            places[number].append((begin, stop))
        name = self.text(*places[PLANE_NAME][0]) if places[PLANE_NAME] else ""
        stat_names = dict(starmap(self._name, places[STAT_NAMES]))
        stats = dict(self._plane_stat(*place, stat_names) for place in places[PLANE_STAT])
        lines: tuple[XLine, ...] = ()
        if name.startswith(_KEPT):
            names = dict(starmap(self._name, places[EVENT_NAMES]))
            events = _Events(self._data, self._texts, names, stat_names)
            of_lines = self.first(LINE, found)
            lines = tuple(self._line(begin, stop, events) for _, _, begin, stop in of_lines)
            self.lost += events.lost
            self.skipped += events.skipped
        return Plane(name, lines, stats)

    def _name(self, start: int, end: int) -> tuple[int, str]:
        """An entry of a map: the id, and the name in what has that id."""
        entry = _last(self.fields(start, end))
        _, id_, _, _ = entry.get(_KEY, _NO_FIELD)
        described = _last(self.fields(*entry[_VALUE][2:])) if _VALUE in entry else {}
        _, _, begin, stop = described.get(_NAME, _NO_FIELD)
        return as_int64(id_), self.text(begin, stop)

    def _plane_stat(self, start: int, end: int, names: _Names) -> tuple[str, int | str]:
        name = ""
        shown: int | str = 0
        for number, value, a, b in self.fields(start, end):
            if number == _ID:
                name = names.get(as_int64(value), "")
            elif number in (_UNSIGNED, _SIGNED):
                shown = as_int64(value)
            elif number == _TEXT:
                shown = self.text(a, b)
            elif number == _REFERENCE:
                shown = names.get(as_int64(value), "")
        return name, shown

    def _line(self, start: int, end: int, events: "_Events") -> XLine:
        found = self.fields(start, end)
        spans = [(a, b) for number, _, a, b in found if number == EVENT]
        last = _last(found)
        _, id_, _, _ = last.get(LINE_ID, _NO_FIELD)
        _, time, _, _ = last.get(LINE_TIME, _NO_FIELD)
        _, _, name_start, name_end = last.get(LINE_NAME, _NO_FIELD)
        places = np.array(spans, np.int64).reshape(-1, 2)
        columns = events.of(places, as_int64(time))
        return XLine(id_, self.text(name_start, name_end), columns)


def _last(found: list[Field]) -> dict[int, Field]:
    """The fields of a message by number; of several with one number the last."""
    return {field[0]: field for field in found}


class _Events:
    """Reads the events of a plane's lines."""

    def __init__(self, data: bytes, texts: StringCodes, names: _Names, stat_names: _Names) -> None:
        self._data = data
        self._names = {id_: texts.code(name) for id_, name in names.items() if name}
        self._references = {id_: texts.code(name) for id_, name in stat_names.items()}
        self._stats = {id_: STATS.index(name) for id_, name in stat_names.items() if name in STATS}
        self._inline = cache(lambda raw: texts.code(raw.decode("utf-8", "replace")))
        self.lost = self.skipped = 0

    def of(self, spans: I64, time: int) -> dict[str, I64]:
        """The columns of the events in these places; times count from `time`, ns."""
        firsts = range(0, len(spans), _AT_ONCE)
        parts = [self._block(spans[first : first + _AT_ONCE], time) for first in firsts]
        return {
            name: concatenated([part[name] for part in parts] or [np.empty(0, np.int64)])
            for name in COLUMNS
        }

    def _block(self, spans: I64, time: int) -> dict[str, I64]:
        found, damaged = fields_of(self._data, spans[:, 0], spans[:, 1])
        count = len(spans)
        offset = _scattered(found, _OFFSET_PS, count)
        duration = _scattered(found, _DURATION_PS, count)
        summed = _scattered(found, _TIMES, count) > 0
        name = by_value(_scattered(found, _ID, count), lambda id_: self._names.get(id_, -1))
        begin = time + offset // 1000
        finish = begin + (offset % 1000 + duration) // 1000
        in_time = (abs(begin) < _LATEST) & (abs(time) < _LATEST)
        sound = _possible(offset) & _possible(duration) & in_time
        good = ~damaged & ~summed & sound & (name >= 0)
        self.skipped += int(summed.sum())
        self.lost += int((~good & ~summed).sum())
        columns = {"name": name, "start": begin, "end": finish, **self._of_stats(found, count)}
        if not good.all():
            columns = {key: column[good] for key, column in columns.items()}
        return {key: tight(column) for key, column in columns.items()}

    def _of_stats(self, events: Fields, count: int) -> dict[str, I64]:
        stats = events.take(events.number == _STAT)
        found, _ = fields_of(self._data, stats.start, stats.end)
        ids = _scattered(found, _ID, len(stats.message))
        which = by_value(ids, lambda id_: self._stats.get(id_, -1))
        wanted = (which[found.message] >= 0) & (found.number != _ID)
        found = found.take(wanted)
        which = which[found.message]
        event = stats.message[found.message]
        code = self._codes(found)
        is_number = (found.number == _UNSIGNED) | (found.number == _SIGNED)
        number = np.where(is_number, found.value, -1)
        result = {}
        for i, name in enumerate(STATS):
            is_own = which == i
            result[name] = np.full(count, -1, np.int64)
            result[name][event[is_own]] = (code if name in TEXTS else number)[is_own]
        return result

    def _codes(self, found: Fields) -> I64:
        """The codes of stats that are texts, -1 for others."""
        code = np.full(len(found.number), -1, np.int64)
        is_reference = found.number == _REFERENCE
        ids = found.value[is_reference]
        code[is_reference] = by_value(ids, lambda id_: self._references.get(id_, -1))
        is_text = found.number == _TEXT
        starts = found.start[is_text].tolist()
        ends = found.end[is_text].tolist()
        raw = [self._data[start:end] for start, end in zip(starts, ends, strict=True)]
        code[is_text] = [self._inline(text) for text in raw]
        return code


def _possible(picoseconds: I64) -> Bool:
    return (picoseconds >= 0) & (picoseconds < _LATEST)


def _scattered(found: Fields, number: int, count: int) -> I64:
    """The value of a field of each message; 0 where it has none, as the format has it."""
    rows: Bool = found.number == number
    result = np.zeros(count, np.int64)
    result[found.message[rows]] = found.value[rows]
    return result
