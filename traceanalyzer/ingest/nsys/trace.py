"""The traces of an nsys export: one for each process, with its threads, devices and rank."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.ingest.columns import by_value, joined
from traceanalyzer.ingest.nsys.about import Gpus, gpus, mpi_ranks, process_names, thread_names
from traceanalyzer.ingest.nsys.events import UNKNOWN, Columns, Events, Strings, distinct_of_all, pid_of
from traceanalyzer.ingest.nsys.health import remarks
from traceanalyzer.ingest.nsys.nccl import collectives
from traceanalyzer.ingest.nsys.nvtx_details import range_details
from traceanalyzer.ingest.nsys.processes import NOBODY
from traceanalyzer.ingest.nsys.tables import Tables, canonical
from traceanalyzer.ingest.sqlite.database import MISSING, Database, together
from traceanalyzer.ingest.sqlite.pages import Part
from traceanalyzer.trace import (
    I32,
    I64,
    ApiCalls,
    Collected,
    DeviceOps,
    GpuMetrics,
    Health,
    HostRanges,
    MemoryEvents,
    Overheads,
    Process,
    RangeDetails,
    RangeKind,
    Thread,
    Trace,
    Waits,
    alike,
    is_constant,
)
from traceanalyzer.trace.table import distinct

_WANTED = re.compile(
    r"SMs? Active|SM Issue|Tensor Active|Compute Warps in Flight \[Throughput|DRAM|NVLink|PCIe", re.IGNORECASE
)
"""Counters that say whether a GPU computes, how full it is, and whether it waits for memory or for a link. The numbers
differ by GPU and version, so they are chosen by name; the dozens of others are not read."""

_GPU_BITS = 0xFF
"""The low byte of a metric's type is the GPU's id."""


def gpu_metrics(database: Database, strings: Strings) -> GpuMetrics:
    """All samples of the wanted counters; `device` is the host's id of the GPU."""
    columns: dict[str, int | bytes | None] = {"typeId": -1, "metricId": -1, "metricName": None}
    wanted = {
        (kind, number): strings.code(str(name))
        for kind, number, name in database.rows("TARGET_INFO_GPU_METRICS", columns)
        if name and _WANTED.search(str(name))
    }
    if not wanted:
        return GpuMetrics.empty()

    def chosen(part: Part) -> dict[str, NDArray[Any]]:
        rows = part.integers
        name = np.full(len(rows["timestamp"]), -1, np.int32)
        for (kind, number), code in wanted.items():
            name[(rows["typeId"] == kind) & (rows["metricId"] == number)] = code
        taken = (name >= 0) & (rows["timestamp"] != MISSING)
        columns: dict[str, NDArray[Any]] = {
            "name": name,
            "start": rows["timestamp"],
            "device": rows["typeId"] & _GPU_BITS,
            "value": rows["value"],
        }
        return GpuMetrics.fitting({column: values[taken] for column, values in columns.items()})

    read = {"timestamp": MISSING, "typeId": -1, "metricId": -1, "value": 0}
    return GpuMetrics.from_columns(
        together(database.each("GPU_METRICS", read, chosen), ("name", "start", "device", "value"))
    )


def of_process(samples: GpuMetrics, pid: int, devices: I64, known: Gpus) -> GpuMetrics:
    """The samples of the devices that a process worked on, under its own ordinals."""
    device = by_value(samples.device, lambda gpu: known.ordinal(pid, gpu), np.int32)
    return replace(samples, device=device).take(np.isin(device, devices))


ThreadNames = dict[tuple[int, int], str]

_NVTX_COLUMNS = {"sequence": -1, "shapes": -1, "collective": -1}
"""Columns of `HostRanges` that only NVTX ranges fill, and what the others have there."""


def make_traces(path: Path, database: Database, tables: Tables, *, there: float) -> list[Trace]:
    """One trace a process, ordered by rank. What concerns the whole file is in the first one's health."""
    names = thread_names(database)
    processes, notes = _processes(database, tables, names)
    known_gpus = gpus(database)
    traces = [_trace(path, tables.of(key), key, process, known_gpus, names) for key, process in processes.items()]
    samples = gpu_metrics(database, tables.strings)
    details = range_details(database, tables.strings)
    for i, (key, trace) in enumerate(zip(processes, traces, strict=True)):
        mine = of_process(samples, pid_of(key), distinct(trace.device_ops.device), known_gpus)
        traces[i] = replace(trace, gpu_metrics=mine, range_details=details.get(key, RangeDetails.empty()))
    traces.sort(key=lambda trace: (trace.rank or 0, trace.process.pid or 0))
    truncated = there < 1 or bool(database.damaged)
    said = (*remarks(database, tables.about, there=there, processes=list(processes)), *notes, *tables.tally.notes)
    return canonical(tables.tally.with_health(traces, traces[0].health.events, said, truncated=truncated))


