"""What rocprof v1 (ROCm up to 6) wrote: `results.json`, a timeline for Chrome's viewer, and
`results.csv`, a row a kernel with its times.

The timeline has a lane group a kind of record: ROCTx ranges, copies, calls of HIP and of HSA, and one a
GPU. Times in ns stand in the events' arguments. What a call launched is told by arrows alone: each leads
from within the call to the beginning of the work."""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from msgspec import Struct

from traceanalyzer.base import UnreadableInputError
from traceanalyzer.ingest.columns import StringCodes, by_value
from traceanalyzer.ingest.durations import Tally
from traceanalyzer.ingest.rocm import recorded as amd
from traceanalyzer.ingest.rocm import tables
from traceanalyzer.ingest.rocm.recorded import Columns, ProcessRows, traces_of
from traceanalyzer.ingest.side_files import NOT_JSON
from traceanalyzer.ingest.stream import open_stream
from traceanalyzer.trace import CopyKind, Process, RangeKind, Trace

_EXTENSION, _COPY, _HIP, _HSA = range(4)
_FIRST_GPU = 6
"""Lane groups (`pid` of an event)."""
_BARRIER = "<barrier packet>"
"""A marker in a queue, which occupies no GPU."""
_FILL = "FillBuffer"
_NO_PROCESS = -1
_CSV_TEXT = "kernelname"
_CSV_NUMBERS = ("beginns", "endns", "gpu-id", "queue-id", "pid", "grd", "wgr", "lds")
Number = int | float | str
_Launches = dict[tuple[int, int], list[int]]
"""Correlation ids of calls, by the lane group and the time that arrows from them lead to."""


class _Args(Struct, gc=False, frozen=True):
    """Arguments of a record; all of them are text."""

    begin: Number = msgspec.field(default=0, name="BeginNs")
    end: Number = msgspec.field(default=0, name="EndNs")
    process: Number = msgspec.field(default=_NO_PROCESS, name="pid")
    thread: Number = msgspec.field(default=-1, name="tid")
    device: Number = msgspec.field(default=-1, name="dev-id")
    agent: Number = msgspec.field(default=-1, name="gpu-id")
    queue: Number = msgspec.field(default=-1, name="queue-id")
    stream: Number = msgspec.field(default=-1, name="stream-id")


class _Event(Struct, gc=False, frozen=True):
    """A record, or one end of an arrow (`ph` s or t)."""

    ph: str = ""
    name: Number = ""
    pid: Number = -1
    tid: Number = -1
    ts: Number = 0
    id: Number = -1
    args: _Args | None = None


class _File(Struct, gc=False, frozen=True):
    events: list[_Event] = msgspec.field(name="traceEvents")


class _Record(Struct, gc=False, frozen=True):
    """A record with numbers in place of texts. `us`: its begin on the arrows' clock."""

    group: int
    lane: int
    us: int
    name: str
    begin: int
    end: int
    process: int
    thread: int
    device: int
    queue: int
    stream: int
    is_activity: bool  # of the runtime's own queue, which knows what launched it
    correlation: int


_FILE: msgspec.json.Decoder[_File] = msgspec.json.Decoder(_File)


def is_timeline(head: bytes) -> bool:
    """Whether the text is a timeline of rocprof v1. `head`: the first bytes of the decompressed
    file."""
    is_object = head.lstrip(b" \t\r\n").startswith(b"{")
    return is_object and b'"traceEvents"' in head and b'"BeginNs"' in head


def is_kernel_table(head: bytes) -> bool:
    """Whether the text is rocprof v1's table of kernels, with their times."""
    return {_CSV_TEXT, "beginns", "endns"}.issubset(tables.columns_named(head))


def read_timeline(path: Path, progress: Callable[[float], None] | None) -> list[Trace]:
    """A trace for each process that used a GPU or called HIP. Raises UnreadableInputError."""
    with open_stream(path, progress) as stream:
        text = b"".join(stream)
    events, is_cut = _decoded(path, text)
    tally = Tally()
    records = _records(events, tally)
    by_process: dict[int, list[_Record]] = defaultdict(list)
    for record in records:
        by_process[record.process].append(record)
    texts = StringCodes()
    recorded = [_recorded(pid, own, texts, tally) for pid, own in by_process.items()]
    return traces_of(
        path, "rocprof", recorded, texts, tally, truncated=is_cut or bool(stream.damage)
    )


