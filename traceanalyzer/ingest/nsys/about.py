"""What an nsys export says of itself: schema, what was collected, clock, processes, GPUs, threads.

Exports hold the whole environment and the program's output (`META_DATA_CAPTURE`, `TARGET_INFO_SYSTEM_ENV`,
`ProcessStreams`). Rows are asked for by name here, so that nothing else of them is ever read.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from traceanalyzer.base import dataclass
from traceanalyzer.ingest.nsys.events import UNKNOWN, process_of, thread_of
from traceanalyzer.ingest.nsys.nvtx import nvtx_thread_names
from traceanalyzer.ingest.sqlite.database import Database
from traceanalyzer.trace import Device, distinct

_EXPORT_TABLES = ("META_DATA_EXPORT", "EXPORT_META_DATA")

_EXPORT_KEYS = (
    "EXPORT_SCHEMA_VERSION",
    "EXPORT_PARAM_INCLUDE_BLOBS",
    "EXPORT_PARAM_TIME_NORMALIZE",
    "EXPORT_PARAM_TIME_SHIFT",
)

_CAPTURE_KEYS = ("CAPTURE_EVENT_TYPE", "DEVICE_DISPLAY_NAME")
_CAPTURE_OPTIONS = ("COLLECT_GPU_MEMORY_USAGE",)
"""Options that are prefixed with the process (`PROCESS_0:`) by some versions."""

_PROCESS_PREFIX = re.compile(r"PROCESS_\d+:")

_MPI_THREAD = re.compile(r"MPI Rank (\d{1,18})")


@dataclass(frozen=True)
class About:
    """What the export's metadata says."""

    schema: tuple[int, int]
    """Major and minor version, (0, 0) where the file has none."""
    collected: frozenset[str] | None
    """Kinds of event that were asked for (`Cuda`, `NvtxEvents`, ...); None where the file does not say."""
    memory_usage: bool
    has_payloads: bool
    """False where the export was made without the binary payloads of NVTX ranges."""
    host: str | None
    epoch_ns: int
    window: tuple[int, int] | None

    def did_collect(self, kind: str) -> bool | None:
        """Whether that kind of event was asked for, None where the file does not say."""
        return None if self.collected is None else kind in self.collected


def about(database: Database) -> About:
    """Read the metadata tables."""
    export = _export_metadata(database)
    capture = _capture_metadata(database)
    kinds = {value for key, value in capture if key == "CAPTURE_EVENT_TYPE"}
    options = {_PROCESS_PREFIX.sub("", key): value for key, value in capture}
    epoch, window = _clock(database, export)
    match = re.match(r"(\d{1,18})\.(\d{1,18})", export.get("EXPORT_SCHEMA_VERSION", ""))
    return About(
        schema=((int(match[1]), int(match[2])) if match else (0, 0)),
        collected=frozenset(kinds) if kinds else None,
        has_payloads=export.get("EXPORT_PARAM_INCLUDE_BLOBS") != "false",
        memory_usage=options.get("COLLECT_GPU_MEMORY_USAGE") == "true",
        host=options.get("DEVICE_DISPLAY_NAME") or None,
        epoch_ns=epoch,
        window=window,
    )


def _export_metadata(database: Database) -> dict[str, str]:
    listed = "name IN ({})".format(", ".join(f"'{key}'" for key in _EXPORT_KEYS))
    found = (_values(database, table, listed) for table in _EXPORT_TABLES)
    return dict(next(filter(None, found), []))


def _capture_metadata(database: Database) -> list[tuple[str, str]]:
    """The few keys that are of use; the rest of the table is never read."""
    wanted = [f"name = '{key}'" for key in _CAPTURE_KEYS]
    wanted += [f"name = '{key}' OR name LIKE 'PROCESS\\_%:{key}' ESCAPE '\\'" for key in _CAPTURE_OPTIONS]
    return _values(database, "META_DATA_CAPTURE", " OR ".join(wanted))


def _values(database: Database, table: str, where: str) -> list[tuple[str, str]]:
    there = database.has(table, "name", "value")
    rows = database.rows(table, {"name": None, "value": None}, where=where) if there else ()
    return [(str(key), str(value)) for key, value in rows]


