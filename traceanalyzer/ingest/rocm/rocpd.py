"""rocpd: the SQLite that rocprofv3 writes since ROCm 7 (schema 3.0.0 to 3.0.5), the layout of 4.x,
and merged files. Tables have a suffix, one for each database of a merged file, in which alone ids
are unique. Only base tables are read, columns by name, whichever are there: the views differ
between schemas, drop rows, and are code of the file's author. A kernel and the call that launched
it have the same `stack_id`."""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from traceanalyzer.base import dataclass
from traceanalyzer.ingest.columns import StringCodes, by_value, looked_up
from traceanalyzer.ingest.durations import Tally
from traceanalyzer.ingest.rocm import recorded as amd
from traceanalyzer.ingest.rocm.recorded import Columns, ProcessRows, traces_of
from traceanalyzer.ingest.side_files import decoded, mapping
from traceanalyzer.ingest.sqlite.database import Database
from traceanalyzer.trace import I64, Device, Process, RangeKind, Trace, distinct, distinct_places

_DISPATCH = "rocpd_kernel_dispatch"
_COPY = "rocpd_memory_copy"
_REGION = "rocpd_region"
_TRACK = {
    "pid": -1,
    "tid": -1,
    "agent_id": -1,
    "queue_id": -1,
    "stream_id": -1,
}  # what 4.x says of a row in its track
_TIMES = {"start": 0, "end": 0}
_GROUP = tuple(f"workgroup_size_{axis}" for axis in "xyz")
_GRID = tuple(f"grid_size_{axis}" for axis in "xyz")
_CALL = 0
_LEFT_OUT = -1
_UNKNOWN = -2
"""What a region is beside a kind of range: a call of HIP, nothing that is read, of a category that
nobody knows."""


@dataclass(frozen=True)
class _Part:
    """The tables of one database."""

    database: Database
    suffix: str

    def has(self, table: str, *columns: str) -> bool:
        return self.database.has(table + self.suffix, *columns)

    def integers(self, table: str, columns: dict[str, int]) -> Columns:
        """The columns, with what 4.x says of the row's track in their place."""
        found: Columns = {
            **self.database.integers(table + self.suffix, columns | _TRACK | {"track_id": -1})
        }
        if not self.has(table, "track_id"):
            return found
        tracks = self.database.integers(f"rocpd_track{self.suffix}", {"id": -1, **_TRACK})
        missing = [name for name in _TRACK if not self.has(table, name)]
        return found | {
            name: looked_up(tracks["id"], tracks[name], found["track_id"]) for name in missing
        }

    def rows(self, table: str, *columns: str) -> list[tuple[Any, ...]]:
        """Rows of a small table; numbers where the file has numbers."""
        return list(self.database.rows(table + self.suffix, dict.fromkeys(columns)))

    def texts(
        self, ids: Iterable[int], table: str = "rocpd_string", text: str = "string"
    ) -> dict[int, str]:
        return self.database.texts(ids, table + self.suffix, text)


def read_rocpd(
    path: Path, database: Database, progress: Callable[[float], None], *, share_there: float
) -> list[Trace]:
    """A trace for each process that used a GPU, or else called HIP; none where none did.
    `share_there`: the share of the file that is there."""
    tally = Tally()
    texts = StringCodes()
    suffixes = suffixes_of(database)
    found: list[ProcessRows] = []
    for i, suffix in enumerate(suffixes):
        found += _processes(_Part(database, suffix), texts, tally)
        progress((i + 1) / len(suffixes))
    if database.damaged:
        tally.notes.append(
            f"Tables are damaged, and were read up to the damage: {len(database.damaged)} of them."
        )
    return traces_of(
        path, "rocpd", found, texts, tally, truncated=share_there < 1 or bool(database.damaged)
    )


def suffixes_of(database: Database) -> list[str]:
    """The suffixes of the tables, one for each database; none where the file has no such tables."""
    names = [
        name.removeprefix(_DISPATCH) for name in database.columns if name.startswith(_DISPATCH)
    ]
    return sorted(suffix for suffix in names if database.has(f"rocpd_event{suffix}"))