def read_kernel_table(path: Path, progress: Callable[[float], None] | None) -> list[Trace]:
    """A trace for each process, of its kernels alone. Raises UnreadableInputError."""
    tally = Tally()
    texts = StringCodes()
    by_guid = tables.read_columns(path, _CSV_NUMBERS, _CSV_TEXT, texts, tally, progress)
    rows = by_guid.get("", {})
    recorded = []
    for pid in sorted({*rows["pid"].tolist()} if rows else ()):
        own = amd.of_process(rows, pid)
        process = Process(pid if pid >= 0 else None)
        recorded.append(ProcessRows(process, {}, _kernels(own, texts), {}, {}))
    return traces_of(path, "rocprof_csv", recorded, texts, tally)


def _kernels(rows: Columns, texts: StringCodes) -> Columns:
    along_others = np.ones(len(rows["name"]), np.int64)  # the sizes are products of the three axes
    spelt = texts.in_order()
    return {
        **amd.launch_shape([rows["grd"], along_others], [rows["wgr"], along_others]),
        "start": rows["beginns"],
        "end": rows["endns"],
        "kind": np.full(len(along_others), amd.KERNEL),
        "name": by_value(rows["name"], lambda code: texts.code(_plain(spelt[code]))),
        "device": rows["gpu-id"],
        "queue": rows["queue-id"],
        "stream": rows["queue-id"],
        "shared_bytes": rows["lds"],
    }


def _plain(name: str) -> str:
    """A kernel's name without what the loader adds."""
    return name.removesuffix(" [clone .kd]").removesuffix(".kd")


def _decoded(path: Path, text: bytes) -> tuple[list[_Event], bool]:
    """The events, and whether the file is cut off behind the last whole one. Raises
    UnreadableInputError."""
    try:
        return _FILE.decode(text).events, False
    except NOT_JSON as error:
        why = str(error).split(" - at")[0]
    try:
        return _FILE.decode(text[: text.rfind(b"\n,{")] + b"]}").events, True
    except NOT_JSON:
        raise UnreadableInputError(
            f"{path}: rocprof's JSON is damaged ({why}); copy or record it again"
        ) from None


def _records(events: Sequence[_Event], tally: Tally) -> list[_Record]:
    """The records of work, calls and ranges, each with the number of the arrow that leads to it or
    from it."""
    found = [_record(event) for event in events if event.ph == "X" and event.args is not None]
    tally.skipped += len(events) - len(found)
    kept = _of_one_source([record for record in found if record.name != _BARRIER])
    tally.skipped += len(found) - len(kept)
    return _linked(kept, events)


def _record(event: _Event) -> _Record:
    args = event.args or _Args()
    is_activity = _whole(args.device) >= 0
    return _Record(
        group=_whole(event.pid),
        lane=_whole(event.tid),
        us=_whole(event.ts),
        name=str(event.name),
        begin=_whole(args.begin),
        end=_whole(args.end),
        process=_whole(args.process),
        thread=_whole(args.thread),
        device=_whole(args.device if is_activity else args.agent),
        queue=_whole(args.queue),
        stream=_whole(args.stream),
        is_activity=is_activity,
        correlation=-1,
    )


def _whole(number: Number) -> int:
    """A number as rocprof writes it (`"108000"`), -1 where it is none or no time."""
    try:
        value = int(float(number)) if "." in str(number) else int(number)
    except (ValueError, OverflowError):
        return -1
    return value if -(2**62) < value < 2**62 else -1


def _of_one_source(records: list[_Record]) -> list[_Record]:
    """Work that the runtime and the hardware's queues both recorded, once: as the runtime did."""
    doubled = {record.group == _COPY for record in records if record.is_activity}
    return [
        record
        for record in records
        if record.is_activity or not _is_work(record) or (record.group == _COPY) not in doubled
    ]


def _is_work(record: _Record) -> bool:
    return record.group == _COPY or record.group >= _FIRST_GPU


def _linked(records: list[_Record], events: Sequence[_Event]) -> list[_Record]:
    """The records with correlation ids: calls by their order, work by the call that an arrow to it
    comes from."""
    calls = [record for record in records if record.group == _HIP]
    calls.sort(key=attrgetter("us"))
    numbered = [
        msgspec.structs.replace(call, correlation=number)
        for number, call in enumerate(calls, start=1)
    ]
    launched = _launched(numbered, events)
    others = [record for record in records if record.group != _HIP]
    return [*numbered, *(_with_call(record, launched) for record in others)]


