"""The rows and metadata of a Kineto file as a `Trace`."""

from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.base import UnreadableInputError, dataclass
from traceanalyzer.base.parallel import both_threaded
from traceanalyzer.ingest.columns import Codes, looked_up
from traceanalyzer.ingest.durations import clip_impossible
from traceanalyzer.ingest.kineto.arguments import OF_GROUP, Collective
from traceanalyzer.ingest.kineto.chunks import KinetoFile
from traceanalyzer.ingest.kineto.events import RowGroup
from traceanalyzer.ingest.kineto.metadata import (
    devices_of,
    distributed,
    groups_of,
    integer,
    on_the_gpu,
    parse_metadata,
)
from traceanalyzer.ingest.kineto.names import MTIA_COPY, copy_ends, copy_kind, no_operator
from traceanalyzer.ingest.kineto.rows import KinetoRows
from traceanalyzer.trace import I64, Bool, Collectives, DeviceOpKind, RangeKind, Trace, Waits
from traceanalyzer.trace.circumstances import Collected, Health, Process, Thread
from traceanalyzer.trace.events import (
    ApiCalls,
    DeviceOps,
    DeviceRanges,
    GpuMetrics,
    HostRanges,
    MemoryEvents,
    Overheads,
)
from traceanalyzer.trace.table import distinct

_SYSTEMATIC_SHARE = 0.01
"""Of device ops that start before their launch: above, the two clocks disagree."""
CLOCK_ERROR_NS = 1_000
"""Host and device are aligned to about a microsecond; less is not a disagreement."""
_LAUNCHED_SHARE = 0.01
"""Of device ops: a process with calls of their ids for more than this launches work. A recording is
of one such process; several are ranks that were merged."""


_DOUBLED_SHARE = 0.05
"""Of the calls with an id: above, they are of two processes."""


class MergedRanksError(UnreadableInputError):
    """Rows of several ranks in one file, which clash where they are read as one."""


def kineto_trace(path: Path, file: KinetoFile, rows: KinetoRows, damage: str) -> Trace:
    """The trace of all rows read. `damage`: why the file ended early, if it did. Empties the rows'
    columns. Raises MergedRanksError."""
    metadata = parse_metadata(file.metadata)
    events = _events(path, rows)
    if file.arrays == 1 and _are_doubled(events):
        raise MergedRanksError(
            f"{path}: calls of one process have the same correlation ids twice: recordings of several processes with "
            "one process id (as in containers) were merged, and which work is whose cannot be told; give the file of "
            "each rank as the profiler wrote it"
        )
    used = [number for number in distinct(events.ops.device).tolist() if number >= 0]
    devices, remark = devices_of(metadata, used)
    health = _health(file, rows, damage, events, remark)
    memory = MemoryEvents.from_columns(rows.tables[MemoryEvents].take())
    waits = Waits.from_columns(rows.tables[Waits].take())
    collectives = _collectives(rows, groups_of(metadata))  # adds strings
    return Trace(
        path=str(path),
        source="kineto",
        strings=rows.texts.all(),
        process=_process(metadata, rows, events.pids),
        threads=tuple(
            Thread(str(tid), rows.names.get(("thread_name", pid, tid), ""))
            for pid, tid in rows.threads
        ),
        devices=devices,
        device_ops=events.ops,
        api_calls=events.api,
        host_ranges=events.host,
        waits=waits.take(waits.kind > 0),
        overheads=Overheads.from_columns(rows.tables[Overheads].take()),
        device_ranges=DeviceRanges.from_columns(rows.tables[DeviceRanges].take()),
        memory_events=on_the_gpu(memory, [d.id for d in devices], metadata),
        gpu_metrics=GpuMetrics.from_columns(rows.tables[GpuMetrics].take()),
        collectives=collectives,
        collected=_collected(metadata, rows, events.host),
        health=health,
        epoch_ns=integer(metadata.get("baseTimeNanoseconds")) or 0,
        window=rows.window,
    )


@dataclass(frozen=True, eq=False)
class _Events:
    """What the host and the devices did."""

    api: ApiCalls
    host: HostRanges
    ops: DeviceOps
    clipped: int  # device ops whose impossible ends were cut
    pids: list[int]


def _events(path: Path, rows: KinetoRows) -> _Events:
    """The events of a file. Raises MergedRanksError where several ranks were merged into it."""
    (api, host), device = both_threaded(partial(_host, rows), partial(_device, rows), rows.kept)
    pids = _pids(rows, api, host)
    columns, end, cut = device
    clipped = 0
    if len(pids) < 2:  # the streams of two processes carry the same numbers
        columns = columns | {"end": end}
        clipped = int(np.count_nonzero(cut))
    ops = DeviceOps.from_columns(columns, then="kind")
    merged = _launching_processes(rows, api, ops)
    if merged > 1:
        raise MergedRanksError(
            f"{path}: {merged} processes merged into one file; which GPU's rows are whose cannot be told: more than "
            "one of them can have launched the same work; give the file of each rank as the profiler wrote it"
        )
    return _Events(api, host, ops, clipped, pids)


