"""RPD: the SQLite that rocmProfileData's `runTracer.sh` writes (schema 2). Base tables only, as of
any database. Work (`rocpd_op`) is tied to the call that launched it by `rocpd_api_ops`; its own
name is a description, and where that is empty the kernel's name that the call has."""

from collections.abc import Callable
from pathlib import Path

import numpy as np

from traceanalyzer.base import regex
from traceanalyzer.ingest.columns import StringCodes, by_value, looked_up
from traceanalyzer.ingest.durations import Tally
from traceanalyzer.ingest.rocm import recorded as amd
from traceanalyzer.ingest.rocm.recorded import Columns, ProcessRows, traces_of
from traceanalyzer.ingest.sqlite.database import Database
from traceanalyzer.trace import (
    I64,
    OverheadKind,
    Process,
    RangeKind,
    Trace,
    distinct,
    distinct_places,
)

_MARKER = "UserMarker"  # a call that is none: a range of ROCTx, its text among the arguments
_RECORDER = regex(r"^hcc_activity_callback$|^\w+Table::")
"""Calls of RPD itself, which it writes among the program's."""
_GRID = ("gridX", "gridY", "gridZ")
_GROUP = ("workgroupX", "workgroupY", "workgroupZ")


def is_rpd(database: Database) -> bool:
    """Whether the file has RPD's tables."""
    return database.has("rocpd_op", "gpuId", "start", "end") and database.has(
        "rocpd_string", "string"
    )


def read_rpd(
    path: Path, database: Database, progress: Callable[[float], None], *, share_there: float
) -> list[Trace]:
    """A trace for each process; none where nothing was recorded. `share_there`: the share of the
    file that is there."""
    tally = Tally()
    texts = StringCodes()
    columns = {
        "id": -1,
        "pid": -1,
        "tid": -1,
        "start": 0,
        "end": 0,
        "apiName_id": -1,
        "args_id": -1,
    }
    calls = database.integers("rocpd_api", columns)
    calls = amd.of_rows(calls, np.argsort(calls["id"], kind="stable"))
    ops = _ops(database, calls, texts, tally)
    progress(0.5)
    known = ops["pid"] >= 0
    pids = distinct(ops["pid"][known] if len(known) else calls["pid"])
    if len(pids) == 1:
        ops["pid"] = np.full(len(ops["pid"]), pids[0])
    tally.lost += int(np.count_nonzero(ops["pid"] < 0))
    tables = (ops, *_calls(database, calls, texts))
    found = []
    for pid in pids.tolist():
        own = (amd.of_process(rows, pid) for rows in tables)
        found.append(ProcessRows(Process(pid), {}, *own))
    progress(1.0)
    truncated = share_there < 1 or bool(database.damaged)
    return traces_of(path, "rpd", found, texts, tally, truncated=truncated)


def _calls(
    database: Database, calls: Columns, texts: StringCodes
) -> tuple[Columns, Columns, Columns]:
    """Calls of HIP, and what stands among them: ranges, and the recorder's own calls."""
    named, name = distinct_places(calls["apiName_id"])
    spelt = database.texts(named, "rocpd_string", "string")
    names = [spelt.get(i, "unnamed call") for i in named.tolist()]
    marker = np.array([text == _MARKER for text in names], bool)[name]
    recorder = np.array([_RECORDER.match(text) for text in names], bool)[name]
    columns = {
        **{column: calls[column] for column in ("start", "end", "pid")},
        "name": np.array(texts.codes(names), np.int64)[name],
        "thread": calls["tid"],
    }
    message = calls["args_id"][marker]
    messages = database.texts(distinct(message), "rocpd_string", "string")
    columns["name"][marker] = by_value(message, lambda i: texts.code(messages.get(i) or _MARKER))
    ranges = np.full(len(name), int(RangeKind.ANNOTATION))
    overheads = np.full(len(name), int(OverheadKind.PROFILER))
    return (
        amd.of_rows({**columns, "correlation": calls["id"]}, ~marker & ~recorder),
        amd.of_rows({**columns, "kind": ranges}, marker),
        amd.of_rows({**columns, "kind": overheads}, recorder),
    )