def _launched(calls: list[_Record], events: Sequence[_Event]) -> _Launches:
    """The calls that arrows come from."""
    of_thread: dict[int, list[_Record]] = defaultdict(list)
    for call in calls:
        of_thread[call.lane].append(call)
    starts = {event.id: event for event in events if event.ph == "s"}
    launched: _Launches = defaultdict(list)
    for event in events:
        start = starts.get(event.id) if event.ph == "t" else None
        if start is None:
            continue
        origin = _last_before(of_thread.get(_whole(start.tid), []), _whole(start.ts))
        if origin is not None:
            launched[_whole(event.pid), _whole(event.ts)].append(origin.correlation)
    return launched


def _last_before(calls: list[_Record], us: int) -> _Record | None:
    """The last of a thread's calls that began by then."""
    place = bisect_right(calls, us, key=attrgetter("us"))
    return calls[place - 1] if place else None


def _with_call(record: _Record, launched: _Launches) -> _Record:
    if not _is_work(record):
        return record
    numbers = launched.get((record.group, record.us))
    return msgspec.structs.replace(record, correlation=numbers.pop(0)) if numbers else record


def _recorded(pid: int, records: list[_Record], texts: StringCodes, tally: Tally) -> ProcessRows:
    work = [record for record in records if record.group >= _FIRST_GPU]
    copied = [record for record in records if record.group == _COPY]
    calls = [record for record in records if record.group == _HIP]
    ranges = [record for record in records if record.group in (_EXTENSION, _HSA)]
    return ProcessRows(
        Process(pid if pid >= 0 else None),
        {},
        amd.with_all_columns([_work(work, texts), _copies(copied, texts)]),
        _host(calls, texts),
        _ranges(ranges, texts),
    )


def _work(records: list[_Record], texts: StringCodes) -> Columns:
    if not records:
        return {}
    names = texts.codes([_plain(record.name) for record in records])
    return _placed(records) | {
        "kind": np.full(len(records), amd.KERNEL),
        "name": np.array(names, np.int64),
    }


def _copies(records: list[_Record], texts: StringCodes) -> Columns:
    if not records:
        return {}
    placed = _placed(records)
    names = [record.name for record in records]
    codes = np.array(texts.codes(names), np.int64)
    unknown = np.full(len(records), -1, np.int64)
    spelt = texts.in_order().__getitem__
    described = amd.copies(codes, spelt, unknown, unknown, texts)
    is_fill = np.array([_FILL in name for name in names])
    fill = texts.code("Memset (Device)")
    return {
        **placed,
        "kind": np.where(is_fill, amd.MEMSET, amd.MEMCPY),
        "name": np.where(is_fill, fill, described["name"]),
        "copy_kind": np.where(is_fill, int(CopyKind.UNKNOWN), described["copy_kind"]),
    }


def _placed(records: list[_Record]) -> Columns:
    columns = _columns(records, "begin", "end", "correlation", "device", "queue", "stream")
    has_streams = bool((columns["stream"] >= 0).any())
    return {
        "start": columns["begin"],
        "end": columns["end"],
        "correlation": columns["correlation"],
        "device": np.maximum(columns["device"], 0),
        "queue": columns["queue"],
        "stream": columns["stream"] if has_streams else columns["queue"],
    }


def _host(records: list[_Record], texts: StringCodes) -> Columns:
    if not records:
        return {}
    columns = _columns(records, "begin", "end", "thread", "correlation")
    names = texts.codes([record.name for record in records])
    return {
        "start": columns["begin"],
        "end": columns["end"],
        "thread": columns["thread"],
        "correlation": columns["correlation"],
        "name": np.array(names, np.int64),
    }


def _ranges(records: list[_Record], texts: StringCodes) -> Columns:
    columns = _host(records, texts)
    if columns:
        del columns["correlation"]
        is_own = np.array([record.group == _EXTENSION for record in records])
        columns["kind"] = np.where(is_own, int(RangeKind.ANNOTATION), int(RangeKind.LIBRARY))
    return columns


def _columns(records: list[_Record], *names: str) -> dict[str, Any]:
    return {
        name: np.array([getattr(record, name) for record in records], np.int64) for name in names
    }
