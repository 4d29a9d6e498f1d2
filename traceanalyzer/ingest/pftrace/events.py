"""Packets as the events that Kineto writes as JSON: what the two formats say alike is then read
alike. A slice of the host is two packets, its begin and its end. torch writes a run of begins, and
after it their ends in the same order, so that the first end is that of the first begin (times and
nesting do not tell: many are equal)."""

import math
from collections import defaultdict, deque
from collections.abc import Sequence
from functools import lru_cache
from typing import ClassVar

import msgspec

from traceanalyzer.base import regex
from traceanalyzer.ingest.kineto.events import (
    CompleteEvent,
    CounterSample,
    Event,
    RowGroup,
    group_of,
)
from traceanalyzer.ingest.kineto.repair import decode
from traceanalyzer.ingest.kineto.rows import KinetoRows
from traceanalyzer.ingest.protobuf.wire import DamagedMessageError, ProtoMessage, as_int64, fields

_DEEPEST = 16  # lists within lists; shapes take three
_MOST_KEPT = 1 << 16  # texts of annotations kept for the next one with the same bytes: steps repeat
_BOOL = 2
_UINT = 3
_INT = 4
_DOUBLE = 5
_STRING = 6
_NAME = 10
_DICT = 11
_ARRAY = 12
_WHOLE = regex(rb"-?(?:0|[1-9]\d{0,17})")
_RENAMED = {b"device id": b"device", b"context id": b"context", b"stream id": b"stream"}
"""Kineto's names of what stages carry; all others have the same in both."""


CLOCKS = 6
TIME = 8
EVENT = 11
INTERNED = 12
FLAGS = 13
COUNTER = 52
STAGE = 53
TRACK = 60
CATEGORIES = 1  # tables of interned data
NAMES = 2
STAGES = 24
COUNTERS = 47
KERNELS = 1000
ARGUMENTS = 1001
_TEXT_OF = {CATEGORIES: 2, NAMES: 2, STAGES: 2, KERNELS: 3, ARGUMENTS: 2}
_BEGIN = 1
_END = 2
_STAGES = {
    b"Kernel": b"kernel",
    b"Memcpy": b"gpu_memcpy",
    b"Memset": b"gpu_memset",
    b"Annotation": b"gpu_user_annotation",
}
"""Kineto's categories; other stages (records of events, host callbacks) are no device work."""
_ON_DEVICE = (RowGroup.KERNEL, RowGroup.MEMCPY, RowGroup.MEMSET, RowGroup.DEVICE_RANGE)
_UNIT = regex(rb" \(([^()]+)\)$")
_ARCH = regex(rb'"arch":"sm_(\d{1,3})(\d)[a-z]?"')
_AT_ONCE = 8192  # events of a chunk
_BYTES_AT_ONCE = 8 << 20  # of their text, whichever comes first
_LONGEST_NAME = 1024
"""Bytes of a name that are written with each event; a longer one is written once, and each event
gets it when it is decoded. Few kernels have longer ones."""
_LONGEST_CATEGORY = 64  # no known one is longer
_STANDS_FOR = "\0"  # begins what is written in place of a long name; no name does


def json_string(raw: bytes) -> bytes:
    """Text as JSON."""
    return msgspec.json.encode(raw.decode("utf-8", "replace"))


def member(raw: bytes) -> bytes:
    """`"name":value` of a DebugAnnotation. Raises DamagedMessageError."""
    name, value = _annotation(raw, 0, len(raw), 0)
    return json_string(name) + b":" + value


def extra(raw: bytes) -> bytes:
    """`"name":value` of a stage's ExtraData, whose values are all text."""
    found = ProtoMessage(raw)
    name = found.bytes(1)
    value = found.bytes(2)
    return (
        json_string(_RENAMED.get(name, name))
        + b":"
        + (value if _WHOLE.fullmatch(value) else json_string(value))
    )


def _annotation(raw: bytes, at: int, end: int, depth: int) -> tuple[bytes, bytes]:
    """Name and value; one without a value is an empty list."""
    if depth > _DEEPEST:
        raise DamagedMessageError("lists within lists without an end")
    found = ProtoMessage(raw, at, end)
    items = list[bytes]()
    nested = fields(raw, at, end) if _ARRAY in found or _DICT in found else ()
    for number, _, start, stop in nested:
        if number in (_DICT, _ARRAY):
            name, value = _annotation(raw, start, stop, depth + 1)
            items.append(value if number == _ARRAY else json_string(name) + b":" + value)
    form = b"{%b}" if _DICT in found else b"[%b]"
    return found.bytes(_NAME), _scalar(found) or form % b", ".join(items)


def _scalar(found: ProtoMessage) -> bytes:
    if _STRING in found:
        return json_string(found.bytes(_STRING))
    if _BOOL in found:
        return b"true" if found.value(_BOOL) else b"false"
    if _DOUBLE in found:
        value = found.double(_DOUBLE)
        return repr(value).encode() if math.isfinite(value) else b"null"
    return next((b"%d" % found.value(number) for number in (_INT, _UINT) if number in found), b"")