def _host(rows: KinetoRows) -> tuple[ApiCalls, HostRanges]:
    host = rows.tables[HostRanges].take_ordered("start", "kind")
    strings = rows.texts.all()
    is_op = host["kind"] == RangeKind.OP
    seen = np.zeros(len(strings) + 1, bool)  # the last one for -1
    seen[host["name"][is_op]] = True
    codes = np.flatnonzero(seen[:-1]).tolist()
    told = ((code, no_operator(strings[code])) for code in codes)
    found = {code: kind for code, kind in told if kind}
    if found:
        kinds = np.full(len(strings) + 1, RangeKind.OP, host["kind"].dtype)
        kinds[list(found)] = list(found.values())
        host["kind"] = np.where(is_op, kinds[host["name"]], host["kind"])
    api = ApiCalls.from_columns(rows.tables[ApiCalls].take())
    return api, HostRanges.from_columns(host, then="kind" if found else "")


def _device(rows: KinetoRows) -> tuple[dict[str, NDArray[Any]], I64, Bool]:
    """The columns of the device ops, their ends with impossible ones cut, and which those are. Of
    the copies directions and kinds of memory are told by their names."""
    window_end = rows.window[1] if rows.window else rows.window_end or None
    columns = rows.tables[DeviceOps].take()
    strings = rows.texts.all()
    dma = [code for code, text in enumerate(strings) if text.startswith(MTIA_COPY)]
    if dma:
        kind = np.where(np.isin(columns["name"], dma), DeviceOpKind.MEMCPY, columns["kind"])
        columns["kind"] = kind.astype(np.uint8)
    copies = np.flatnonzero(columns["kind"] == DeviceOpKind.MEMCPY)
    codes, inverse = np.unique(columns["name"][copies], return_inverse=True)
    meaning = [(copy_kind(strings[c]), *copy_ends(strings[c])) for c in codes]
    for i, name in enumerate(("copy_kind", "source_memory", "target_memory")):
        kinds = np.array([kind[i] for kind in meaning], np.uint8)
        columns[name] = np.zeros(len(columns["kind"]), np.uint8)
        columns[name][copies] = kinds[inverse]
    return columns, *clip_impossible(columns, window_end)


def _collectives(rows: KinetoRows, groups: dict[str, str]) -> Collectives:
    found = list(rows.collectives)
    texts = rows.texts.in_order()
    for i, collective in enumerate(found):
        ranks, _, group = (texts[collective.ranks] if collective.ranks >= 0 else "").rpartition(
            OF_GROUP
        )
        if ranks and group in groups:
            found[i] = collective._replace(ranks=rows.texts.code(f"{ranks} {groups[group]}"))
    return Collectives.from_columns(
        {name: [row[i] for row in found] for i, name in enumerate(Collective._fields)},
        rows=len(found),
    )


def _pids(rows: KinetoRows, api: ApiCalls, host: HostRanges) -> list[int]:
    """Ids of the processes whose host events are in the file, the one with most first. Stacks name
    threads without their process: the other events a process must have made itself."""
    own = host.kind != RangeKind.PYTHON
    most = len(rows.threads)
    threads = host.thread[own] if own.any() else host.thread
    events = np.bincount(api.thread, minlength=most) + np.bincount(threads, minlength=most)
    count: Counter[int] = Counter()
    for (pid, _), number in zip(rows.threads, events, strict=False):
        if isinstance(pid, int) and number:
            count[pid] += int(number)
    return [pid for pid, _ in count.most_common()]


def _launching_processes(rows: KinetoRows, api: ApiCalls, ops: DeviceOps) -> int:
    """How many processes have calls with the correlation ids of device ops."""
    process: Codes[Any] = Codes()
    of_thread = np.array([process[pid] for pid, _ in rows.threads], np.int64)
    if len(process) < 2 or not len(ops):
        return 0
    is_known = (api.correlation > 0) & (api.thread >= 0)
    callers = {int(of_thread[thread]) for thread in distinct(api.thread[is_known])}
    if len(callers) < 2:  # as in nearly all files
        return len(callers)
    launched = is_known & np.isin(api.correlation, ops.correlation)
    of_call = of_thread[api.thread[launched]]
    ids = api.correlation[launched]
    own_shares = [
        np.isin(ops.correlation, ids[of_call == code]).mean() for code in distinct(of_call)
    ]
    return sum(1 for share in own_shares if share > _LAUNCHED_SHARE)


def _are_doubled(events: _Events) -> bool:
    """Whether so many calls of one name launch under the id of another that they are of two
    processes. Calls of one process have an id each, but for a driver's call beneath the runtime's.
    Calls that launch nothing do not count: CUPTI gives all calls of a thread that polls events one
    id."""
    if not _have_doubles(events.api):
        return False
    return _have_doubles(events.api.take(np.isin(events.api.correlation, events.ops.correlation)))


