"""What an nsys export says of itself: schema, what was collected, clock, processes, GPUs, threads.
Exports hold the whole environment and the program's output (`META_DATA_CAPTURE`,
`TARGET_INFO_SYSTEM_ENV`, `ProcessStreams`). Rows are asked for by name here, so that nothing else
of them is ever read."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from traceanalyzer.base import dataclass, regex
from traceanalyzer.ingest.nsys.enums import NvtxEvent
from traceanalyzer.ingest.nsys.events import UNKNOWN, process_of, thread_of
from traceanalyzer.ingest.nsys.nvtx import naming_events
from traceanalyzer.ingest.sqlite.database import Database
from traceanalyzer.trace import Device, distinct

_EXPORT = (
    "name IN ('EXPORT_SCHEMA_VERSION', 'EXPORT_PARAM_INCLUDE_BLOBS', 'EXPORT_PARAM_TIME_NORMALIZE', "
    "'EXPORT_PARAM_TIME_SHIFT')"
)
_CAPTURE = (
    "name IN ('CAPTURE_EVENT_TYPE', 'DEVICE_DISPLAY_NAME', 'COLLECT_GPU_MEMORY_USAGE') "
    "OR name LIKE 'PROCESS\\_%:COLLECT_GPU_MEMORY_USAGE' ESCAPE '\\'"
)
"""Some versions prefix options with the process (`PROCESS_0:`)."""
_MPI_THREAD = regex(r"MPI Rank (\d{1,18})")


@dataclass(frozen=True)
class About:
    """What the export's metadata says."""

    schema: tuple[int, int]  # major and minor version, (0, 0) where the file has none
    collected: (
        frozenset[str] | None
    )  # kinds of event that were asked for (`Cuda`, `NvtxEvents`, ...)
    memory_usage: bool
    has_payloads: bool  # whether the export was made with the binary payloads of NVTX ranges
    host: str | None
    epoch_ns: int  # wall-clock time of time 0
    window: tuple[int, int] | None  # of the recording, on its own clock

    def did_collect(self, kind: str) -> bool | None:
        """Whether that kind of event was asked for, None where the file does not say."""
        return None if self.collected is None else kind in self.collected


_GPU = {
    "sm_count": "smCount",
    "blocks_per_sm": "maxBlocksPerSm",
    "memory_bytes": "totalMemory",
    "bandwidth": "memoryBandwidth",
    "clock_hz": "clockRate",
    "major": "computeMajor",
    "minor": "computeMinor",
    "name": "name",
    "bus": "busLocation",
    "uuid": "uuid",
}
_OLD_GPU = {
    "sm_count": "numMultiprocessors",
    "blocks_per_sm": "maxBlocksPerMultiprocessor",
    "memory_bytes": "globalMemorySize",
    "bandwidth": "globalMemoryBandwidth",
    "clock_hz": "coreClockRate",
    "major": "computeCapabilityMajor",
    "minor": "computeCapabilityMinor",
    "name": "name",
    "bus": "pciBusId",
}
"""Columns of the tables of either generation, by what they say."""


def read_about(database: Database) -> About:
    """Read the metadata tables."""

    def values(table: str, where: str) -> list[tuple[str, str]]:
        has_values = database.has(table, "name", "value")
        rows = (
            database.rows(table, {"name": None, "value": None}, where=where) if has_values else ()
        )
        return [(str(key), str(value)) for key, value in rows]

    export = dict(values("META_DATA_EXPORT", _EXPORT) or values("EXPORT_META_DATA", _EXPORT))
    capture = values("META_DATA_CAPTURE", _CAPTURE)
    kinds = {value for key, value in capture if key == "CAPTURE_EVENT_TYPE"}
    options = {re.sub(r"PROCESS_\d+:", "", key): value for key, value in capture}
    started = database.integers("TARGET_INFO_SESSION_START_TIME", {"utcEpochNs": 0})["utcEpochNs"]
    epoch = int(started[0]) if len(started) else 0
    duration = int(
        database.integers("ANALYSIS_DETAILS", {"duration": 0})["duration"].max(initial=0)
    )
    shifted = export.get("EXPORT_PARAM_TIME_SHIFT", "0") not in ("0", "")
    since_1970 = export.get("EXPORT_PARAM_TIME_NORMALIZE") == "true"
    begin = epoch if since_1970 else 0
    match = re.match(r"(\d{1,18})\.(\d{1,18})", export.get("EXPORT_SCHEMA_VERSION", ""))
    return About(
        schema=(int(match[1]), int(match[2])) if match else (0, 0),
        collected=frozenset(kinds) or None,
        has_payloads=export.get("EXPORT_PARAM_INCLUDE_BLOBS") != "false",
        memory_usage=options.get("COLLECT_GPU_MEMORY_USAGE") == "true",
        host=options.get("DEVICE_DISPLAY_NAME") or None,
        epoch_ns=0 if shifted or since_1970 else epoch,
        window=(begin, begin + duration) if duration > 0 and not shifted else None,
    )


def process_names(database: Database) -> dict[int, str]:
    """Name of each process by process key: the program's file name, without folders, settings or
    arguments."""
    found = {}
    for pid, name in database.rows("PROCESSES", {"globalPid": UNKNOWN, "name": None}):
        words = [word for word in str(name or "").split() if "=" not in word]
        found[int(process_of(pid))] = _file_name(words[0]) if words else ""
    return found


def _file_name(text: str) -> str:
    return re.split(r"[/\\]", text)[-1]