def _ops(database: Database, calls: Columns, texts: StringCodes, tally: Tally) -> Columns:
    """Kernels, copies and fills, each with its call and the call's process."""
    wanted = {
        "id": -1,
        "gpuId": -1,
        "queueId": -1,
        "start": 0,
        "end": 0,
        "description_id": -1,
        "opType_id": -1,
    }
    rows = database.integers("rocpd_op", wanted)
    links = database.integers("rocpd_api_ops", {"api_id": -1, "op_id": -1})
    links = amd.of_rows(links, np.argsort(links["op_id"], kind="stable"))
    rows["call"] = looked_up(links["op_id"], links["api_id"], rows["id"])
    rows["kind"], rows["title"], rows["copy_kind"] = _kinds(database, rows["opType_id"], texts)
    work = rows["kind"] > 0
    tally.skipped += int(np.count_nonzero(~work))
    rows = amd.of_rows(rows, work)
    kernel = rows["kind"] == amd.KERNEL
    of_kernels = ("kernelName_id", *_GRID, *_GROUP)
    launched = _of_call(database, "rocpd_kernelapi", of_kernels, rows["call"])
    size = _of_call(database, "rocpd_copyapi", ("size",), rows["call"])["size"]
    names = _kernel_names(database, rows["description_id"], launched["kernelName_id"], texts)
    shape = _shape(database, calls, launched, rows["call"])
    return {
        **{name: rows[name] for name in ("kind", "start", "end", "copy_kind")},
        "name": np.where(kernel, names, rows["title"]),
        "pid": looked_up(calls["id"], calls["pid"], rows["call"]),
        "device": rows["gpuId"],
        "stream": rows["queueId"],
        "correlation": rows["call"],
        "bytes": np.where(~kernel & (size > 0), size, -1),
        **{name: np.where(kernel, column, -1) for name, column in shape.items()},
    }


def _kernel_names(database: Database, described: I64, called: I64, texts: StringCodes) -> I64:
    """The name of each kernel: its description, else what its call says."""
    pairs, place = np.unique(np.stack([described, called]), axis=1, return_inverse=True)
    spelt = database.texts(distinct(pairs.reshape(-1)), "rocpd_string", "string")
    names = [spelt.get(a) or spelt.get(b) or "unnamed kernel" for a, b in pairs.T.tolist()]
    return np.array(texts.codes(names), np.int64)[place.reshape(-1)]


def _of_call(database: Database, table: str, columns: tuple[str, ...], call: I64) -> Columns:
    """What a table says of these calls; -1 where it does not."""
    rows = database.integers(table, {"api_ptr_id": -1, **dict.fromkeys(columns, -1)})
    rows = amd.of_rows(rows, np.argsort(rows["api_ptr_id"], kind="stable"))
    return {name: looked_up(rows["api_ptr_id"], rows[name], call) for name in columns}


def _shape(database: Database, calls: Columns, launched: Columns, call: I64) -> Columns:
    """Of kernels; what begins with `hipExt` is given its grid in work items, everything else in
    work groups."""
    spelt = database.texts(distinct(calls["apiName_id"]), "rocpd_string", "string")
    in_items = [key for key, text in spelt.items() if text.startswith("hipExt")]
    items = np.isin(looked_up(calls["id"], calls["apiName_id"], call), in_items)
    groups = [launched[name] for name in _GROUP]
    recorded = [launched[name] for name in _GRID]
    sizes = zip(recorded, groups, strict=True)
    grid = [np.where(items, count, count * group) for count, group in sizes]
    return amd.launch_shape(grid, groups)


def _kinds(database: Database, types: I64, texts: StringCodes) -> tuple[I64, I64, I64]:
    """Kind (0: no work), name and direction of each op by its type."""
    spelt = database.texts(distinct(types), "rocpd_string", "string")
    kinds = {i: _kind_of(spelt.get(i, "")) for i in distinct(types).tolist()}
    copies = {i: amd.copy_of(spelt[i]) for i, kind in kinds.items() if kind == amd.MEMCPY}
    title = by_value(
        types, lambda i: texts.code(copies[i].label if i in copies else "Memset (Device)")
    )
    return (
        by_value(types, kinds.__getitem__),
        title,
        by_value(types, lambda i: int(copies.get(i, 0))),
    )


def _kind_of(name: str) -> int:
    """What an op is by its type's name; 0 for what is no work (barriers, markers)."""
    words = name.upper()
    if "BARRIER" in words or "MARKER" in words:
        return 0
    return (
        amd.MEMCPY
        if "COPY" in words
        else amd.MEMSET
        if "FILL" in words or "MEMSET" in words
        else amd.KERNEL
    )
