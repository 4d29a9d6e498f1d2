"""rocprofv3's own JSON (`--output-format json`): one element a process, arrays of records by what
they are of. Names are numbers: of kernels by `kernel_id`, of calls by kind and operation, of ROCTx
ranges by correlation id. The arrays are decoded a stretch at a time, so that the text is all that
is held of them at once."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from msgspec import Raw, Struct

from traceanalyzer.base import UnreadableInputError
from traceanalyzer.ingest.columns import StringCodes, by_value
from traceanalyzer.ingest.durations import Tally
from traceanalyzer.ingest.rocm import recorded as amd
from traceanalyzer.ingest.rocm.recorded import Columns, ProcessRows, traces_of
from traceanalyzer.ingest.side_files import NOT_JSON, decoded
from traceanalyzer.ingest.stream import open_stream
from traceanalyzer.trace import I64, Device, Process, RangeKind, Trace
from traceanalyzer.trace.table import MOST_DEVICES

_AT_ONCE = 4096  # records that are decoded at once: they stay in the processor's cache
_LATEST = 2**62  # numbers beyond are damage
_RANGES = {
    "marker_api": RangeKind.ANNOTATION,
    **dict.fromkeys(
        ("hsa_api", "rccl_api", "rocdecode_api", "rocjpeg_api", "rocshmem_api"), RangeKind.LIBRARY
    ),
}
_READ = ("kernel_dispatch", "hip_api", "memory_copy", *_RANGES)
_TIMES = {
    "start": "start_timestamp",
    "end": "end_timestamp",
    "correlation": "correlation_id.internal",
}
_KERNEL = _TIMES | {
    "agent": "dispatch_info.agent_id.handle",
    "queue": "dispatch_info.queue_id.handle",
    "stream": "stream_id.handle",
    "kernel": "dispatch_info.kernel_id",
    "shared_bytes": "dispatch_info.group_segment_size",
    **{
        f"{what}_{axis}": f"dispatch_info.{what}_size.{axis}"
        for what in ("grid", "workgroup")
        for axis in "xyz"
    },
}
_NAMED = _TIMES | {"kind": "kind", "operation": "operation"}
_COPY = _NAMED | {
    "stream": "stream_id.handle",
    "bytes": "bytes",
    "source": "src_agent_id.handle",
    "target": "dst_agent_id.handle",
}
_CALL = _NAMED | {"thread": "thread_id", "parent": "correlation_id.ancestor"}
"""Columns, and where they stand in a record."""


class _Symbol(Struct, gc=False, frozen=True):
    kernel_id: int = -1
    formatted_kernel_name: str = ""
    kernel_name: str = ""


class _Kind(Struct, gc=False, frozen=True):
    kind: str = ""
    operations: list[str] = []


class _Message(Struct, gc=False, frozen=True):
    key: int = -1
    value: str = ""


class _Strings(Struct, gc=False, frozen=True):
    buffer_records: list[_Kind] = []
    marker_api: list[_Message] = []


class _Node(Struct, gc=False, frozen=True):
    hostname: str = ""


class _Metadata(Struct, gc=False, frozen=True):
    node: _Node = _Node()
    pid: int = -1
    command: list[str] = []


class _Process(Struct, gc=False, frozen=True):
    """One process; records are undecoded text."""

    metadata: _Metadata = _Metadata()
    agents: list[dict[str, Any]] = []
    strings: _Strings = _Strings()
    kernel_symbols: list[_Symbol] = []
    buffer_records: dict[str, list[Raw]] = {}


class _File(Struct, gc=False, frozen=True):
    processes: list[_Process] = msgspec.field(name="rocprofiler-sdk-tool")


_FILE: msgspec.json.Decoder[_File] = msgspec.json.Decoder(_File)


def is_json(head: bytes) -> bool:
    """Whether the text is rocprofv3's. `head`: the first bytes of the decompressed file."""
    return head.lstrip(b" \t\r\n").startswith(b"{") and b'"rocprofiler-sdk-tool"' in head[:256]