def thread_names(database: Database) -> dict[tuple[int, int], str]:
    """Names of threads by (process key, thread id); the program's own names go before the
    system's."""
    rows = database.integers("ThreadNames", {"globalTid": UNKNOWN, "nameId": -1})
    texts = database.texts(distinct(rows["nameId"]))
    keys = zip(
        process_of(rows["globalTid"]).tolist(), thread_of(rows["globalTid"]).tolist(), strict=True
    )
    names = {
        key: _file_name(texts.get(i, ""))
        for key, i in zip(keys, rows["nameId"].tolist(), strict=True)
    }
    own = naming_events(database, NvtxEvent.THREAD_NAME)
    for tid, name in own:
        names[int(process_of(tid)), int(thread_of(tid))] = name
    return names


def mpi_ranks(database: Database, names: Mapping[tuple[int, int], str]) -> dict[int, int]:
    """MPI rank by process key, from the table of ranks, else from threads named `MPI Rank N`."""
    rows = database.integers("MPI_RANKS", {"globalTid": UNKNOWN, "rank": -1})
    processes = process_of(rows["globalTid"]).tolist()
    ranks = dict(zip(processes, rows["rank"].tolist(), strict=True))
    for (process, _), name in names.items():
        match = _MPI_THREAD.fullmatch(name)
        if match:
            ranks.setdefault(process, int(match[1]))
    return {process: rank for process, rank in ranks.items() if rank >= 0}


@dataclass(frozen=True)
class Gpus:
    """The host's GPUs and, where recorded, which of them each process numbers how."""

    by_id: dict[int, Device]
    by_ordinal: dict[int, Device]  # host-wide, of CUDA
    by_process: dict[tuple[int, int], Device]  # by (pid, the CUDA ordinal in that process)

    def device(self, pid: int, ordinal: int) -> Device:
        """The GPU that a process calls by this ordinal; only the ordinal where nothing else is
        known."""
        found = self.by_process.get((pid, ordinal)) or self.by_ordinal.get(ordinal)
        if found is None and not self.by_ordinal:
            found = self.by_id.get(ordinal)
        return replace(found or Device(ordinal), id=ordinal)

    def ordinal(self, pid: int, gpu: int) -> int:
        """The ordinal by which a process calls the GPU with this id; the id where not recorded."""
        uid = self.by_id[gpu].uid if gpu in self.by_id else None
        known = [
            (ordinal, device)
            for (owner, ordinal), device in self.by_process.items()
            if owner == pid
        ]
        known += self.by_ordinal.items()
        return next(
            (ordinal for ordinal, device in known if uid is not None and device.uid == uid), gpu
        )


def _rows(database: Database, table: str, columns: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """Rows with what they say of a device; a number below 0 is unknown."""
    wanted = {
        column: None if what in ("name", "bus", "uuid") else -1 for what, column in columns.items()
    }
    return (dict(zip(columns, row, strict=True)) for row in database.rows(table, wanted))


def _stated(row: Mapping[str, Any], unit: float = 1.0) -> dict[str, Any]:
    """The fields of a `Device` that a row states; bandwidth and clock are in `unit` bytes/s and
    Hz."""
    found: dict[str, Any] = {
        name: row[name] for name in ("sm_count", "memory_bytes", "blocks_per_sm") if row[name] > 0
    }
    found |= {name: row[name] * unit for name in ("bandwidth", "clock_hz") if row[name] > 0}
    found |= {"compute_capability": (row["major"], row["minor"])} if row["major"] > 0 else {}
    return found | ({"name": str(row["name"])} if row["name"] else {})


def gpus(database: Database) -> Gpus:
    """Read the tables of devices, of whichever generation."""
    number = "id" if database.has("TARGET_INFO_GPU", "id") else "deviceId"
    by_id = dict[int, Device]()
    by_ordinal = dict[int, Device]()
    buses = dict[int, Device]()
    columns = {"id": number, "ordinal": "cuDevice", **_GPU}
    for row in _rows(database, "TARGET_INFO_GPU", columns):
        device = Device(row["id"], uid=_uid_of(row["uuid"], row["bus"]), **_stated(row))
        by_id[row["id"]] = buses[_bus_of(row["bus"])] = device
        if row["ordinal"] >= 0:
            by_ordinal[row["ordinal"]] = device
    rows = database.rows(
        "TARGET_INFO_CUDA_DEVICE", {"gpuId": -1, "cudaId": -1, "pid": -1}
    )  # from schema 3.17 on
    by_process = {(pid, ordinal): by_id[gpu] for gpu, ordinal, pid in rows if gpu in by_id}
    if not by_process:  # before, the bus number ties a process's device to a GPU
        buses.pop(-1, None)
        for row in _rows(
            database, "TARGET_INFO_CUDA_GPU", {"ordinal": "deviceId", "pid": "pid", **_OLD_GPU}
        ):
            gpu = buses.get(_bus_of(row["bus"]), Device(0))  # kB/s and kHz
            stated = _stated(row, 1e3)
            by_process[row["pid"], row["ordinal"]] = replace(gpu, id=row["ordinal"], **stated)
    return Gpus(by_id, by_ordinal, by_process)


def _uid_of(uuid: object, bus: object) -> str | None:
    return str(uuid) if str(uuid or "").strip("0-") else str(bus or "") or None


def _bus_of(value: object) -> int:
    """The bus from a number or a location such as `0000:c1:00.0`; -1 for neither."""
    if isinstance(value, int):
        return value
    match = re.fullmatch(r"(?:[0-9a-fA-F]+:)?([0-9a-fA-F]+):[0-9a-fA-F]+\.\d", str(value or ""))
    return int(match[1], 16) if match else -1
