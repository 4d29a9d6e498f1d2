"""`.xplane.pb`: an XSpace of XLA's profiler (xla/tsl/profiler/protobuf/xplane.proto), a plane at a
time."""

from collections import defaultdict
from functools import cache
from itertools import starmap

import numpy as np

from traceanalyzer.ingest.columns import Texts, by_value, joined, tight
from traceanalyzer.ingest.protobuf.wire import (
    Field,
    Fields,
    fields_before_damage,
    fields_of,
    signed,
)
from traceanalyzer.ingest.xplane.space import COLUMNS, STATS, TEXTS, Line, Plane, Space
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


def read_space(data: bytes, texts: Texts) -> Space:
    """The recording in the bytes. What is cut off is read as far as it goes."""
    reader = _Reader(data, texts)
    found = reader.fields(0, len(data))
    planes = tuple(reader.plane(start, end) for _, _, start, end in reader.first(PLANE, found))
    messages = tuple(
        reader.text(start, end) for number, _, start, end in found if number in (ERROR, WARNING)
    )
    host = next(
        (reader.text(start, end) for number, _, start, end in found if number == HOST), None
    )
    return Space(planes, host, messages, reader.lost, reader.skipped, reader.truncated)


class _Reader:
    """Reads messages of one file; counts what is lost."""

    def __init__(self, data: bytes, texts: Texts) -> None:
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
        stats = dict(self._plane_stat(a, b, stat_names) for a, b in places[PLANE_STAT])
        lines: tuple[Line, ...] = ()
        if name.startswith(_KEPT):
            names = dict(starmap(self._name, places[EVENT_NAMES]))
            events = _Events(self._data, self._texts, names, stat_names)
            lines = tuple(self._line(a, b, events) for _, _, a, b in self.first(LINE, found))
            self.lost += events.lost
            self.skipped += events.skipped
        return Plane(name, lines, stats)

    def _name(self, start: int, end: int) -> tuple[int, str]:
        entry = {number: (value, a, b) for number, value, a, b in self.fields(start, end)}
        inner = (
            {number: (a, b) for number, _, a, b in self.fields(*entry[2][1:])} if 2 in entry else {}
        )
        return signed(entry.get(1, (0,))[0]), self.text(*inner.get(2, (0, 0)))

    def _plane_stat(self, start: int, end: int, names: dict[int, str]) -> tuple[str, int | str]:
        name = ""
        shown: int | str = 0
        for number, value, a, b in self.fields(start, end):
            if number == _ID:
                name = names.get(signed(value), "")
            elif number in (_UNSIGNED, _SIGNED):
                shown = signed(value)
            elif number == _TEXT:
                shown = self.text(a, b)
            elif number == _REFERENCE:
                shown = names.get(signed(value), "")
        return name, shown

    def _line(self, start: int, end: int, events: "_Events") -> Line:
        found = self.fields(start, end)
        spans = [(a, b) for number, _, a, b in found if number == EVENT]
        last = {number: (value, a, b) for number, value, a, b in found if number != EVENT}
        id_, name, time = (
            last.get(number, (0, 0, 0)) for number in (LINE_ID, LINE_NAME, LINE_TIME)
        )
        columns = events.of(np.array(spans, np.int64).reshape(-1, 2), signed(time[0]))
        return Line(id_[0], self.text(*name[1:]), columns)


class _Events:
    """Reads the events of a plane's lines."""

    def __init__(
        self, data: bytes, texts: Texts, names: dict[int, str], stat_names: dict[int, str]
    ) -> None:
        self._data = data
        self._names = {id_: texts.code(name) for id_, name in names.items() if name}
        self._references = {id_: texts.code(name) for id_, name in stat_names.items()}
        self._stats = {id_: STATS.index(name) for id_, name in stat_names.items() if name in STATS}
        self._inline = cache(lambda raw: texts.code(raw.decode("utf-8", "replace")))
        self.lost = self.skipped = 0

    def of(self, spans: I64, time: int) -> dict[str, I64]:
        """The columns of the events in these places; times count from `time`, ns."""
        parts = [self._block(spans[i : i + _AT_ONCE], time) for i in range(0, len(spans), _AT_ONCE)]
        return {
            name: joined([part[name] for part in parts] or [np.empty(0, np.int64)])
            for name in COLUMNS
        }

    def _block(self, spans: I64, time: int) -> dict[str, I64]:
        found, damaged = fields_of(self._data, spans[:, 0], spans[:, 1])
        count = len(spans)
        numbers = (_ID, _OFFSET_PS, _DURATION_PS, _TIMES)
        id_, offset, duration, times = (_scattered(found, number, count) for number in numbers)
        name = by_value(id_, lambda i: self._names.get(i, -1))
        begin = time + offset // 1000
        finish = begin + (offset % 1000 + duration) // 1000
        summed = times > 0
        sound = (
            (offset >= 0)
            & (offset < _LATEST)
            & (duration >= 0)
            & (duration < _LATEST)
            & (abs(begin) < _LATEST)
        )
        good = ~damaged & ~summed & sound & (name >= 0) & (abs(time) < _LATEST)
        self.skipped += int(summed.sum())
        self.lost += int((~good & ~summed).sum())
        columns = {"name": name, "start": begin, "end": finish, **self._of_stats(found, count)}
        return {
            key: tight(column if good.all() else column[good]) for key, column in columns.items()
        }

    def _of_stats(self, events: Fields, count: int) -> dict[str, I64]:
        stats = events.take(events.number == _STAT)
        found, _ = fields_of(self._data, stats.start, stats.end)
        which = by_value(
            _scattered(found, _ID, len(stats.message)), lambda i: self._stats.get(i, -1)
        )
        wanted = (which[found.message] >= 0) & (found.number != _ID)
        found = found.take(wanted)
        which = which[found.message]
        event = stats.message[found.message]
        is_text = found.number == _TEXT
        is_reference = found.number == _REFERENCE
        code = np.full(len(which), -1, np.int64)
        code[is_reference] = by_value(
            found.value[is_reference], lambda i: self._references.get(i, -1)
        )
        inline = zip(found.start[is_text].tolist(), found.end[is_text].tolist(), strict=True)
        code[is_text] = [self._inline(self._data[a:b]) for a, b in inline]
        number = np.where((found.number == _UNSIGNED) | (found.number == _SIGNED), found.value, -1)
        result = {}
        for i, name in enumerate(STATS):
            mine = which == i
            result[name] = np.full(count, -1, np.int64)
            result[name][event[mine]] = (code if name in TEXTS else number)[mine]
        return result


def _scattered(found: Fields, number: int, count: int) -> I64:
    """The value of a field of each message; 0 where it has none, as the format has it."""
    rows: Bool = found.number == number
    result = np.zeros(count, np.int64)
    result[found.message[rows]] = found.value[rows]
    return result
