"""What one process recorded on AMD GPUs, in whatever form it was written, and the trace that it
makes. Columns are named as in the trace's tables. Beside these, device work has `queue`, the
hardware queue that it ran on, and host rows have in `thread` the thread's own id."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.base import dataclass, regex
from traceanalyzer.ingest.columns import StringCodes, by_value, looked_up
from traceanalyzer.ingest.durations import LATEST, Tally, mend_times
from traceanalyzer.ingest.side_files import mappings
from traceanalyzer.trace import (
    I64,
    ApiCalls,
    CopyKind,
    DeviceOpKind,
    DeviceOps,
    HostRanges,
    Overheads,
    Trace,
)
from traceanalyzer.trace.circumstances import Collected, Device, Health, Process, Thread
from traceanalyzer.trace.table import distinct, distinct_places

Columns = dict[str, NDArray[Any]]
KERNEL, MEMCPY, MEMSET = (
    int(kind) for kind in (DeviceOpKind.KERNEL, DeviceOpKind.MEMCPY, DeviceOpKind.MEMSET)
)
_NONE = np.empty(0, np.int64)
_MANY_HANDLES = 16
"""Programs have fewer streams, as a rule. Where there are more, and most carry one op, the runtime
has numbered something else, and the hardware's queues say more (a run of RCCL's: 555 of 563
handles)."""
_NESTED = 8
"""Calls within calls that lie between a launch and what the program called; two are known."""
_COPIES = {kind.name.replace("_", ""): kind for kind in CopyKind}
_COPY = regex(r"(?:MEMORY)?COPY")


@dataclass(frozen=True)
class ProcessRows:
    """The rows of one process."""

    process: Process
    devices: Mapping[int, Device]  # by the number that device work has
    ops: Columns
    calls: Columns
    ranges: Columns
    overheads: Columns = field(default_factory=dict)


def traces_of(
    path: Path,
    source: str,
    found: Sequence[ProcessRows],
    texts: StringCodes,
    tally: Tally,
    *,
    truncated: bool = False,
) -> list[Trace]:
    """A trace for each process of a file that used a GPU, or else called HIP, by process id; none
    where none did. What concerns the whole file is in the first one's health."""
    chosen = [rows for rows in found if rows.ops] or [
        rows for rows in found if rows.calls or rows.ranges
    ]
    if not chosen:
        return []
    left_out = len(found) - len(chosen)
    if left_out:
        tally.notes.append(f"{left_out} processes without GPU work are left out.")
    traces = [_trace_of(path, source, rows, texts.all(), tally) for rows in chosen]
    traces.sort(key=lambda trace: trace.process.place)
    if len(traces) > 1:
        tally.notes.append(
            f"The ranks of its {len(traces)} processes are not recorded; they are numbered "
            "by process id."
        )
        traces = [
            replace(t, process=replace(t.process, rank=i, numbered=True))
            for i, t in enumerate(traces)
        ]
    events = traces[0].health.events + tally.lost + tally.skipped
    return tally.with_health(traces, events, dict.fromkeys(tally.notes), truncated=truncated)


def _trace_of(
    path: Path, source: str, rows: ProcessRows, strings: list[str], tally: Tally
) -> Trace:
    """The trace of one process. Rows without times are lost, and counted as such; times that end
    before they begin are cut to nothing."""
    parts = (rows.ops, rows.calls, rows.ranges, rows.overheads)
    ops, calls, ranges, overheads = (_timed(columns, tally) for columns in parts)
    _number_streams(ops, tally)
    on_host = (calls, ranges, overheads)
    threads = _number_threads(on_host)
    table = DeviceOps.from_columns(ops, then="kind")
    numbers = [number for number in distinct(table.device).tolist() if number >= 0]
    events = sum(len(part.get("start", _NONE)) for part in (ops, *on_host))
    return Trace(
        path=str(path),
        source=source,
        strings=strings,
        process=rows.process,
        threads=tuple(map(Thread, map(str, threads.tolist()))),
        devices=tuple(rows.devices.get(number, Device(number)) for number in numbers),
        device_ops=table,
        api_calls=ApiCalls.from_columns(calls),
        host_ranges=HostRanges.from_columns(ranges),
        overheads=Overheads.from_columns(overheads),
        collected=Collected(device=len(table) > 0, api=len(calls.get("start", _NONE)) > 0),
        health=Health(events=events),
    )


def _number_streams(ops: Columns, tally: Tally) -> None:
    """Take streams from handles and hardware queues, whichever say more."""
    queues = ops.pop("queue", None)
    if not ops:
        return
    streams = ops["stream"]
    if queues is not None:
        streams = ops["stream"] = _streams(streams, queues, tally)
    if streams.max(initial=0) >= 2**31:  # addresses become small numbers
        known, place = distinct_places(streams)
        ops["stream"] = place - np.count_nonzero(known < 0)


def _number_threads(on_host: Sequence[Columns]) -> NDArray[Any]:
    """Number the threads of host rows; the thread ids in the order of the numbers."""
    threads = distinct(np.concatenate([columns.get("thread", _NONE) for columns in on_host]))
    for columns in filter(None, on_host):
        columns["thread"] = np.searchsorted(threads, columns["thread"])
    return threads


