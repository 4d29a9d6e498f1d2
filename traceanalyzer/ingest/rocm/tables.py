"""rocprofv3's CSV: a table of kernels (`*_kernel_trace.csv`), and beside it those of copies, calls
and ranges. Headers differ in capitals between versions, and files that `rocpd convert` writes begin
with a `Guid`, within which alone correlation ids are unique. Devices are agents there ("Agent 7"),
the CPUs first; `*_agent_info.csv` says which of them are GPUs."""

import csv
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path

import numpy as np

from traceanalyzer.base import UnreadableInputError, regex
from traceanalyzer.ingest.columns import Columns as Growing
from traceanalyzer.ingest.columns import StringCodes, by_value
from traceanalyzer.ingest.durations import Tally
from traceanalyzer.ingest.rocm import recorded as amd
from traceanalyzer.ingest.rocm.recorded import Columns, ProcessRows, traces_of
from traceanalyzer.ingest.stream import ByteStream, open_stream, stream_lines
from traceanalyzer.trace import I64, Device, Process, RangeKind, Trace

_TABLE = "kernel_trace"
_NUMBER = regex(r"-?\d+")
_RANGES = {
    "marker_api_trace": RangeKind.ANNOTATION,
    "hsa_api_trace": RangeKind.LIBRARY,
    "rccl_api_trace": RangeKind.LIBRARY,
}
_TIMES = {"start": "start_timestamp", "end": "end_timestamp", "correlation": "correlation_id"}
_SHAPE = [f"{what}_size_{axis}" for what in ("grid", "workgroup") for axis in "xyz"]
_OF_KERNELS = ("agent_id", "queue_id", "stream_id", "lds_block_size", *_SHAPE)
_OF_COPIES = ("source_agent_id", "destination_agent_id", "stream_id")
_OF_CALLS = ("process_id", "thread_id")
Rows = dict[str, Columns]  # columns by `Guid`, which is empty where there is none
Progress = Callable[[float], None] | None


def is_table(head: bytes) -> bool:
    """Whether the text is a table of kernels, of any version. `head`: the first bytes of the
    decompressed file."""
    return {"kernel_name", "start_timestamp", "end_timestamp", "agent_id"}.issubset(
        columns_named(head)
    )


def columns_named(head: bytes) -> list[str]:
    """Names of the columns of a table that begins like this, in small letters."""
    first = head.partition(b"\n")[0].decode("utf-8-sig", "replace")
    return _header(csv.reader([first]))


def read_tables(path: Path, progress: Progress) -> list[Trace]:
    """A trace for each process. Raises UnreadableInputError."""
    tally = Tally()
    texts = StringCodes()
    numbers, devices = _agents(path)
    kernels = _read(path, _OF_KERNELS, "kernel_name", texts, tally, progress)
    if not kernels:
        raise UnreadableInputError(f"{path}: a table of kernels without rows; record again")
    if not numbers:
        tally.notes.append(
            "Devices are numbered as the recording numbers agents, CPUs first (no "
            "*_agent_info.csv)."
        )
    copied = _beside(path, "memory_copy_trace", _OF_COPIES, "direction", texts, tally)
    calls = _beside(path, "hip_api_trace", _OF_CALLS, "function", texts, tally)
    ranges = {name: _beside(path, name, _OF_CALLS, "function", texts, tally) for name in _RANGES}
    recorded = []
    for guid, rows in kernels.items():
        ops = amd.with_all_columns(
            [_kernels(rows, numbers), _copies(copied.get(guid), numbers, texts)]
        )
        called = calls.get(guid)
        process = Process(int(called["process_id"][0]) if called else None)
        recorded.append(ProcessRows(process, devices, ops, _host(called), _ranges(ranges, guid)))
    return traces_of(path, "rocprofv3_csv", recorded, texts, tally)


def _ranges(tables: Mapping[str, Rows], guid: str) -> Columns:
    return amd.with_all_columns(
        [_host(rows.get(guid), _RANGES[name]) for name, rows in tables.items()]
    )


def _header(rows: Iterator[list[str]]) -> list[str]:
    try:
        return [name.strip().casefold() for name in next(rows, [])]
    except csv.Error:
        return []


def _beside(
    path: Path, table: str, numbers: tuple[str, ...], text: str, texts: StringCodes, tally: Tally
) -> Rows:
    """Another table of the same recording; no rows where there is none."""
    other = path.with_name(path.name.replace(_TABLE, table))
    return _read(other, numbers, text, texts, tally) if other != path and other.is_file() else {}


def _read(
    path: Path,
    numbers: tuple[str, ...],
    text: str,
    texts: StringCodes,
    tally: Tally,
    progress: Progress = None,
) -> Rows:
    """Columns as `read_columns` gives them, those of rocprofv3's times among them."""
    return read_columns(path, (*_TIMES.values(), *numbers), text, texts, tally, progress)