class PacketReader:
    """Takes packets; their events go to `rows`."""

    def __init__(self, rows: KinetoRows) -> None:
        self.rows = rows
        self.base_ns = 0
        self.edges: list[
            tuple[int, int]
        ] = []  # ids of rows of devices, and of those that they wait for in a graph
        self.arch: tuple[int, int] | None = None
        self.writer: set[bytes] = set()  # categories that the file names
        self.tables: dict[int, dict[int, bytes]] = defaultdict(dict)
        self._counters: dict[int, tuple[int, dict[int, bytes]]] = {}
        self._processes: dict[int, str] = {}
        self._tracks: dict[
            int, tuple[int, int, int]
        ] = {}  # process and thread of each, and its parent
        self._open: dict[int, deque[tuple[int, bytes, bytes, bytes]]] = defaultdict(deque)
        """Begins by track: time, name, category and arguments."""
        self._ending: set[int] = set()  # tracks whose run of ends has begun
        self._texts: list[bytes] = []
        self._text_bytes = 0
        self._long: dict[bytes, str] = {}  # what is written in place of long names
        self._names: dict[str, str] = {}  # long names, by what is written in place of them
        kept = lru_cache(_MOST_KEPT)
        self._member, self._extra, self._launched, self._quoted = map(
            kept, (member, extra, self._launch, json_string)
        )

    def take(self, packet: bytes) -> None:
        """Take one packet. Raises DamagedMessageError."""
        found = ProtoMessage(packet)
        if found.value(FLAGS) & 1:  # the tables begin again
            self.tables.clear()
            self._launched.cache_clear()
        for number, take in self._TAKERS.items():
            if number in found:
                take(self, found.bytes(number), found.value(TIME))
        if len(self._texts) >= _AT_ONCE or self._text_bytes > _BYTES_AT_ONCE:
            self.flush()

    def flush(self) -> None:
        """Hand over the events taken so far."""
        if self._texts:
            decoded = decode(b",".join(self._texts))
            if self._names:
                self._name(decoded.events)
            self.rows.add(decoded)
            self._texts.clear()
            self._text_bytes = 0

    def _name(self, events: Sequence[Event]) -> None:
        """Give events the long names that others stand for."""
        for event in events:
            if isinstance(event, CompleteEvent | CounterSample) and event.name.startswith(
                _STANDS_FOR
            ):
                event.name = self._names.get(event.name, event.name)

    def _written(self, name: bytes) -> bytes:
        """The name as JSON; of a long one what stands for it."""
        if len(name) <= _LONGEST_NAME:
            return self._quoted(name)
        if name not in self._long:
            self._long[name] = f"{_STANDS_FOR}{len(self._long)}"
            self._names[self._long[name]] = name.decode("utf-8", "replace")
        return msgspec.json.encode(self._long[name])

    def _write(self, text: bytes) -> None:
        self._texts.append(text)
        self._text_bytes += len(text)

    def close(self) -> None:
        """Hand over the last events; begins without an end are lost."""
        self.flush()
        self.rows.lost += sum(map(len, self._open.values()))
        for pid, tid, parent in self._tracks.values():
            name = self._processes.get(parent)
            self.rows.names.update({("process_name", pid, tid): name} if name else {})

    def _intern(self, raw: bytes, _: int) -> None:
        for table, _value, start, end in fields(raw):
            entry = ProtoMessage(raw, start, end)
            if table == COUNTERS:
                described = entry.bytes(2)
                specs = [
                    ProtoMessage(described, a, b)
                    for number, _size, a, b in fields(described)
                    if number == 1
                ]
                names = {spec.value(1): spec.bytes(2) for spec in specs}
                self._counters[entry.value(1)] = entry.value(3), names
            elif table in _TEXT_OF:
                self.tables[table][entry.value(1)] = entry.bytes(_TEXT_OF[table])
        self.writer |= set(self.tables[CATEGORIES].values())

    def _clock(self, raw: bytes, _: int) -> None:
        clocks = [
            ProtoMessage(raw, start, end)
            for number, _size, start, end in fields(raw)
            if number == 1
        ]
        self.base_ns = self.base_ns or next(
            (c.value(2) for c in clocks if c.value(1) == 6), 0
        )  # that of the trace

    def _track(self, raw: bytes, _: int) -> None:
        found = ProtoMessage(raw)
        if 3 in found:
            self._processes[found.value(1)] = ProtoMessage(found.bytes(3)).text(6)
        if 4 in found:
            thread = ProtoMessage(found.bytes(4))
            pid = thread.value(1)
            tid = thread.value(2)
            self._tracks[found.value(1)] = pid, tid, found.value(5)
            self.rows.names["thread_name", pid, tid] = thread.text(5)

    def _event(self, raw: bytes, time: int) -> None:
        message = ProtoMessage(raw)
        track = message.value(11)
        begun = self._open[track]
        if message.value(9) == _BEGIN:
            members = [
                self._member(raw[start:end]) for number, _, start, end in fields(raw) if number == 4
            ]
            category = self._category(message.value(3), track, members)
            name = self.tables[NAMES].get(message.value(10), b"unnamed")
            if track in self._ending:  # what the run before has left has no end
                self._ending.remove(track)
                self.rows.lost += len(begun)
                begun.clear()
            begun.append((time, name, category, b",".join(members)))
        elif message.value(9) == _END:
            self._ending.add(track)
            if not begun:
                self.rows.lost += 1
                return
            start, name, category, arguments = begun.popleft()
            pid, tid, _ = self._tracks.get(track, (-1, -1, 0))
            self._span(category, name, (pid, tid), start, time, arguments)

    def _category(self, iid: int, track: int, members: list[bytes]) -> bytes:
        """The category; syncs and overheads have none, and are told by what they carry and by their
        track."""
        known = self.tables[CATEGORIES].get(iid, b"")[:_LONGEST_CATEGORY]
        if known:
            return b"" if group_of(known.decode("utf-8", "replace")) in _ON_DEVICE else known
        if any(one.startswith(b'"cuda_sync_kind"') for one in members):
            return b"cuda_sync"
        return (
            b"overhead"
            if self._processes.get(self._tracks.get(track, (0, 0, 0))[2]) == "Overhead"
            else b""
        )

    def _stage(self, raw: bytes, time: int) -> None:
        message = ProtoMessage(raw)
        row = message.value(1)
        members = [
            self._extra(raw[start:end]) for number, _, start, end in fields(raw) if number == 6
        ]
        members.append(
            b'"External id":%d' % row
        )  # the reader takes it out again: no operator has it
        if 18 in message:
            self.edges += [
                (row, as_int64(value)) for number, value, *_ in fields(raw) if number == 18
            ]
        launch = self._launched(message.bytes(21)) if 21 in message else b""
        if launch:
            members.append(launch)
        carried = b",".join(members)
        arch = _ARCH.search(carried) if self.arch is None else None
        if arch is not None:
            self.arch = int(arch[1]), int(arch[2])
        stage = self.tables[STAGES].get(message.value(14), b"")
        names = (
            self.tables[KERNELS].get(message.value(19)),
            self.tables[NAMES].get(message.value(20)),
            stage,
        )
        name = next(filter(None, names), b"unnamed")
        self._span(
            _STAGES.get(stage, b""),
            name,
            (message.value(11), -1),
            time,
            time + message.value(2),
            carried,
        )

    def _launch(self, raw: bytes) -> bytes:
        parts = []
        for number, _, start, end in fields(raw):
            inner = ProtoMessage(raw, start, end)
            if number in (1, 2):
                sizes = b",".join(b"%d" % inner.value(i, 1) for i in (1, 2, 3))
                parts.append(b'"%b":[%b]' % (b"grid" if number == 1 else b"block", sizes))
            elif (
                number == 3
                and self.tables[ARGUMENTS].get(inner.value(1)) == b"registers_per_thread"
            ):
                parts.append(b'"registers per thread":%d' % inner.value(4, -1))
        return b",".join(parts)

    def _sample(self, raw: bytes, time: int) -> None:
        found = ProtoMessage(raw)
        device, names = self._counters.get(found.value(4), (found.value(3), {}))
        for sample in [
            ProtoMessage(raw, start, end) for number, _, start, end in fields(raw) if number == 2
        ]:
            name = names.get(sample.value(1), b"")
            value = sample.double(3) if 3 in sample else float(sample.value(2))
            # counters named "Cycles" are a kernel's duration times the median clock
            if name and not name.startswith(b"Cycles") and math.isfinite(value):
                shown = self._written(_UNIT.sub(rb" [\1]", name))
                self._write(
                    b'{"ph":"C","cat":"hardware_counters","name":%b,"pid":"GPU %d Counters","ts":%b,"args":{"":%b}}'
                    % (shown, device, self._us(time - self.base_ns), repr(value).encode())
                )

    def _span(
        self,
        category: bytes,
        name: bytes,
        lane: tuple[int, int],
        start: int,
        end: int,
        members: bytes,
    ) -> None:
        times = self._us(start - self.base_ns), self._us(end - start)
        self._write(
            b'{"ph":"X","cat":%b,"name":%b,"pid":%d,"tid":%d,"ts":%b,"dur":%b,"args":{%b}}'
            % (self._quoted(category), self._written(name), *lane, *times, members)
        )

    @staticmethod
    def _us(ns: int) -> bytes:
        """Nanoseconds as microseconds, exactly."""
        return b"%b%d.%03d" % (b"-" if ns < 0 else b"", *divmod(abs(ns), 1000))

    _TAKERS: ClassVar = {
        INTERNED: _intern,
        CLOCKS: _clock,
        TRACK: _track,
        EVENT: _event,
        STAGE: _stage,
        COUNTER: _sample,
    }
