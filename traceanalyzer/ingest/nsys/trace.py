"""The traces of an nsys export: one for each process, with its threads, devices and rank."""

import re
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.base import regex
from traceanalyzer.ingest.columns import by_value, concatenated
from traceanalyzer.ingest.nsys.about import Gpus, gpus, mpi_ranks, process_names, thread_names
from traceanalyzer.ingest.nsys.events import (
    UNKNOWN,
    Columns,
    ProcessEvents,
    Strings,
    distinct_of_all,
    pid_of,
)
from traceanalyzer.ingest.nsys.health import operators_told, remarks
from traceanalyzer.ingest.nsys.nccl import collectives
from traceanalyzer.ingest.nsys.nvtx import range_details
from traceanalyzer.ingest.nsys.processes import NOBODY
from traceanalyzer.ingest.nsys.tables import NsysTables, canonical
from traceanalyzer.ingest.sqlite.database import MISSING, Database, joined_columns
from traceanalyzer.ingest.sqlite.pages import TablePart
from traceanalyzer.trace import I32, I64, RangeKind, Trace, Waits, constant_column, is_constant
from traceanalyzer.trace.circumstances import Collected, Health, Process, Thread
from traceanalyzer.trace.events import (
    ApiCalls,
    DeviceOps,
    GpuMetrics,
    HostRanges,
    MemoryEvents,
    Overheads,
    RangeDetails,
)
from traceanalyzer.trace.table import distinct

_WANTED = regex(
    r"SMs? Active|SM Issue|Tensor Active|Compute Warps in Flight \[Throughput|DRAM|NVLink|PCIe",
    re.IGNORECASE,
)
"""Counters that say whether a GPU computes, how full it is, and whether it waits for memory or for
a link. The numbers differ by GPU and version, so they are chosen by name; the dozens of others are
not read."""
ThreadNames = dict[tuple[int, int], str]


def gpu_metrics(database: Database, strings: Strings) -> GpuMetrics:
    """All samples of the wanted counters; `device` is the host's id of the GPU."""
    columns: dict[str, int | bytes | None] = {"typeId": -1, "metricId": -1, "metricName": None}
    wanted = {
        (kind, number): strings.code(str(name))
        for kind, number, name in database.rows("TARGET_INFO_GPU_METRICS", columns)
        if name and _WANTED.search(str(name))
    }

    def chosen(part: TablePart) -> dict[str, NDArray[Any]]:
        time = part.integers["timestamp"]
        type_id = part.integers["typeId"]
        value = part.integers["value"]
        name = np.full(len(time), -1, np.int32)
        for (kind, number), code in wanted.items():
            name[(type_id == kind) & (part.integers["metricId"] == number)] = code
        taken = (name >= 0) & (time != MISSING)
        gpu = type_id[taken] & 0xFF  # its id is the low byte of a metric's type
        return GpuMetrics.fitting(
            {"name": name[taken], "start": time[taken], "device": gpu, "value": value[taken]}
        )

    read = {"timestamp": MISSING, "typeId": -1, "metricId": -1, "value": 0}
    parts = database.each("GPU_METRICS", read, chosen) if wanted else []
    return GpuMetrics.from_columns(joined_columns(parts, ("name", "start", "device", "value")))


def make_traces(
    path: Path, database: Database, tables: NsysTables, *, share_there: float
) -> list[Trace]:
    """One trace a process, ordered by rank. What concerns the whole file is in the first one's
    health."""
    names = thread_names(database)
    processes, notes = _processes(database, tables, names)
    known_gpus = gpus(database)
    traces = [
        _trace(path, tables.of(key), key, process, known_gpus, names)
        for key, process in processes.items()
    ]
    samples = gpu_metrics(database, tables.strings)
    details = range_details(database, tables.strings)
    for i, (key, trace) in enumerate(zip(processes, traces, strict=True)):
        ordinals = by_value(samples.device, partial(known_gpus.ordinal, pid_of(key)), np.int32)
        own_samples = replace(samples, device=ordinals).take(
            np.isin(ordinals, distinct(trace.device_ops.device))
        )
        traces[i] = replace(
            trace, gpu_metrics=own_samples, range_details=details.get(key, RangeDetails.empty())
        )
    traces.sort(key=lambda trace: (trace.rank or 0, trace.process.pid or 0))
    truncated = share_there < 1 or bool(database.damaged)
    remarks_told = (
        *remarks(database, tables.about, share_there=share_there, processes=list(processes)),
        *operators_told([trace.collected for trace in traces], tables.strings.values),
        *notes,
        *tables.tally.notes,
    )
    return canonical(
        tables.tally.with_health(traces, traces[0].health.events, remarks_told, truncated=truncated)
    )


