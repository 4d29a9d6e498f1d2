"""unitrace writes an event a line, and leaves the list open where the program crashes.

`cpu_op` are calls of Level Zero, SYCL or MPI, `gpu_op` commands of a device, which has a process of
its own (`DEVICE<host>[name] pci #n`) and in that a thread for each engine and host thread. A flow
leads from the call that appended a command to the command. Times are microseconds since 1970 as
floating point: no finer than 250 ns."""

import math
import re
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import cache, partial
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from msgspec import Raw, Struct

from traceanalyzer.base import EmptyRecordingError, regex
from traceanalyzer.ingest.columns import Codes, StringCodes, by_value
from traceanalyzer.ingest.side_files import NOT_JSON, whole
from traceanalyzer.ingest.stream import open_stream, stream_lines
from traceanalyzer.trace.circumstances import Collected, Device, Health, Process, Thread
from traceanalyzer.trace.events import (
    ApiCalls,
    CopyKind,
    DeviceOpKind,
    DeviceOps,
    HostRanges,
    RangeKind,
)
from traceanalyzer.trace.run import Trace
from traceanalyzer.trace.table import I64

_OURS = regex(rb'"cat": ?"(?:gpu_op|(?:CL_)?Flow_(?:H2D|D2H)_\d+_\d+)"|"name": ?"(?:HOST|DEVICE)<')
_DEVICE = regex(r"DEVICE<([^>]{0,200})>\[(.{0,200})\]")
_HOST = regex(r"HOST<([^>]{0,200})>")
_TILE = regex(r"^Tile #\d+: ")
_KERNEL = regex(
    r"^(.*?)(?:\[SIMD\w*)? ?\{(\d+); (\d+); (\d+)\} \{(\d+); (\d+); (\d+)\}\]?$", re.DOTALL
)
"""A kernel's name with its groups and the work items of each."""
_MEMORY = regex(
    r"^(?:ze|cl)\w*?(?:Append(?:Memory|Image)|Enqueue(?:Read|Write|Copy|Fill|Map|Unmap|SVM))(\w*)"
)
_BYTES = regex(r"\[(\d{1,16})(?: bytes)?\]$")
_NO_WORK = regex(r"^ze\w*(?:Barrier|EventReset|SignalEvent|WaitOnEvents|Timestamps)")
"""Commands of a device that occupy none of it."""
_DIRECTIONS = {
    "H2D": CopyKind.HOST_TO_DEVICE,
    "M2D": CopyKind.HOST_TO_DEVICE,
    "S2D": CopyKind.HOST_TO_DEVICE,
    "D2H": CopyKind.DEVICE_TO_HOST,
    "D2M": CopyKind.DEVICE_TO_HOST,
    "D2S": CopyKind.DEVICE_TO_HOST,
    "D2D": CopyKind.DEVICE_TO_DEVICE,
}
"""Host, plain (M), shared (S) and device memory; shared memory is on the host until a device uses
it."""
_DIRECTION = regex(r"\((\w2\w)\)")
_CALL = regex(r"^(?:ze|zex|zes|cl|ur|pi)[A-Z]")
_LIBRARY = regex(r"^(?:MPI|PMPI|ccl|oneccl)")
_AT_ONCE = 4096
_LATEST = 2**61  # of any clock; differences fit 64 bits
_DIGITS = 18
_MOST = 2**20
"""Of a number that fits 64 bits; of groups or work items along one axis, so that their product
does."""
Command = tuple[int, int, int, int, int, int]  # kind, name, bytes, kind of copy, blocks, threads


class _Event(Struct, gc=False):
    ph: str = ""
    cat: str = ""
    name: str = ""
    pid: int = -1
    tid: int = -1
    ts: Raw = Raw()
    dur: Raw = Raw()
    id: int = -1
    args: dict[str, Any] = {}


_EVENT: msgspec.json.Decoder[_Event] = msgspec.json.Decoder(_Event)
_EVENTS: msgspec.json.Decoder[list[_Event]] = msgspec.json.Decoder(list[_Event])


