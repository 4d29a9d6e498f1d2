"""Device work of an nsys export: kernels, copies, memsets and whole CUDA graphs."""

from collections.abc import Callable
from typing import Any

import numpy as np

from traceanalyzer.ingest.columns import by_value
from traceanalyzer.ingest.durations import Tally
from traceanalyzer.ingest.nsys.enums import COPY_KINDS, MEMORY_KINDS
from traceanalyzer.ingest.nsys.events import (
    TIMES,
    ProcessEvents,
    Strings,
    ids,
    process_of,
    read_events,
    small,
    timed_rows,
)
from traceanalyzer.ingest.sqlite.database import MISSING, Database
from traceanalyzer.ingest.sqlite.pages import TablePart
from traceanalyzer.trace import I32, I64, CopyKind, DeviceOpKind, DeviceOps, MemoryKind

KERNEL = "CUPTI_ACTIVITY_KIND_KERNEL"
MEMCPY = "CUPTI_ACTIVITY_KIND_MEMCPY"
MEMSET = "CUPTI_ACTIVITY_KIND_MEMSET"
GRAPH_TRACE = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
DEVICE_TABLES = (KERNEL, MEMCPY, MEMSET, GRAPH_TRACE)
_COMMON = {
    **TIMES,
    "deviceId": -1,
    "contextId": -1,
    "streamId": -1,
    "correlationId": -1,
    "globalPid": -1,
}
_GRID = ("gridX", "gridY", "gridZ")
_BLOCK = ("blockX", "blockY", "blockZ")
_LAUNCH = (*_GRID, *_BLOCK, "registersPerThread", "staticSharedMemory", "dynamicSharedMemory")
_HOST_MEMORY = tuple(
    number for number, kind in MEMORY_KINDS.items() if kind.name in ("PAGEABLE", "PINNED")
)


def device_events(database: Database, strings: Strings, tally: Tally) -> ProcessEvents:
    """All device work of the file, with the columns of `DeviceOps`."""

    def memsets(rows: dict[str, I64]) -> ProcessEvents:
        rows["target_memory"] = _mapped(rows["memKind"], MEMORY_KINDS)
        return _events(
            rows, DeviceOpKind.MEMSET, by_value(rows["target_memory"], name_of_memset, np.int32)
        )

    def name_of_memset(kind: int) -> int:
        return strings.code(f"Memset ({MemoryKind(kind).name.capitalize()})")

    def graphs(rows: dict[str, I64]) -> ProcessEvents:
        return _events(rows, DeviceOpKind.GRAPH, by_value(rows["graphId"], name_of_graph, np.int32))

    def name_of_graph(graph: int) -> int:
        return strings.code(f"CUDA graph {graph}" if graph >= 0 else "CUDA graph")

    extra = {
        "demangledName": -1,
        "shortName": -1,
        "graphId": -1,
        "graphNodeId": -1,
        **dict.fromkeys(_LAUNCH, -1),
    }
    found = _read(database, KERNEL, extra, tally, _kernel_rows)
    codes = strings.of_parts([events.columns["name"] for events in found], "unnamed kernel")
    for events, code in zip(found, codes, strict=True):
        events.columns["name"] = code
    found += _copies(database, strings, tally)
    found += _read(
        database, MEMSET, {"bytes": -1, "memKind": -1, "graphNodeId": -1}, tally, memsets
    )
    return ProcessEvents.concatenate(
        found + _read(database, GRAPH_TRACE, {"graphId": -1}, tally, graphs)
    )


def memory_events(database: Database) -> ProcessEvents:
    """Allocations and frees of device and pinned memory (`--cuda-memory-usage`), columns of
    `MemoryEvents`."""
    columns = {
        "start": MISSING,
        "deviceId": -1,
        "bytes": 0,
        "memKind": -1,
        "memoryOperationType": -1,
        "globalPid": -1,
    }
    rows = database.integers("CUDA_GPU_MEMORY_USAGE_EVENTS", columns)
    is_free = rows["memoryOperationType"] == 1  # 0: an allocation
    on_host = np.isin(rows["memKind"], _HOST_MEMORY)
    table = {
        "start": rows["start"],
        "device": np.where(on_host, -1, ids(rows["deviceId"])),
        "bytes": np.where(is_free, -rows["bytes"], rows["bytes"]),
    }
    return ProcessEvents(process_of(rows["globalPid"]), table).take(rows["start"] != MISSING)