def _processes(part: _Part, texts: StringCodes, tally: Tally) -> list[ProcessRows]:
    wanted = {"id": -1, "category_id": -1, "stack_id": -1, "parent_stack_id": -1}
    events = part.database.integers(f"rocpd_event{part.suffix}", wanted)
    numbers, devices = _agents(part)
    columns = {
        **_TIMES,
        "name_id": -1,
        "event_id": -1,
        "size": -1,
        "dst_agent_id": -1,
        "src_agent_id": -1,
    }
    rows = part.integers(_COPY, columns)
    known = part.texts(distinct(rows["name_id"]))
    source = looked_up(*numbers, rows["src_agent_id"])
    target = looked_up(*numbers, rows["dst_agent_id"])
    described = amd.copies(rows["name_id"], lambda i: known.get(i, ""), source, target, texts)
    copied = _common(rows, events) | described | {"bytes": rows["size"]}
    ops = amd.with_all_columns([_kernels(part, events, numbers, texts), copied])
    calls, ranges, parents = _regions(part, events, texts, tally)
    if ops:
        ops["correlation"] = amd.outermost(ops["correlation"], calls, *parents)
    return _of_each_process(part, devices, (ops, calls, ranges))


def _of_each_process(
    part: _Part, devices: dict[int, Device], tables: tuple[Columns, ...]
) -> list[ProcessRows]:
    """The rows of the tables, process by process."""
    owners = _known_processes(part)
    pids = [rows["pid"] for rows in tables if rows]
    recorded = []
    for pid in distinct(np.concatenate(pids or [np.empty(0, np.int64)])).tolist():
        own = (amd.of_process(rows, pid) for rows in tables)
        recorded.append(ProcessRows(owners.get(pid, Process(pid)), devices, *own))
    return recorded


def _kernels(part: _Part, events: Columns, numbers: tuple[I64, I64], texts: StringCodes) -> Columns:
    columns = {**_TIMES, "kernel_id": -1, "event_id": -1, "group_segment_size": -1}
    more = (*_GROUP, *_GRID, "graph_exec_id", "graph_node_id")
    rows = part.integers(_DISPATCH, columns | dict.fromkeys(more, -1))
    kernel, place = distinct_places(rows["kernel_id"])
    display = part.texts(kernel, "rocpd_info_kernel_symbol", "display_name")
    plain = part.texts(kernel, "rocpd_info_kernel_symbol", "kernel_name")
    names = [display.get(i) or plain.get(i) or "unnamed kernel" for i in kernel.tolist()]
    return {
        **_common(rows, events),
        **amd.launch_shape([rows[name] for name in _GRID], [rows[name] for name in _GROUP]),
        "kind": np.full(len(place), amd.KERNEL),
        "name": np.array(texts.codes(names), np.int64)[place],
        "device": looked_up(*numbers, rows["agent_id"]),
        "shared_bytes": rows["group_segment_size"],
        "graph": np.where(rows["graph_exec_id"] > 0, rows["graph_exec_id"], -1),
        "graph_node": np.where(rows["graph_node_id"] > 0, rows["graph_node_id"], -1),
    }


def _common(rows: Columns, events: Columns) -> Columns:
    correlation = looked_up(events["id"], events["stack_id"], rows["event_id"])
    return {
        **{column: rows[column] for column in ("start", "end", "pid")},
        "queue": rows["queue_id"],
        "stream": rows["stream_id"],
        "correlation": np.where(correlation > 0, correlation, -1),
    }


def _regions(
    part: _Part, events: Columns, texts: StringCodes, tally: Tally
) -> tuple[Columns, Columns, tuple[I64, I64]]:
    """Calls of HIP, ranges of all else, and of the ranges the stack ids and those that they are
    inside of."""
    rows = part.integers(_REGION, {**_TIMES, "name_id": -1, "event_id": -1})
    for name in ("category_id", "stack_id", "parent_stack_id"):
        rows[name] = looked_up(events["id"], events[name], rows["event_id"])
    threads = part.database.integers(f"rocpd_info_thread{part.suffix}", {"id": -1, "tid": -1})
    spelt = part.texts(distinct(rows["name_id"]))
    kinds = _kinds(part, rows, spelt)
    tid = looked_up(threads["id"], threads["tid"], rows["tid"])
    columns = {
        "name": by_value(rows["name_id"], lambda i: texts.code(spelt.get(i, "unnamed call"))),
        **{column: rows[column] for column in ("start", "end", "pid")},
        "thread": np.where(tid >= 0, tid, rows["tid"]),
    }
    is_call = kinds == _CALL
    is_range = kinds > _CALL
    tally.skipped += int(np.count_nonzero(kinds == _LEFT_OUT))
    stack = np.where(rows["stack_id"] > 0, rows["stack_id"], -1)
    calls = amd.of_rows({**columns, "correlation": stack}, is_call) if is_call.any() else {}
    for i, message in _messages(part, kinds, rows["event_id"]):
        columns["name"][i] = texts.code(message)
    ranges = amd.of_rows({**columns, "kind": kinds}, is_range) if is_range.any() else {}
    return calls, ranges, (stack[is_range], rows["parent_stack_id"][is_range])