def recognise(head: bytes, path: Path) -> bool:
    """Whether the text is a trace of unitrace. `head`: the first bytes of the decompressed file."""
    return head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{") and _OURS.search(head) is not None


def read(path: Path, progress: Callable[[float], None] | None = None) -> list[Trace]:
    """The trace in the file. Raises UnreadableInputError, EmptyRecordingError."""
    rows = _Rows()
    with open_stream(path, progress) as stream:
        lines = (line.strip(b", \t\r") for line in stream_lines(stream))
        while chunk := list(islice(lines, _AT_ONCE)):
            rows.closed = rows.closed or any(line.startswith(b"]") for line in chunk)
            for event in rows.decoded(
                [one for one in chunk if one.startswith(b"{") and b'"traceEvents"' not in one]
            ):
                rows.add(event)
    trace = rows.trace(path, stream.damage)
    if not len(trace.device_ops) + len(trace.api_calls):
        raise EmptyRecordingError(
            f"{path}: the trace holds no device work and no calls of Level Zero; record with "
            "`unitrace --chrome-kernel-logging --chrome-call-logging`"
        )
    return [trace]


def _command(texts: StringCodes, full: str) -> Command | None:
    """What a command of a device is, by its name; None for one that occupies none of it."""
    name = _TILE.sub("", full)
    if _NO_WORK.match(name):
        return None
    memory = _MEMORY.match(name)
    if memory:
        size = _BYTES.search(name)
        direction = _DIRECTION.search(name)
        fill = "Fill" in memory[0]
        kind = (
            _DIRECTIONS.get(direction[1], CopyKind.UNKNOWN)
            if direction and not fill
            else CopyKind.UNKNOWN
        )
        op = DeviceOpKind.MEMSET if fill else DeviceOpKind.MEMCPY
        code = texts.code(name.split("[")[0])
        copied_bytes = int(size[1]) if size else -1
        return op, code, copied_bytes, int(kind), -1, -1
    blocks = threads = -1
    shape = _KERNEL.match(name)
    if shape:
        name = shape[1]
        sizes = [min(int(size[:_DIGITS]), _MOST) for size in shape.groups()[1:]]
        blocks = math.prod(sizes[:3])
        threads = math.prod(sizes[3:])
    return DeviceOpKind.KERNEL, texts.code(name or "unnamed kernel"), -1, 0, blocks, threads


def _columns(numbers: "array[int]", *names: str) -> dict[str, I64]:
    return dict(zip(names, np.array(numbers).reshape(-1, len(names)).T, strict=True))


class _Rows:
    """Takes events one by one; the columns of each table are the result."""

    def __init__(self) -> None:
        self.texts = StringCodes()
        self.closed = False
        self.events = self.lost = self.skipped = 0
        self._command = cache(partial(_command, self.texts))
        self._ops, self._calls, self._ranges, self._flows = (array("q") for _ in range(4))
        """Rows of numbers, none of which is an object."""
        self._threads: Codes[int] = Codes()
        self._devices: Codes[int] = Codes()
        self._streams: Codes[tuple[int, int]] = Codes()
        self._named: dict[int, str] = {}
        self._open: dict[int, list[tuple[str, int]]] = defaultdict(list)
        self._pid: int | None = None

    def decoded(self, lines: list[bytes]) -> Iterator[_Event]:
        """The events of these lines; damaged ones are lost."""
        try:
            yield from _EVENTS.decode(b"[" + b",".join(lines) + b"]")
        except NOT_JSON:
            for line in lines:
                try:
                    yield _EVENT.decode(line)
                except NOT_JSON:
                    self.lost += 1

    def add(self, event: _Event) -> None:
        """Take one event; one without a time is lost."""
        self.events += 1
        if event.ph == "M":
            self._take_name(event)
            return
        start = _ns(event.ts)
        duration = _ns(event.dur) if event.dur else 0
        if start < 0 or duration < 0:
            self.lost += 1
        elif event.ph == "X" and event.cat == "gpu_op":
            self._on_device(event, start, start + duration)
        elif event.ph == "X" and event.cat == "cpu_op":
            self._on_host(event.name, self._threads[event.tid], start, start + duration)
            self._pid = event.pid
        elif event.ph == "s" and "Flow_H2D" in event.cat:
            self._flows.extend((self._threads[event.tid], start, event.id))
        elif event.ph == "B":
            self._open[event.tid].append((event.name, start))
        elif event.ph == "E" and self._open[event.tid]:
            name, began = self._open[event.tid].pop()
            self._on_host(name, self._threads[event.tid], began, max(start, began))
        else:
            self.skipped += 1

    def _take_name(self, event: _Event) -> None:
        self.skipped += 1
        name = event.args.get("name")
        if event.name == "process_name" and isinstance(name, str):
            self._named[event.pid] = name

    def _on_device(self, event: _Event, start: int, end: int) -> None:
        command = self._command(event.name)
        if command is None:
            self.skipped += 1
            return
        number = whole(str(event.args.get("id", "")))
        self._ops.extend(
            (
                *command,
                start,
                end,
                self._devices[event.pid],
                self._streams[event.pid, event.tid],
                number,
            )
        )

    def _on_host(self, name: str, thread: int, start: int, end: int) -> None:
        code = self.texts.code(name or "unnamed call")
        if _CALL.match(name):
            self._calls.extend((code, start, end, thread))
        else:
            kind = RangeKind.LIBRARY if _LIBRARY.match(name) else RangeKind.ANNOTATION
            self._ranges.extend((code, start, end, thread, int(kind)))

    def trace(self, path: Path, damage: str) -> Trace:
        """The trace of all rows."""
        kind = ("kind", "name", "bytes", "copy_kind", "blocks", "threads")
        ops = _columns(self._ops, *kind, "start", "end", "device", "stream", "id")
        calls = _columns(self._calls, "name", "start", "end", "thread")
        ranges = _columns(self._ranges, "name", "start", "end", "thread", "kind")
        self.lost += sum(map(len, self._open.values()))
        calls["correlation"] = np.arange(1, len(calls["start"]) + 1)
        ops["correlation"] = self._launches(ops.pop("id"), calls)
        devices = [_DEVICE.search(self._named.get(pid, "")) for pid in self._devices]
        hosts = map(_HOST.search, self._named.values())
        host = next((found[1] for found in hosts if found is not None), None)
        early = [f"The file ends early: {damage}."] if damage else []
        if not damage and not self.closed:
            early = ["The list of events is not closed: the program, or unitrace, crashed."]
        notes = (
            *early,
            "Times are written as floating point, in steps of a quarter of a microsecond.",
        )
        return Trace(
            str(path),
            "unitrace",
            self.texts.all(),
            Process(self._pid, host=host),
            threads=tuple(map(Thread, map(str, self._threads))),
            devices=tuple(
                Device(i, found[2] if found else None) for i, found in enumerate(devices)
            ),
            device_ops=DeviceOps.from_columns(ops, then="kind"),
            api_calls=ApiCalls.from_columns(calls),
            host_ranges=HostRanges.from_columns(ranges),
            collected=Collected(device=len(ops["start"]) > 0, api=len(calls["start"]) > 0),
            health=Health(
                self.events,
                skipped=self.skipped,
                lost=self.lost,
                truncated=bool(early),
                notes=notes,
            ),
        )

    def _launches(self, ids: I64, calls: dict[str, I64]) -> I64:
        """The number of the call that appended each command, the last on its thread as the flow
        began; -1: none."""
        flows = _columns(self._flows, "thread", "start", "id")
        if not len(flows["id"]) or not len(calls["start"]):
            return np.full(len(ids), -1)
        found = np.full(len(flows["id"]), -1)
        for thread in np.unique(flows["thread"]).tolist():
            of_thread = np.flatnonzero(calls["thread"] == thread)
            of_thread = of_thread[np.argsort(calls["start"][of_thread], kind="stable")]
            launches = np.flatnonzero(flows["thread"] == thread)
            place = (
                np.searchsorted(calls["start"][of_thread], flows["start"][launches], side="right")
                - 1
            )
            within = place >= 0
            within[within] = (
                calls["end"][of_thread[place[within]]] >= flows["start"][launches[within]]
            )
            found[launches[within]] = calls["correlation"][of_thread[place[within]]]
        by_id = dict(zip(flows["id"].tolist(), found.tolist(), strict=True))
        return by_value(ids, lambda i: by_id.get(i, -1))


def _ns(text: Raw) -> int:
    """Nanoseconds of microseconds as they are written, to the digit; -1 for what is no time."""
    microseconds, _, fraction = bytes(text).partition(b".")
    if (
        not microseconds.isdigit()
        or len(microseconds) > _DIGITS
        or not (fraction.isdigit() or not fraction)
    ):
        return -1
    time = int(microseconds) * 1000 + int(fraction[:3].ljust(3, b"0"))
    return time if time <= _LATEST else -1