def _clock(database: Database, export: Mapping[str, str]) -> tuple[int, tuple[int, int] | None]:
    """Wall-clock time of time 0, and the recording's window on its own clock."""
    started = database.integers("TARGET_INFO_SESSION_START_TIME", {"utcEpochNs": 0})["utcEpochNs"]
    epoch = int(started[0]) if len(started) else 0
    duration = int(database.integers("ANALYSIS_DETAILS", {"duration": 0})["duration"].max(initial=0))
    if export.get("EXPORT_PARAM_TIME_SHIFT", "0") not in ("0", ""):
        return 0, None
    if export.get("EXPORT_PARAM_TIME_NORMALIZE") == "true":
        return 0, (epoch, epoch + duration) if duration > 0 else None
    return epoch, (0, duration) if duration > 0 else None


def process_names(database: Database) -> dict[int, str]:
    """Name of each process by process key: the program's file name, without folders or arguments."""
    rows = list(database.rows("PROCESSES", {"globalPid": UNKNOWN, "name": None}))
    keys = process_of(np.array([row[0] for row in rows], np.int64)).tolist()
    return {key: program_name(str(name or "")) for key, (_, name) in zip(keys, rows, strict=True)}


def program_name(command: str) -> str:
    """The file name of a command's program. Settings before it and arguments after it are left out."""
    words = [word for word in command.split() if "=" not in word]
    return _file_name(words[0]) if words else ""


def _file_name(text: str) -> str:
    """The text without leading folders."""
    return re.split(r"[/\\]", text)[-1]


def thread_names(database: Database) -> dict[tuple[int, int], str]:
    """Names of threads by (process key, thread id); the program's own names go before the system's."""
    rows = database.integers("ThreadNames", {"globalTid": UNKNOWN, "nameId": -1})
    texts = database.texts(int(i) for i in distinct(rows["nameId"]) if i >= 0)
    keys = zip(process_of(rows["globalTid"]).tolist(), thread_of(rows["globalTid"]).tolist(), strict=True)
    names = {key: _file_name(texts.get(i, "")) for key, i in zip(keys, rows["nameId"].tolist(), strict=True)}
    return names | nvtx_thread_names(database)


def mpi_ranks(database: Database, names: Mapping[tuple[int, int], str]) -> dict[int, int]:
    """MPI rank by process key, from the table of ranks, else from threads named `MPI Rank N`."""
    rows = database.integers("MPI_RANKS", {"globalTid": UNKNOWN, "rank": -1})
    ranks = dict(zip(process_of(rows["globalTid"]).tolist(), rows["rank"].tolist(), strict=True))
    for (process, _), name in names.items():
        if match := _MPI_THREAD.fullmatch(name):
            ranks.setdefault(process, int(match[1]))
    return {process: rank for process, rank in ranks.items() if rank >= 0}


@dataclass(frozen=True)
class Gpus:
    """The host's GPUs and, where recorded, which of them each process numbers how."""

    by_id: dict[int, Device]
    by_ordinal: dict[int, Device]
    """By the host-wide CUDA ordinal."""
    by_process: dict[tuple[int, int], Device]
    """By (pid, the CUDA ordinal in that process)."""

    def device(self, pid: int, ordinal: int) -> Device:
        """The GPU that a process calls by this ordinal; only the ordinal where nothing else is known."""
        found = self.by_process.get((pid, ordinal)) or self.by_ordinal.get(ordinal)
        if found is None and not self.by_ordinal:
            found = self.by_id.get(ordinal)
        if found is None:
            return Device(ordinal)
        return replace(found, id=ordinal)

    def ordinal(self, pid: int, gpu: int) -> int:
        """The ordinal by which a process calls the GPU with this id; the id where not recorded."""
        uid = self.by_id[gpu].uid if gpu in self.by_id else None
        known = [(ordinal, device) for (owner, ordinal), device in self.by_process.items() if owner == pid]
        known += self.by_ordinal.items()
        return next((ordinal for ordinal, device in known if uid is not None and device.uid == uid), gpu)