def _messages(part: _Part, kinds: I64, event_id: I64) -> Iterator[tuple[int, str]]:
    """The markers (rows) to which the program gave a message; the others are called as the recorder
    calls them."""
    marked = np.flatnonzero(kinds == RangeKind.ANNOTATION)
    events = event_id[marked].tolist()
    found = part.texts(events, "rocpd_event", "extdata")
    for i, event in zip(marked.tolist(), events, strict=True):
        message = mapping(decoded(found.get(event, ""))).get("message")
        if isinstance(message, str) and message:
            yield i, message


def _kinds(part: _Part, rows: Columns, spelt: dict[int, str]) -> I64:
    """What each region is, by its category; by its name where that is not known."""
    categories = distinct(rows["category_id"])
    if part.has("rocpd_info_category"):
        texts = part.texts(categories, "rocpd_info_category", "name")
    else:
        texts = part.texts(categories, "rocpd_string", "string")
    kinds = by_value(rows["category_id"], lambda i: _kind_of(texts.get(i, "")))
    unknown = np.flatnonzero(kinds == _UNKNOWN)
    kinds[unknown] = by_value(rows["name_id"][unknown], lambda i: _kind_by_name(spelt.get(i, "")))
    return kinds


def _kind_by_name(name: str) -> int:
    return _CALL if name.startswith("hip") else RangeKind.ANNOTATION


def _kind_of(category: str) -> int:
    words = category.upper()
    if "MARKER" in words or "ROCTX" in words:
        return RangeKind.ANNOTATION
    if "KFD" in words:
        return _LEFT_OUT
    if "HIP" in words:
        return _CALL
    of_library = any(word in words for word in ("API", "HSA", "RCCL"))
    return RangeKind.LIBRARY if of_library else _UNKNOWN


def _agents(part: _Part) -> tuple[tuple[I64, I64], dict[int, Device]]:
    """Numbers of the GPUs by agent id, and what they are. Agents are CPUs too, which come first."""
    columns = ("id", "type", "type_index", "absolute_index", "product_name", "extdata")
    agents = part.rows("rocpd_info_agent", *columns)
    rows = [row for row in agents if isinstance(row[0], int) and row[1] == "GPU"]
    rows.sort(key=lambda row: (row[3] if isinstance(row[3], int) else row[0], row[0]))
    numbers = dict[int, int]()
    devices = dict[int, Device]()
    for place, (agent, _, index, _, name, extra) in enumerate(rows):
        numbers[agent] = index if isinstance(index, int) and index >= 0 else place
        about = mapping(decoded(extra)) if isinstance(extra, str) else {}
        devices[numbers[agent]] = amd.device_of(numbers[agent], {**about, "product_name": name})
    pairs = np.array(sorted(numbers.items()), np.int64).reshape(-1, 2)
    return (pairs[:, 0], pairs[:, 1]), devices


def _known_processes(part: _Part) -> dict[int, Process]:
    """Processes by the id that rows have. Of their command only the program is told."""
    nodes = part.rows("rocpd_info_node", "id", "hostname")
    hosts = {key: host for key, host in nodes if isinstance(host, str)}
    found: dict[int, Process] = {}
    for key, pid, node, command in part.rows("rocpd_info_process", "id", "pid", "nid", "command"):
        if isinstance(key, int) and isinstance(pid, int):
            words = command.split() if isinstance(command, str) else []
            program = Path(words[0]).name if words else ""
            found[key] = Process(pid, program, host=hosts.get(node) or None)
    return found