def _processes(database: Database, tables: Tables, threads: ThreadNames) -> tuple[dict[int, Process], list[str]]:
    """The processes that get a trace, by key, and remarks on them."""
    keys = tables.processes()
    names = process_names(database)
    ranks, world_size, notes = _ranks(database, tables, keys, threads)
    if left_out := tables.left_out():
        notes.append(f"{left_out} processes without GPU work are left out")
    numbered = any("they are numbered" in note for note in notes)
    processes = {
        key: Process(
            pid=None if key == NOBODY else pid_of(key),
            name=names.get(key, ""),
            rank=ranks.get(key),
            world_size=world_size,
            host=tables.about.host,
            numbered=numbered,
        )
        for key in keys
    }
    return processes, notes


def _ranks(
    database: Database, tables: Tables, keys: list[int], threads: ThreadNames
) -> tuple[dict[int, int], int | None, list[str]]:
    """Rank of each process, the number of ranks, and how they are known if not from the recording."""
    by_nccl = {key: known for key in keys if (known := tables.payloads.rank(key))}
    world_size = max((size for _, size in by_nccl.values()), default=None)
    ranks = {key: rank for key, (rank, _) in by_nccl.items()} | mpi_ranks(database, threads)
    recorded = [ranks[key] for key in keys if key in ranks]
    if len(set(recorded)) == len(recorded) == len(keys):
        return ranks, world_size, []
    if len(keys) == 1:
        return {}, None, []
    note = f"The export does not say the ranks of its {len(keys)} processes; they are numbered by process id"
    return {key: i for i, key in enumerate(keys)}, None, [note]


def _trace(path: Path, rows: Tables, key: int, process: Process, known: Gpus, names: ThreadNames) -> Trace:
    lanes = _Threads(rows, key, names)
    used = [int(ordinal) for ordinal in distinct(rows.ops.columns["device"]) if ordinal >= 0]
    collected = _collected(rows)
    messages, rows.nvtx.columns["collective"] = collectives(rows.nvtx, rows.payloads, key, rows.strings)
    rows.nvtx.columns.pop("row", None)
    ranges = (rows.nvtx, rows.library_calls, rows.system_calls)
    about = rows.about
    return Trace(
        path=str(path),
        source="nsys",
        strings=rows.strings.values,
        process=process,
        threads=lanes.threads,
        devices=tuple(known.device(pid_of(key), ordinal) for ordinal in used),
        device_ops=DeviceOps.from_columns(_emptied(rows.ops.columns)),
        api_calls=ApiCalls.from_columns(_emptied(rows.calls.columns) | {"thread": lanes.of(rows.calls)}),
        host_ranges=HostRanges.from_columns(
            _joined([events.columns for events in ranges], list(map(lanes.of, ranges)))
        ),
        waits=Waits.from_columns(_emptied(rows.waits.columns)),
        overheads=Overheads.from_columns(_emptied(rows.overheads.columns) | {"thread": lanes.of(rows.overheads)}),
        memory_events=MemoryEvents.from_columns(_emptied(rows.memory.columns)),
        collectives=messages,
        collected=collected,
        health=Health(events=sum(len(events) for events in rows.events().values())),
        epoch_ns=about.epoch_ns,
        window=about.window,
    )


def _collected(rows: Tables) -> Collected:
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


def _joined(parts: list[Columns], threads: list[I32]) -> Columns:
    columns: Columns = {"thread": joined(threads)}
    for name in ("kind", "name", "start", "end"):
        columns[name] = joined([part.pop(name) for part in parts])
    for name, fill in _NVTX_COLUMNS.items():
        columns[name] = joined(
            [part.pop(name, alike(fill, len(t), np.int64)) for part, t in zip(parts, threads, strict=True)]
        )
    return columns


def _emptied(columns: Columns) -> Columns:
    """The columns, which lose them: a table takes them over."""
    taken = dict(columns)
    columns.clear()
    return taken


class _Threads:
    """The host threads of a process that have rows, numbered in the order of their ids."""

    def __init__(self, rows: Tables, key: int, names: ThreadNames) -> None:
        columns = [events.thread for events in rows.events().values() if events.thread is not None]
        self._ids = distinct_of_all(columns)
        self.threads = tuple(
            Thread("" if tid == UNKNOWN else str(tid), names.get((key, tid), "")) for tid in self._ids.tolist()
        )

    def of(self, events: Events) -> I32:
        """For each row the index of its thread."""
        if events.thread is None:
            return alike(UNKNOWN, len(events), np.int32)
        if is_constant(events.thread):
            return alike(int(np.searchsorted(self._ids, events.thread[0])), len(events), np.int32)
        return np.searchsorted(self._ids, events.thread).astype(np.int32)