def read_json(path: Path, progress: Callable[[float], None] | None) -> list[Trace]:
    """A trace for each process that used a GPU or called HIP. Raises UnreadableInputError."""
    with open_stream(path, progress) as stream:
        text = b"".join(stream)
    try:
        processes = _FILE.decode(text).processes
    except NOT_JSON as error:
        why = stream.damage or str(error).split(" - at")[0]
        refusal = f"{path}: rocprofv3's JSON is cut off or damaged ({why}); copy or record it again"
        raise UnreadableInputError(refusal) from error
    tally = Tally()
    texts = StringCodes()
    recorded = [_recorded(process, texts, tally) for process in processes]
    return traces_of(path, "rocprofv3", recorded, texts, tally)


def _recorded(process: _Process, texts: StringCodes, tally: Tally) -> ProcessRows:
    arrays = process.buffer_records
    tally.skipped += sum(len(rows) for name, rows in arrays.items() if name not in _READ)
    numbers, devices = _agents(process.agents)
    calls = _host(arrays.get("hip_api", []), process.strings, texts, tally)
    ranges = amd.with_all_columns(
        [
            _host(arrays.get(name, []), process.strings, texts, tally, kind)
            for name, kind in _RANGES.items()
        ]
    )
    ops = _device_work(process, numbers, texts, tally)
    ops["correlation"] = amd.outermost(
        ops["correlation"], calls, ranges["correlation"], ranges["parent"]
    )
    return ProcessRows(
        _owner(process.metadata),
        devices,
        _filled(ops),
        _filled(calls, "parent", "kind"),
        _filled(ranges, "parent", "correlation"),
    )


def _device_work(
    process: _Process, numbers: Mapping[int, int], texts: StringCodes, tally: Tally
) -> Columns:
    """Kernels and copies. `numbers`: those of the GPUs by their handles."""
    arrays = process.buffer_records
    dispatched = arrays.get("kernel_dispatch", [])
    kernels = _kernels(dispatched, process.kernel_symbols, numbers, texts, tally)
    copied = _columns(arrays.get("memory_copy", []), _COPY, tally)
    return amd.with_all_columns([kernels, _copies(copied, process.strings, numbers, texts)])


def _owner(about: _Metadata) -> Process:
    pid = about.pid if about.pid >= 0 else None
    name = Path(about.command[0]).name if about.command else ""
    return Process(pid, name, host=about.node.hostname or None)


def _copies(
    rows: Columns, strings: _Strings, numbers: Mapping[int, int], texts: StringCodes
) -> Columns:
    names, place = _operations(rows, strings)
    source = by_value(rows["source"], lambda agent: numbers.get(agent, -1))
    target = by_value(rows["target"], lambda agent: numbers.get(agent, -1))
    kept = {name: rows[name] for name in ("start", "end", "correlation", "stream", "bytes")}
    return kept | amd.copies(place, names.__getitem__, source, target, texts)


def _filled(rows: Columns, *unused: str) -> Columns:
    """The columns that are of use; none without rows."""
    return (
        {name: column for name, column in rows.items() if name not in unused}
        if len(rows["start"])
        else {}
    )


def _columns(records: Sequence[Raw], wanted: Mapping[str, str], tally: Tally) -> Columns:
    """Columns of an array of records, decoded a stretch at a time; damaged records are lost."""
    take = attrgetter(*wanted.values())
    kind = _record(wanted.values())
    of_list = msgspec.json.Decoder(list[kind])  # type: ignore[valid-type]
    of_record = msgspec.json.Decoder(kind)
    parts = [np.empty((0, len(wanted)), np.int64)]
    for i in range(0, len(records), _AT_ONCE):
        chunk = records[i : i + _AT_ONCE]
        try:
            found = of_list.decode(b"[" + b",".join(chunk) + b"]")
        except NOT_JSON:
            found = list(filter(None, (decoded(raw, of_record) for raw in chunk)))
        rows = [row for row in map(take, found) if -_LATEST <= min(row) <= max(row) < _LATEST]
        tally.lost += len(chunk) - len(rows)
        parts.append(np.array(rows, np.int64).reshape(-1, len(wanted)))
    matrix = np.concatenate(parts)
    return {name: matrix[:, i] for i, name in enumerate(wanted)}