def _processes(
    database: Database, tables: NsysTables, threads: ThreadNames
) -> tuple[dict[int, Process], list[str]]:
    """The processes that get a trace, by key, and remarks on them."""
    keys = tables.processes()
    names = process_names(database)
    by_nccl: dict[int, tuple[int, int]] = {}  # world size and rank, of the largest communicator
    for (key, _), (rank, size) in tables.payloads.ranks.items():
        if key in keys and (key not in by_nccl or size > by_nccl[key][0]):
            by_nccl[key] = size, rank
    world_size = max((size for size, _ in by_nccl.values()), default=None)
    ranks = {key: rank for key, (_, rank) in by_nccl.items()} | mpi_ranks(database, threads)
    notes = []
    numbered = False
    if len({ranks[key] for key in keys if key in ranks}) < len(keys):
        numbered = len(keys) > 1
        world_size = None
        ranks = {key: i for i, key in enumerate(keys)} if numbered else {}
    if numbered:
        notes.append(
            f"The export does not say the ranks of its {len(keys)} processes; they are "
            "numbered by process id"
        )
    left_out = tables.left_out()
    if left_out:
        notes.append(f"{left_out} processes without GPU work are left out")
    return {
        key: Process(
            pid=None if key == NOBODY else pid_of(key),
            name=names.get(key, ""),
            rank=ranks.get(key),
            world_size=world_size,
            host=tables.about.host,
            numbered=numbered,
        )
        for key in keys
    }, notes


def _trace(
    path: Path, rows: NsysTables, key: int, process: Process, known: Gpus, names: ThreadNames
) -> Trace:
    ids = distinct_of_all(
        events.thread for events in rows.events().values() if events.thread is not None
    )
    used = [int(ordinal) for ordinal in distinct(rows.ops.columns["device"]) if ordinal >= 0]
    collected = _collected(rows)
    messages, rows.nvtx.columns["collective"] = collectives(
        rows.nvtx, rows.payloads, key, rows.strings
    )
    rows.nvtx.columns.pop("row", None)
    return Trace(
        path=str(path),
        source="nsys",
        strings=rows.strings.values,
        process=process,
        threads=tuple(
            Thread("" if i == UNKNOWN else str(i), names.get((key, i), "")) for i in ids.tolist()
        ),
        devices=tuple(known.device(pid_of(key), ordinal) for ordinal in used),
        device_ops=DeviceOps.from_columns(_emptied(rows.ops.columns)),
        api_calls=ApiCalls.from_columns(
            _emptied(rows.calls.columns) | {"thread": _threads(rows.calls, ids)}
        ),
        host_ranges=_host_ranges((rows.nvtx, rows.library_calls, rows.system_calls), ids),
        waits=Waits.from_columns(_emptied(rows.waits.columns)),
        overheads=Overheads.from_columns(
            _emptied(rows.overheads.columns) | {"thread": _threads(rows.overheads, ids)}
        ),
        memory_events=MemoryEvents.from_columns(_emptied(rows.memory.columns)),
        collectives=messages,
        collected=collected,
        health=Health(events=sum(map(len, rows.events().values()))),
        epoch_ns=rows.about.epoch_ns,
        window=rows.about.window,
    )


def _collected(rows: NsysTables) -> Collected:
    """What was asked for where the file says so, else what there is."""
    cuda = rows.about.did_collect("Cuda")
    return Collected(
        device=len(rows.ops) > 0 or bool(cuda),
        api=len(rows.calls) > 0 or bool(cuda),
        ops=bool(np.any(rows.nvtx.columns["kind"] == RangeKind.OP)),
        shapes=bool(np.any(rows.nvtx.columns["shapes"] >= 0)),
        memory=rows.about.memory_usage or len(rows.memory) > 0,
        sync_events=len(rows.waits) > 0 or bool(cuda),
    )


def _host_ranges(ranges: tuple[ProcessEvents, ...], ids: I64) -> HostRanges:
    columns: Columns = {"thread": concatenated([_threads(events, ids) for events in ranges])}
    for name in (
        "kind",
        "name",
        "start",
        "end",
        "sequence",
        "shapes",
        "collective",
        "forward_thread",
    ):  # the last four only NVTX has
        fill = 0 if name == "forward_thread" else -1
        nothing = [constant_column(fill, len(events), np.int64) for events in ranges]
        columns[name] = concatenated(
            [one.columns.pop(name, none) for one, none in zip(ranges, nothing, strict=True)]
        )
    return HostRanges.from_columns(columns)


def _emptied(columns: Columns) -> Columns:
    """The columns, which lose them: a table takes them over."""
    taken = dict(columns)
    columns.clear()
    return taken


def _threads(events: ProcessEvents, ids: I64) -> I32:
    """For each row the index of its thread among these ids."""
    if events.thread is None:
        return constant_column(UNKNOWN, len(events), np.int32)
    if is_constant(events.thread):
        return constant_column(int(np.searchsorted(ids, events.thread[0])), len(events), np.int32)
    return np.searchsorted(ids, events.thread).astype(np.int32)