def _kernel_rows(rows: dict[str, I64]) -> ProcessEvents:
    static = rows["staticSharedMemory"]
    dynamic = rows["dynamicSharedMemory"]
    grid = np.stack([rows[name] for name in _GRID])
    block = np.stack([rows[name] for name in _BLOCK])
    launch = {
        "threads": np.where((block < 0).any(axis=0), -1, block.prod(axis=0)),
        "registers": rows["registersPerThread"],
        "shared_bytes": np.where(dynamic < 0, static, np.maximum(static, 0) + dynamic),
    }  # of a thread or a block: larger figures cannot be
    rows |= {
        name: np.where((column < 0) | (column >= 2**31), -1, column)
        for name, column in launch.items()
    }
    rows["blocks"] = np.where((grid < 0).any(axis=0), -1, grid.prod(axis=0))
    name = np.where(rows["demangledName"] >= 0, rows["demangledName"], rows["shortName"])
    return _events(rows, DeviceOpKind.KERNEL, small(name))


def _copies(database: Database, strings: Strings, tally: Tally) -> list[ProcessEvents]:
    extra = {"bytes": -1, "copyKind": -1, "srcKind": -1, "dstKind": -1, "graphNodeId": -1}

    def copies(rows: dict[str, I64]) -> ProcessEvents:
        rows["copy_kind"] = _mapped(rows["copyKind"], COPY_KINDS)
        rows["source_memory"] = _mapped(rows["srcKind"], MEMORY_KINDS)
        rows["target_memory"] = _mapped(rows["dstKind"], MEMORY_KINDS)
        unified = rows["copy_kind"] >= CopyKind.UNIFIED_HOST_TO_DEVICE
        rows["correlationId"] = np.where(unified, -1, rows["correlationId"])
        packed = rows["copy_kind"] << 16 | rows["source_memory"] << 8 | rows["target_memory"]
        return _events(rows, DeviceOpKind.MEMCPY, by_value(packed, name_of, np.int32))

    def name_of(packed: int) -> int:
        name = CopyKind(packed >> 16).label
        ends = " -> ".join(
            MemoryKind(end).name.capitalize() for end in (packed >> 8 & 0xFF, packed & 0xFF)
        )
        return strings.code(f"{name} ({ends})" if packed & 0xFFFF else name)

    return _read(database, MEMCPY, extra, tally, copies)


def _read(
    database: Database,
    table: str,
    extra: dict[str, int],
    tally: Tally,
    make: Callable[[dict[str, I64]], ProcessEvents],
) -> list[ProcessEvents]:
    """What `make` makes of the timed rows of a table of device work."""

    def made(part: TablePart, own: Tally) -> ProcessEvents:
        timed = timed_rows(part.integers, own, zero_is_missing=True)
        if timed.all():
            return make(part.integers)
        return make({name: column[timed] for name, column in part.integers.items()})

    return read_events(database, table, {**_COMMON, **extra}, made, tally)


def _events(rows: dict[str, I64], kind: DeviceOpKind, name: I32 | I64) -> ProcessEvents:
    """Rows under the column names of `DeviceOps`."""
    correlation = rows["correlationId"]
    nothing = np.zeros(len(rows["start"]), np.int64)
    node = rows.get("graphNodeId", nothing)
    graph = rows.get("graphId", nothing)
    columns: dict[str, Any] = {
        "kind": np.full(len(nothing), kind, np.uint8),
        "start": rows["start"],
        "end": rows["end"],
        "device": ids(rows["deviceId"]),
        "context": ids(rows["contextId"]),
        "stream": ids(rows["streamId"]),
        "correlation": np.where(correlation > 0, correlation, -1),
        "graph": np.where(
            graph > 0, graph, np.where(node > 0, 0, -1)
        ),  # 0: not recorded before schema 3.24
        "graph_node": np.where(node > 0, node, -1),
        "bytes": rows.get("bytes", nothing - 1),
        "copy_kind": rows.get("copy_kind", nothing),
        "source_memory": rows.get("source_memory", nothing),
        "target_memory": rows.get("target_memory", nothing),
        **{
            name: rows.get(name, nothing - 1)
            for name in ("blocks", "threads", "registers", "shared_bytes")
        },
    }
    return ProcessEvents(
        process_of(rows["globalPid"]), {**DeviceOps.fitting(columns), "name": name}
    )


def _mapped(column: I64, mapping: dict[int, CopyKind] | dict[int, MemoryKind]) -> I64:
    """The column through the mapping; 0 (unknown) for other values."""
    return by_value(column, lambda value: mapping.get(value, 0))