def _record(places: Iterable[str]) -> type[Struct]:
    """A type of records that have a number at each of these places (`dispatch_info.kernel_id`), -1
    where it is not."""
    inner: dict[str, list[str]] = {}
    for place in places:
        name, _, rest = place.partition(".")
        inner.setdefault(name, []).extend([rest] if rest else [])
    nested = {name: _record(rest) for name, rest in inner.items() if rest}
    numbers = [(name, int, -1) for name in inner if name not in nested]
    records = [(name, record, record()) for name, record in nested.items()]
    fields = [*numbers, *records]
    return msgspec.defstruct("Record", fields, frozen=True, gc=False)


def _operations(rows: Columns, strings: _Strings) -> tuple[list[str], I64]:
    """Names of the distinct operations of these rows, and for each row its place among them."""
    both = np.stack([rows["kind"], rows["operation"]])
    pairs, place = np.unique(both, axis=1, return_inverse=True)
    known = {
        (i, j): name
        for i, kind in enumerate(strings.buffer_records)
        for j, name in enumerate(kind.operations)
    }
    names = [known.get((kind, operation), "") for kind, operation in pairs.T.tolist()]
    return names, place.reshape(-1)


def _host(
    records: Sequence[Raw], strings: _Strings, texts: StringCodes, tally: Tally, kind: int = 0
) -> Columns:
    """Calls, or ranges of a kind; ranges of ROCTx are called by their messages."""
    rows = _columns(records, _CALL, tally)
    names, place = _operations(rows, strings)
    codes = np.array(texts.codes([name or "unnamed call" for name in names]), np.int64)[place]
    if kind == RangeKind.ANNOTATION:
        messages = {message.key: message.value for message in strings.marker_api if message.value}
        for i, correlation in enumerate(rows["correlation"].tolist()):
            if correlation in messages:
                codes[i] = texts.code(messages[correlation])
    kept = {name: rows[name] for name in ("start", "end", "thread", "correlation", "parent")}
    return {**kept, "name": codes, "kind": np.full(len(codes), kind)}


def _kernels(
    records: Sequence[Raw],
    symbols: Sequence[_Symbol],
    numbers: Mapping[int, int],
    texts: StringCodes,
    tally: Tally,
) -> Columns:
    rows = _columns(records, _KERNEL, tally)
    spelt = {
        symbol.kernel_id: symbol.formatted_kernel_name or symbol.kernel_name for symbol in symbols
    }
    kept = ("start", "end", "correlation", "queue", "stream", "shared_bytes")
    grid = [rows[f"grid_{axis}"] for axis in "xyz"]
    group = [rows[f"workgroup_{axis}"] for axis in "xyz"]
    return {
        **{name: rows[name] for name in kept},
        **amd.launch_shape(grid, group),
        "kind": np.full(len(rows["start"]), amd.KERNEL),
        "name": by_value(rows["kernel"], lambda i: texts.code(spelt.get(i) or "unnamed kernel")),
        "device": by_value(rows["agent"], lambda agent: numbers.get(agent, -1)),
    }


def _agents(agents: Sequence[dict[str, Any]]) -> tuple[dict[int, int], dict[int, Device]]:
    """Numbers of the GPUs by their handles, and what they are. Agents are CPUs too, which come
    first."""
    gpus = [agent for agent in agents if agent.get("type") == 2]  # 1: a CPU
    numbers = {}
    devices = {}
    for place, agent in enumerate(gpus):
        handle = agent.get("id")
        index = agent.get("logical_node_type_id")
        number = index if isinstance(index, int) and 0 <= index < MOST_DEVICES else place
        devices[number] = amd.device_of(number, agent)
        if isinstance(handle, dict) and isinstance(handle.get("handle"), int):
            numbers[handle["handle"]] = number
    return numbers, devices