def read_columns(
    path: Path,
    numbers: tuple[str, ...],
    text: str,
    texts: StringCodes,
    tally: Tally,
    progress: Progress = None,
) -> Rows:
    """Columns of numbers and of one text, which has codes as `name`, by `Guid`; -1 where the table
    has no such column. Of a text in a column of numbers the number in it counts. Rows that are not
    as long as the header are lost."""
    layout = dict.fromkeys((*numbers, "name"), "q")
    found: dict[str, Growing] = defaultdict(lambda: Growing(layout))
    with open_stream(path, progress) as stream:
        rows = csv.reader(_lines(stream))
        header = _header(rows)
        guid = header.index("guid") if "guid" in header else None
        complete = _whole(rows, len(header), tally)
        while chunk := list(islice(complete, 4096)):
            for key, own in _by_guid(chunk, guid).items():
                columns = dict(zip(header, zip(*own, strict=True), strict=False))
                found[key].append(_taken(columns, len(own), numbers, text, texts))
    return {key: columns.take() for key, columns in found.items()}


def _taken(
    columns: Mapping[str, Sequence[str]],
    count: int,
    numbers: Sequence[str],
    text: str,
    texts: StringCodes,
) -> dict[str, Sequence[int]]:
    """Numbers from so many rows' texts, by column, and codes of the column `text` as `name`."""
    missing = ("",) * count
    taken: dict[str, Sequence[int]] = {
        name: _numbers(columns.get(name, missing)) for name in numbers
    }
    taken["name"] = texts.codes([name or "unnamed" for name in columns.get(text, missing)])
    return taken


def _by_guid(rows: list[list[str]], place: int | None) -> dict[str, list[list[str]]]:
    """The rows by their `Guid`, which stands at that place; all together where there is none."""
    if place is None:
        return {"": rows}
    found: dict[str, list[list[str]]] = defaultdict(list)
    for row in rows:
        found[row[place]].append(row)
    return found


def _numbers(texts: Sequence[str]) -> list[int]:
    try:
        return list(map(int, texts))
    except ValueError:
        return list(map(_number, texts))


def _whole(rows: Iterator[list[str]], length: int, tally: Tally) -> Iterator[list[str]]:
    while True:
        try:
            row = next(rows)
        except StopIteration:
            return
        except csv.Error:
            tally.lost += 1
            continue
        if len(row) == length:
            yield row
        elif row:
            tally.lost += 1


def _lines(stream: ByteStream) -> Iterator[str]:
    texts = (line.decode("utf-8", "replace") for line in stream_lines(stream))
    return (text.replace("\0", "") + "\n" for text in texts)


def _number(text: str) -> int:
    match = _NUMBER.search(text[:18])  # numbers of so many digits fit 64 bits
    return int(match[0]) if match else -1


def _kernels(rows: Columns, numbers: Mapping[int, int]) -> Columns:
    shape = [rows[name] for name in _SHAPE]
    return {
        **_times(rows),
        **amd.launch_shape(shape[:3], shape[3:]),
        "kind": np.full(len(rows["name"]), amd.KERNEL),
        "name": rows["name"],
        "device": _numbered(rows["agent_id"], numbers),
        "queue": rows["queue_id"],
        "stream": rows["stream_id"] if (rows["stream_id"] >= 0).any() else rows["queue_id"],
        "shared_bytes": rows["lds_block_size"],
    }


def _copies(rows: Columns | None, numbers: Mapping[int, int], texts: StringCodes) -> Columns:
    if rows is None:
        return {}
    source, target = (_numbered(rows[name], numbers) for name in _OF_COPIES[:2])
    described = amd.copies(rows["name"], texts.in_order().__getitem__, source, target, texts)
    return _times(rows) | described | {"stream": rows["stream_id"]}


def _host(rows: Columns | None, kind: int = 0) -> Columns:
    if rows is None:
        return {}
    columns = _times(rows) | {"name": rows["name"], "thread": rows["thread_id"]}
    if kind:
        columns["kind"] = np.full(len(rows["name"]), kind)
        del columns["correlation"]
    return columns


def _times(rows: Columns) -> Columns:
    return {name: rows[column] for name, column in _TIMES.items()}


def _numbered(agents: I64, numbers: Mapping[int, int]) -> I64:
    return by_value(agents, lambda agent: numbers.get(agent, -1)) if numbers else agents


def _agents(path: Path) -> tuple[dict[int, int], dict[int, Device]]:
    """Numbers of the GPUs by their agents' numbers, and what they are; empty where that is not
    recorded."""
    other = path.with_name(path.name.replace(_TABLE, "agent_info"))
    if other == path or not other.is_file():
        return {}, {}
    gpus = [agent for agent in _agent_rows(other) if agent.get("agent_type") == "GPU"]
    gpus.sort(key=_agent_number)
    devices = {place: _device(place, agent) for place, agent in enumerate(gpus)}
    return {_agent_number(agent): place for place, agent in enumerate(gpus)}, devices


def _agent_rows(path: Path) -> list[dict[str, str]]:
    with open_stream(path, log=True) as stream:
        rows = csv.reader(_lines(stream))
        header = _header(rows)
        complete = _whole(rows, len(header), Tally())
        return [dict(zip(header, row, strict=True)) for row in complete]


def _agent_number(agent: Mapping[str, str]) -> int:
    return _number(agent.get("node_id", ""))


def _device(place: int, agent: Mapping[str, str]) -> Device:
    sizes = {name: _number(agent.get(name, "")) for name in ("cu_count", "gfx_target_version")}
    return amd.device_of(place, {"product_name": agent.get("product_name"), **sizes})