_GPU = {
    "sm_count": "smCount", "memory_bytes": "totalMemory", "bandwidth": "memoryBandwidth", "clock_hz": "clockRate",
    "major": "computeMajor", "minor": "computeMinor", "name": "name", "bus": "busLocation", "uuid": "uuid",
}  # fmt: skip
_OLD_GPU = {
    "sm_count": "numMultiprocessors", "memory_bytes": "globalMemorySize", "bandwidth": "globalMemoryBandwidth",
    "clock_hz": "coreClockRate", "major": "computeCapabilityMajor", "minor": "computeCapabilityMinor", "name": "name",
    "bus": "pciBusId",
}  # fmt: skip
"""Columns of the tables of either generation, by what they say."""
_TEXTS = ("name", "bus", "uuid")


def _rows(database: Database, table: str, columns: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """Rows with what they say of a device; a number below 0 is unknown."""
    wanted = {column: None if what in _TEXTS else -1 for what, column in columns.items()}
    for row in database.rows(table, wanted):
        yield dict(zip(columns, row, strict=True))


def _stated(row: Mapping[str, Any], unit: float = 1.0) -> dict[str, Any]:
    """The fields of a `Device` that a row states; bandwidth and clock are in `unit` bytes/s and Hz."""
    found: dict[str, Any] = {name: row[name] for name in ("sm_count", "memory_bytes") if row[name] > 0}
    found |= {name: row[name] * unit for name in ("bandwidth", "clock_hz") if row[name] > 0}
    found |= {"compute_capability": (row["major"], row["minor"])} if row["major"] > 0 else {}
    return found | ({"name": str(row["name"])} if row["name"] else {})


def gpus(database: Database) -> Gpus:
    """Read the tables of devices, of whichever generation."""
    number = "id" if database.has("TARGET_INFO_GPU", "id") else "deviceId"
    by_id: dict[int, Device] = {}
    by_ordinal: dict[int, Device] = {}
    buses: dict[int, Device] = {}
    for row in _rows(database, "TARGET_INFO_GPU", {"id": number, "ordinal": "cuDevice", **_GPU}):
        device = Device(row["id"], uid=_uid(row["uuid"], row["bus"]), **_stated(row))
        by_id[row["id"]] = buses[_bus_of(row["bus"])] = device
        if row["ordinal"] >= 0:
            by_ordinal[row["ordinal"]] = device
    rows = database.rows("TARGET_INFO_CUDA_DEVICE", {"gpuId": -1, "cudaId": -1, "pid": -1})  # from schema 3.17 on
    by_process = {(pid, ordinal): by_id[gpu] for gpu, ordinal, pid in rows if gpu in by_id}
    return Gpus(by_id, by_ordinal, by_process or _old_process_map(database, buses))


def _old_process_map(database: Database, buses: Mapping[int, Device]) -> dict[tuple[int, int], Device]:
    """Of exports without metadata, where the bus number ties a process's device to a GPU."""
    found: dict[tuple[int, int], Device] = {}
    for row in _rows(database, "TARGET_INFO_CUDA_GPU", {"ordinal": "deviceId", "pid": "pid", **_OLD_GPU}):
        place, ordinal = _bus_of(row["bus"]), row["ordinal"]
        gpu = buses[place] if place in buses and place >= 0 else Device(ordinal)
        found[row["pid"], ordinal] = replace(gpu, id=ordinal, **_stated(row, 1e3))  # kB/s and kHz
    return found


def _bus_of(value: object) -> int:
    """The bus from a number or a location such as `0000:c1:00.0`; -1 for neither."""
    if isinstance(value, int):
        return value
    match = re.fullmatch(r"(?:[0-9a-fA-F]+:)?([0-9a-fA-F]+):[0-9a-fA-F]+\.\d", str(value or ""))
    return int(match[1], 16) if match else -1


def _uid(uuid: object, bus: object) -> str | None:
    """The UUID where it is one, else the bus location."""
    if uuid and str(uuid).strip("0-"):
        return str(uuid)
    return str(bus) if bus else None
