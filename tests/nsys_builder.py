"""Builds small nsys exports of several schemas: their tables and columns, and whatever rows a test
wants.

    build(path, "3.24.0", kernels=[Kernel(start=10, end=20)], ...)

Rows are dictionaries of column values; columns that a schema does not have are dropped, so the same
rows make an export of every schema.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

SCHEMAS = ("none", "2.9.1", "3.0.0", "3.4.0", "3.13.2", "3.17.2", "3.24.0", "3.25.0")
"""`none`: before exports had metadata."""

VM = 1
PID = 1000

Row = dict[str, Any]


def global_pid(pid: int = PID) -> int:
    return (VM << 48) | (pid << 24)


def global_tid(tid: int = PID, pid: int = PID) -> int:
    return global_pid(pid) | tid


def _version(schema: str) -> tuple[int, int]:
    if schema == "none":
        return (0, 0)
    major, minor, _ = schema.split(".")
    return (int(major), int(minor))


_LAUNCH = "gridX, gridY, gridZ, blockX, blockY, blockZ, registersPerThread, staticSharedMemory, dynamicSharedMemory"
_LANE = "start, end, deviceId, contextId, streamId, correlationId, globalPid"


def columns(schema: str) -> dict[str, str]:
    """Columns of each table in this schema."""
    version = _version(schema)
    green = ", greenContextId" if version >= (3, 13) else ""
    tables = {
        "StringIds": "id, value",
        "CUPTI_ACTIVITY_KIND_KERNEL": f"{_LANE}{green}, demangledName, shortName, graphNodeId, {_LAUNCH}"
        + (", mangledName" if version else "")
        + (", graphId" if version >= (3, 24) else "")
        + (", tensorSizeMinusOneElements" if version >= (3, 25) else ""),
        "CUPTI_ACTIVITY_KIND_MEMCPY": f"{_LANE}{green}, bytes, copyKind, srcKind, dstKind, graphNodeId",
        "CUPTI_ACTIVITY_KIND_MEMSET": f"{_LANE}, bytes, value, memKind, graphNodeId",
        "CUPTI_ACTIVITY_KIND_RUNTIME": "start, end, eventClass, globalTid, correlationId, nameId, returnValue",
        "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": f"{_LANE}, syncType, eventId"
        + (", eventSyncId" if version >= (3, 17) else ""),
        "CUPTI_ACTIVITY_KIND_CUDA_EVENT": "deviceId, contextId, streamId, correlationId, globalPid, eventId",
        "NVTX_EVENTS": "start, end, eventType, rangeId, category, text, globalTid, endGlobalTid, textId, domainId, "
        "int64Value, doubleValue, jsonText" + (", binaryData" if version >= (3, 17) else ""),
        "OSRT_API": "start, end, eventClass, globalTid, nameId, returnValue",
        "CUBLAS_EVENTS": "start, end, eventClass, globalTid, nameId",
        "PROFILER_OVERHEAD": "start, end, globalTid, nameId"
        + (", overheadType" if version >= (3, 24) else ", returnValue"),
        "TARGET_INFO_SESSION_START_TIME": "utcEpochNs, utcTime, localTime",
        "ANALYSIS_DETAILS": "globalVid, duration, startTime, stopTime",
        "ProcessStreams": "globalPid, filenameId, contentId",
        "TARGET_INFO_SYSTEM_ENV": "globalVid, devStateName, name, nameEnum, value",
    }
    if version:
        tables["PROCESSES"] = "globalPid, pid, name"
        tables["ThreadNames"] = "nameId, priority, globalTid"
        tables["TARGET_INFO_GPU"] = (
            "vmId, id, name, busLocation, totalMemory, smCount, uuid, cuDevice, computeMajor, computeMinor"
        )
        tables["META_DATA_EXPORT" if version >= (3, 4) else "EXPORT_META_DATA"] = "name, value"
    else:
        tables["TARGET_INFO_GPU"] = "vmId, deviceId, name, busLocation, isDiscrete"
        tables["TARGET_INFO_CUDA_GPU"] = (
            "deviceId, pid, pciBusId, numMultiprocessors, globalMemorySize"
        )
    if version >= (3, 4):
        tables["META_DATA_CAPTURE"] = "name, value"
    if version >= (3, 13):
        tables["CUPTI_ACTIVITY_KIND_GRAPH_TRACE"] = f"{_LANE}, graphId, graphExecId"
        tables["DIAGNOSTIC_EVENT"] = "timestamp, timestampType, source, severity, text, globalPid"
        tables["GPU_METRICS"] = "timestamp, typeId, metricId, value"
        tables["TARGET_INFO_GPU_METRICS"] = "typeId, sourceId, typeName, metricId, metricName"
        tables["MPI_RANKS"] = "globalTid, rank"
        tables["TARGET_INFO_CUDA_CONTEXT_INFO"] = (
            "nullStreamId, hwId, vmId, processId, deviceId, contextId"
        )
        tables["CUDA_GPU_MEMORY_USAGE_EVENTS"] = (
            "start, globalPid, deviceId, contextId, bytes, memKind, memoryOperationType"
        )
    if version >= (3, 17):
        tables["TARGET_INFO_CUDA_DEVICE"] = "gpuId, cudaId, pid"
    if version >= (3, 24):
        tables["CUPTI_ACTIVITY_KIND_OVERHEAD"] = (
            "start, end, eventClass, globalTid, correlationId, nameId, overheadType"
        )
        tables["CUDA_GRAPH_EVENTS"] = (
            "start, end, eventClass, globalTid, nameId, graphId, originalGraphId, graphExecId"
        )
    else:
        tables["CUDA_GRAPH_EVENTS"] = (
            "start, end, eventClass, globalTid, nameId, graphNodeId, originalGraphNodeId"
        )
    if version >= (3, 25):
        tables["NVTX_PAYLOAD_SCHEMAS"] = "domainId, schemaId, name, payloadSize"
        tables["NVTX_PAYLOAD_SCHEMA_ENTRIES"] = "domainId, schemaId, idx, type, name, offset"
    return tables


@dataclass
class Export:
    """Rows of an export in the making."""

    schema: str = "3.24.0"
    rows: dict[str, list[Row]] = field(default_factory=dict)
    strings: dict[str, int] = field(default_factory=dict)
    lazy: bool = True
    """Leave out tables without rows, as nsys does by default."""

    def text(self, value: str) -> int:
        """Id of a string."""
        return self.strings.setdefault(value, 1000 + len(self.strings))

    def add(self, table: str, **values: Any) -> Export:
        """Add a row."""
        self.rows.setdefault(table, []).append(values)
        return self

    def kernel(self, start: int, end: int, name: str = "kernel", **values: Any) -> Export:
        """Add a kernel."""
        defaults = {"demangledName": self.text(f"void {name}()"), "shortName": self.text(name)}
        return self._lane("CUPTI_ACTIVITY_KIND_KERNEL", start, end, defaults | values)

    def copy(self, start: int, end: int, **values: Any) -> Export:
        """Add a copy from pageable host memory to the device."""
        defaults = {"bytes": 1024, "copyKind": 1, "srcKind": 0, "dstKind": 2}
        return self._lane("CUPTI_ACTIVITY_KIND_MEMCPY", start, end, defaults | values)

    def memset(self, start: int, end: int, **values: Any) -> Export:
        """Add a memset of device memory."""
        defaults = {"bytes": 64, "value": 0, "memKind": 2}
        return self._lane("CUPTI_ACTIVITY_KIND_MEMSET", start, end, defaults | values)

    def graph(self, start: int, end: int, **values: Any) -> Export:
        """Add a whole graph."""
        return self._lane(
            "CUPTI_ACTIVITY_KIND_GRAPH_TRACE", start, end, {"graphId": 3, "graphExecId": 4} | values
        )

    def wait(self, start: int, end: int, **values: Any) -> Export:
        """Add a synchronisation."""
        return self._lane(
            "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION",
            start,
            end,
            {"syncType": 0, "eventId": 2**32 - 1} | values,
        )

    def call(self, start: int, end: int, name: str, correlation: int, **values: Any) -> Export:
        """Add an API call."""
        defaults = {
            "eventClass": 0,
            "globalTid": global_tid(),
            "returnValue": 0,
            "nameId": self.text(name),
        }
        row = defaults | values
        return self.add(
            "CUPTI_ACTIVITY_KIND_RUNTIME", start=start, end=end, correlationId=correlation, **row
        )

    def nvtx(self, start: int, end: int | None, text: str | None, **values: Any) -> Export:
        """Add a push/pop range."""
        row = {"eventType": 59, "globalTid": global_tid(), "domainId": 0} | values
        return self.add("NVTX_EVENTS", start=start, end=end, text=text, **row)

    def _lane(self, table: str, start: int, end: int, values: Row) -> Export:
        return self.add(table, **{**_LANE_DEFAULTS, "start": start, "end": end, **values})

    def captured(self, name: str, value: str) -> Export:
        """Add a row of capture metadata."""
        return self.add("META_DATA_CAPTURE", name=name, value=value)

    def write(self, path: Path) -> Path:
        """Write the file."""
        db = sqlite3.connect(path)
        for table, listed in columns(self.schema).items():
            names = listed.split(", ")
            rows = self.rows.get(table, [])
            if table == "StringIds":
                rows = [{"id": i, "value": value} for value, i in self.strings.items()]
            if table in ("META_DATA_EXPORT", "EXPORT_META_DATA"):
                rows = [*rows, {"name": "EXPORT_SCHEMA_VERSION", "value": self.schema}]
            if rows or not self.lazy or table == "StringIds":
                _create(db, table, names, rows)
        db.commit()
        db.close()
        return path


_LANE_DEFAULTS = {
    "deviceId": 0,
    "contextId": 1,
    "streamId": 7,
    "correlationId": 1,
    "globalPid": global_pid(),
}

_TEXT_COLUMNS = (
    "metricName",
    "value",
    "name",
    "text",
    "uuid",
    "busLocation",
    "utcTime",
    "localTime",
    "binaryData",
)


def _create(db: sqlite3.Connection, table: str, names: list[str], rows: list[Row]) -> None:
    typed = ", ".join(
        f'"{name}" {"TEXT" if name in _TEXT_COLUMNS else "INTEGER"}' for name in names
    )
    db.execute(f'CREATE TABLE "{table}" ({typed})')
    marks = ", ".join("?" for _ in names)
    values = [tuple(row.get(name) for name in names) for row in rows]
    db.executemany(f'INSERT INTO "{table}" VALUES ({marks})', values)


def small_run(schema: str) -> Export:
    """A step of everything: two kernels, a copy, a memset, their calls, a wait and NVTX ranges."""
    export = Export(schema)
    export.add("PROCESSES", globalPid=global_pid(), pid=PID, name="/opt/app/train --token=x")
    export.add("ThreadNames", nameId=export.text("worker"), globalTid=global_tid())
    export.add(
        "TARGET_INFO_GPU",
        vmId=VM << 48,
        id=2,
        deviceId=0,
        name="GPU A",
        busLocation="0000:c1:00.0",
        totalMemory=1 << 30,
        smCount=100,
        uuid="0d0832fe-ba7f-c38e-b4ed-a4d0155e6646",
        cuDevice=0,
        computeMajor=9,
        computeMinor=0,
    )
    export.add(
        "TARGET_INFO_CUDA_GPU",
        deviceId=0,
        pid=PID,
        pciBusId=0xC1,
        numMultiprocessors=100,
        globalMemorySize=1 << 30,
    )
    export.add("TARGET_INFO_CUDA_DEVICE", gpuId=2, cudaId=0, pid=PID)
    export.add("TARGET_INFO_SESSION_START_TIME", utcEpochNs=1_700_000_000_000_000_000)
    export.add("ANALYSIS_DETAILS", duration=10_000)
    export.call(100, 110, "cudaLaunchKernel_v7000", 1).kernel(120, 200, correlationId=1)
    export.call(115, 125, "cudaLaunchKernel_v7000", 2).kernel(210, 300, "other", correlationId=2)
    export.call(130, 140, "cudaMemcpyAsync_v3020", 3).copy(150, 250, correlationId=3, streamId=9)
    export.call(142, 146, "cudaMemsetAsync_v3020", 4).memset(400, 450, correlationId=4)
    export.call(150, 460, "cudaStreamSynchronize_v3020", 5).wait(200, 455, correlationId=5)
    export.nvtx(90, 500, "step_0")
    export.nvtx(95, 112, "aten::linear, seq = 7, op_id = 12")
    return export