def _timed(columns: Columns, tally: Tally) -> Columns:
    """The rows that have times; a start of 0 is none."""
    if not columns:
        return {}
    mended = dict(columns)
    has_times = (columns["start"] > 0) & (columns["end"] > 0)
    is_timed = mend_times(mended, has_times, tally)
    return mended if is_timed.all() else of_rows(mended, is_timed)


def with_all_columns(parts: Sequence[Columns]) -> Columns:
    """Rows of several kinds; what one of them lacks is -1, unknown."""
    names = dict.fromkeys(name for part in parts for name in part)
    full = [_with_all(part, names) for part in parts if part]
    return {name: np.concatenate([part[name] for part in full]) for name in names}


def _with_all(columns: Columns, names: Iterable[str]) -> Columns:
    unknown = np.full(len(columns["start"]), -1)
    return {name: columns.get(name, unknown) for name in names}


def of_rows(columns: Columns, rows: NDArray[Any]) -> Columns:
    """The given rows."""
    return {name: column[rows] for name, column in columns.items()}


def of_process(rows: Columns, pid: int) -> Columns:
    """The rows of a process, without its id; nothing where there are none."""
    if not rows:
        return {}
    is_own = rows["pid"] == pid
    if not is_own.any():
        return {}
    return {name: column for name, column in of_rows(rows, is_own).items() if name != "pid"}


def outermost(correlation: I64, calls: Columns, inner: I64, outer: I64) -> I64:
    """The correlation of the call of HIP in which each op was launched, where it was launched by a
    call inside one. `inner`, `outer`: correlations of calls of other kinds, and of what they were
    called in; 0 and less: none."""
    inside = np.flatnonzero((outer > 0) & (inner > 0))
    inside = inside[np.argsort(inner[inside], kind="stable")]
    inner = inner[inside]
    outer = outer[inside]
    known = calls.get("correlation", _NONE)
    for _ in range(_NESTED):
        up = looked_up(inner, outer, correlation)
        climb = (up > 0) & (up != correlation) & ~np.isin(correlation, known)
        if not climb.any():
            break
        correlation = np.where(climb, up, correlation)
    return correlation


def launch_shape(grid: Sequence[I64], group: Sequence[I64]) -> Columns:
    """Blocks and threads of each kernel. AMD counts a grid in work items, not in work groups."""
    sizes = np.stack(group)
    items = np.stack(grid)
    known = ((sizes > 0) & (items > 0)).all(axis=0)
    blocks = np.prod(-(-items // np.maximum(sizes, 1)), axis=0)
    return {
        "blocks": np.where(known, blocks, -1),
        "threads": np.where(known, np.prod(sizes, axis=0), -1),
    }


def copy_of(name: str) -> CopyKind:
    """Direction of a copy, from what AMD calls it (`MEMORY_COPY_HOST_TO_DEVICE`,
    `CopyHostToDevice`)."""
    return _COPIES.get(_COPY.sub("", name.upper().replace("_", "")), CopyKind.UNKNOWN)


def copies(
    names: I64, spelt: Callable[[int], str], source: I64, target: I64, texts: StringCodes
) -> Columns:
    """Columns of copies with these names, by number, from and to these devices (-1: the host)."""
    kinds = by_value(names, lambda name: copy_of(spelt(name)))
    peers = (
        (kinds == CopyKind.DEVICE_TO_DEVICE) & (target >= 0) & (source >= 0) & (target != source)
    )
    return {
        "kind": np.full(len(names), MEMCPY),
        "name": by_value(names, lambda name: texts.code(copy_of(spelt(name)).label)),
        "device": np.where(target >= 0, target, source),
        "copy_kind": np.where(peers, CopyKind.PEER_TO_PEER, kinds),
    }


def device_of(number: int, agent: Mapping[str, Any]) -> Device:
    """A GPU as rocprofv3 describes an agent; what is missing or malformed is left out."""
    sizes = [_count(bank.get("size_in_bytes")) or 0 for bank in mappings(agent.get("mem_banks"))]
    target = _count(agent.get("gfx_target_version"))
    name = agent.get("product_name")
    return Device(
        number,
        name=name if isinstance(name, str) and name else None,
        sm_count=_count(agent.get("cu_count")),
        memory_bytes=_count(sum(sizes)),
        compute_capability=(target // 10_000, target // 100 % 100) if target else None,
    )


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and 0 < value < LATEST else None


def _streams(handles: I64, queues: I64, tally: Tally) -> I64:
    """The stream of each op: the runtime's handle, or the queue where handles carry one op each."""
    known, places = distinct_places(handles[handles >= 0])
    alone = int(np.count_nonzero(np.bincount(places) == 1))
    if len(known) < _MANY_HANDLES or 2 * alone <= len(known) or not (queues >= 0).any():
        return handles
    tally.notes.append(
        f"{alone:,} of {len(known):,} stream handles carry one operation each: streams "
        "are the hardware's queues here."
    )
    return queues