def _have_doubles(api: ApiCalls) -> bool:
    """Whether more than a few calls with an id share it with another call of their name."""
    known = api.correlation > 0
    ids = api.correlation[known]
    least = (1 - _DOUBLED_SHARE) * len(ids)
    if len(distinct(ids)) >= least:  # fewer than pairs of ids and names; found sooner than these
        return False
    names = int(api.name.max()) + 1
    return len(distinct(ids.astype(np.int64) * names + api.name[known])) < least


def _process(metadata: dict[str, Any], rows: KinetoRows, pids: list[int]) -> Process:
    names = {p: text for (kind, p, _), text in rows.names.items() if kind == "process_name"}
    host = metadata.get("host_name", metadata.get("hostname"))
    return Process(
        pid=pids[0] if pids else None,
        name=names.get(pids[0], "") if pids else "",
        rank=distributed(metadata, "rank"),
        world_size=distributed(metadata, "world_size"),
        host=host if isinstance(host, str) else None,
    )


def _collected(metadata: dict[str, Any], rows: KinetoRows, host: HostRanges) -> Collected:
    count = rows.counts
    return Collected(
        device=any(count[group] for group in (RowGroup.KERNEL, RowGroup.MEMCPY, RowGroup.MEMSET)),
        api=count[RowGroup.API] > 0,
        ops=count[RowGroup.OP] > 0,
        shapes=bool(integer(metadata.get("record_shapes"))) or bool(np.any(host.shapes >= 0)),
        stacks=bool(integer(metadata.get("with_stack"))) or count[RowGroup.PYTHON] > 0,
        memory=bool(integer(metadata.get("profile_memory"))) or rows.memory_events > 0,
        sync_events=count[RowGroup.SYNC] > 0,
    )


def _health(
    file: KinetoFile, rows: KinetoRows, damage: str, events: _Events, remark: str
) -> Health:
    """Counts and notes for the report."""
    repaired = rows.repaired + sum(columns.mended for columns in rows.tables.values())
    notes = [
        *_notes_on_file(file, rows, damage, events.pids),
        *_notes_on_damage(repaired, rows.lost, events.clipped),
        _clock_note(events.ops, events.api),
        remark,
        *unread(rows),
    ]
    return Health(
        events=rows.events,
        skipped=rows.skipped,
        repaired=repaired,
        lost=rows.lost,
        clipped=events.clipped,
        truncated=file.truncated or bool(damage),
        notes=tuple(filter(None, notes)),
    )


def _notes_on_file(
    file: KinetoFile, rows: KinetoRows, damage: str, pids: list[int]
) -> Iterator[str]:
    if damage:
        yield f"The file ends early, after {rows.events:,} events: {damage}."
    elif file.truncated:
        yield f"The file is cut off after {rows.events:,} events: its list is not closed."
    if file.arrays > 1:
        yield (
            f"The file holds {file.arrays} recordings written one after the other; they are "
            "read as one."
        )
    if len(pids) > 1:
        ids = ", ".join(map(str, sorted(pids)[:4]))
        yield (
            f"The file holds events of {len(pids)} processes (pid {ids}); their correlation ids "
            "and streams may clash: write one file for each process."
        )


def _notes_on_damage(repaired: int, lost: int, clipped: int) -> Iterator[str]:
    if repaired:
        yield f"{repaired:,} events or values were damaged and could be mended."
    if lost:
        yield f"{lost:,} events were damaged and are missing from all figures."
    if clipped:
        yield (
            f"{clipped:,} device operations had impossible durations and were cut at the "
            "next one's start."
        )


def unread(rows: KinetoRows) -> list[str]:
    """What rows that are only counted hold."""
    notes = []
    ranges = rows.counts[RowGroup.RANGE_COUNTERS]
    if ranges:
        notes.append(
            f"{ranges:,} rows are counters of CUPTI's range profiler (cuda_profiler_range): their "
            "times are made up by the recorder, so they are on no timeline; `traceanalyzer collect "
            "ncu` measures kernels."
        )
    insight = rows.counts[RowGroup.MTIA]
    if insight:
        notes.append(f"{insight:,} rows are MTIA's own counters and insights, which are not read.")
    return notes


def _clock_note(ops: DeviceOps, api: ApiCalls) -> str:
    """Whether device work begins before its launch so often that the clocks must disagree."""
    calls = np.flatnonzero(api.correlation > 0)
    launched = np.flatnonzero(ops.correlation > 0)
    order = calls[np.argsort(api.correlation[calls], kind="stable")]
    call = looked_up(api.correlation[order], order, ops.correlation[launched])
    early = api.start[call[call >= 0]] - ops.start[launched[call >= 0]]
    count = int(np.count_nonzero(early > CLOCK_ERROR_NS))
    if count <= _SYSTEMATIC_SHARE * max(len(early), 1):
        return ""
    return (
        f"{count:,} device operations start before the call that launched them, by up to {early.max() / 1000:,.0f} us: "
        "the clocks of host and device disagree, queue delays are not reliable."
    )
