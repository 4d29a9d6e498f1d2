"""Tables of sums by name: `nsys stats` (text and CSV), nvprof (text and CSV), rocprof v1."""

import csv
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from traceanalyzer.base import NS_PER_MS, dataclass, regex
from traceanalyzer.ingest.side_files import number_in
from traceanalyzer.trace import ProfilerRow

_NSYS_HEAD = regex(
    r'^[ \t\r#"]*+Time ?\(%\)"?[\s,]++"?Total Time(?: \((ns|us|ms|s)\))?', re.MULTILINE
)
_NSYS_TITLE = regex(
    r"\*\* ([^*]{1,200}) \((\w{1,100})\) ?:?$|^Processing \[[^\]]*\] with \[[^\]]*/(\w+)\.py"
)
_NVPROF = regex(r"^(?=.*\bCalls\b)(?=.*\bName\b).*Time\(%\)\W{1,40}Time\b", re.MULTILINE)
_NVPROF_ROW = regex(
    r"^\s*+(?:(?P<type>[A-Z][A-Za-z ]+:)\s*+)?\d{1,9}\.?\d{0,9}%\s+(?P<time>\d{1,15}\.?\d{0,15})(?P<unit>ns|us|ms|s)\s+"
    r"(?P<calls>\d{1,15})\s+\S+\s+\S+\s+\S+\s+(?P<name>.+)$"
)
_NVPROF_TRACE = regex(r"^[^\S\n]*+Start\s++Duration\s.*\bName[^\S\n]*+$", re.MULTILINE)
_NVPROF_EACH = regex(
    r"^\s*[\d.]{1,15}(?:ns|us|ms|s)\s+(?P<time>[\d.]{1,15})(?P<unit>ns|us|ms|s)\s+(?P<rest>\S.*)$"
)
_OF_DEVICE = regex(r"^.*?\s\d{1,9}\s+\d{1,9}\s{2}(?P<name>\S.*)$")
"""Device, context and stream stand before the name of what ran on the GPU."""
_CORRELATION = regex(r"\s\[\d{1,12}\]$")
_ROCPROF = regex(r'^"?Name"?,"?Calls"?,"?TotalDurationNs"?', re.MULTILINE)
_ROCPROF_EACH = regex(r"^(?=.*\bKernelName\b)(?=.*\bBeginNs\b).*\bEndNs\b", re.MULTILINE)
_GAPS = regex(r"\s{2,}")
_MS = {"ns": 1e-6, "us": 1e-3, "ms": 1.0, "s": 1e3}
_HOST = ("Num Calls", "Range", "Style")
"""Columns that tables of host time have, and those of the GPU's do not."""
_COUNTS = ("Instances", "Num Calls", "Count", "Calls", "Total Instances")
_NAMES = ("Name", "Operation", "Range", "Kernel Name", "Event Name")
MOST_ROWS = 100_000


@dataclass(frozen=True)
class _Head:
    """The columns of a table of `nsys stats`."""

    titles: Sequence[str]
    scale: float  # of its times, to ms
    is_host: bool


def is_nsys_stats(text: str) -> bool:
    """Whether a text has a table of `nsys stats`."""
    return _NSYS_HEAD.search(text) is not None


def nsys_rows(text: str) -> list[ProfilerRow]:
    """Kernels, copies and API calls of all its tables. Those of NVTX ranges and of the operating
    system hold the same time again: they are left out."""
    rows: list[ProfilerRow] = []
    head: _Head | None = None
    title = ""
    for line in text.splitlines():
        found = _NSYS_TITLE.search(line.strip())
        if found is not None:
            title = (found[2] or found[3] or "").lower()
        elif _NSYS_HEAD.match(line):
            head = _nsys_head(line, title)
        elif head is not None and line.strip(" -|") and len(rows) < MOST_ROWS:
            row = _nsys_row(head, _cells(line, len(head.titles)))
            if row is not None:
                rows.append(row)
    return rows


def _nsys_head(line: str, title: str) -> _Head | None:
    titles = [re.sub(r"\s+", " ", cell) for cell in _cells(line, 0)]
    plain = [cell.partition(" (")[0] for cell in titles]
    if "Range" in plain or title.startswith(("nvtx", "osrt")):
        return None
    unit = _NSYS_HEAD.match(line)
    scale = _MS[unit[1]] if unit is not None and unit[1] else _MS["ns"]
    return _Head(plain, scale, "Num Calls" in plain)


def _cells(line: str, columns: int) -> list[str]:
    """The cells of a line of CSV, or of a table in which names may hold spaces."""
    if line.count(",") >= max(columns - 1, 4) and not _GAPS.search(line.strip()):
        try:
            return [cell.strip() for cell in next(csv.reader([line]), [])]
        except csv.Error:
            return []
    parts = _GAPS.split(line.strip())
    if columns and len(parts) > columns:
        return [*parts[: columns - 1], "  ".join(parts[columns - 1 :])]
    return parts


def _nsys_row(head: _Head, cells: Sequence[str]) -> ProfilerRow | None:
    if len(cells) != len(head.titles):
        return None
    values = dict(zip(head.titles, cells, strict=True))
    total = number_in(values.get("Total Time", ""))
    count = next((number_in(values[name]) for name in _COUNTS if name in values), None)
    name = next((values[name] for name in _NAMES if values.get(name)), None)
    if total is None or name is None:
        return None
    return _row(name, count, total * head.scale, is_host=head.is_host)


def _row(name: str, calls: float | None, ms: float, *, is_host: bool) -> ProfilerRow:
    if is_host:
        return ProfilerRow(name, calls, self_cpu_ms=ms, cpu_total_ms=ms)
    return ProfilerRow(name, calls, self_cpu_ms=0.0, self_device_ms=ms, device_total_ms=ms)


def is_nvprof(text: str) -> bool:
    """Whether a text has a table of nvprof."""
    return _NVPROF.search(text) is not None and "Type" in text


def is_nvprof_trace(text: str) -> bool:
    """Whether a text is a row an operation, of `nvprof --print-gpu-trace` or `--print-api-trace`."""
    return _NVPROF_TRACE.search(text) is not None and bool(nvprof_trace_rows(text))


def nvprof_trace_rows(text: str) -> list[ProfilerRow]:
    """The sums of its operations by name."""
    spent: dict[tuple[str, bool], float] = defaultdict(float)
    calls: dict[tuple[str, bool], int] = defaultdict(int)
    for line in text.splitlines():
        found = _NVPROF_EACH.match(line)
        ms = number_in(found["time"]) if found is not None else None
        if found is None or ms is None:
            continue
        on_device = _OF_DEVICE.match(found["rest"])
        name = on_device["name"] if on_device is not None else found["rest"]
        key = (_CORRELATION.sub("", name.strip()), on_device is None)
        spent[key] += ms * _MS[found["unit"]]
        calls[key] += 1
    return [
        _row(name, calls[name, is_host], ms, is_host=is_host)
        for (name, is_host), ms in spent.items()
    ]


def nvprof_rows(text: str) -> list[ProfilerRow]:
    """Its GPU activities and API calls."""
    rows: list[ProfilerRow] = []
    is_host = False
    for line in text.splitlines():
        found = _NVPROF_ROW.match(line)
        if found is None:
            continue
        if found["type"]:
            is_host = "API" in found["type"]
        ms = float(found["time"]) * _MS[found["unit"]]
        rows.append(_row(found["name"].strip(), float(found["calls"]), ms, is_host=is_host))
    return rows or list(_nvprof_csv(text))


def _nvprof_csv(text: str) -> Iterator[ProfilerRow]:
    """Of `nvprof --csv`: the units stand below the titles."""
    titles: list[str] = []
    scale = 0.0
    for cells in _rows_of(line for line in text.splitlines() if not line.startswith("==")):
        if {"Time(%)", "Time"} <= set(cells):
            titles = cells
            scale = 0.0
        elif titles and len(cells) == len(titles):
            values = dict(zip(titles, cells, strict=True))
            if not scale:
                scale = _MS.get(values["Time"], 0.0)
                continue
            time = number_in(values["Time"])
            if time is not None:
                calls = number_in(values.get("Calls", ""))
                is_host = "API" in values.get("Type", "")
                yield _row(values.get("Name", ""), calls, time * scale, is_host=is_host)


def _rows_of(lines: Iterable[str]) -> Iterator[list[str]]:
    """The rows of a CSV, without those that are none."""
    rows = csv.reader(lines)
    while True:
        try:
            yield next(rows)
        except csv.Error:
            continue
        except StopIteration:
            return


def is_rocprof(text: str) -> bool:
    """Whether a text is a table of rocprof v1: its statistics, or a row a kernel."""
    return any(pattern.search(text) for pattern in (_ROCPROF, _ROCPROF_EACH))


def rocprof_rows(text: str) -> list[ProfilerRow]:
    """Its kernels; calls of HIP are host time."""
    lines = text.splitlines()
    cells = list(_rows_of(line for line in lines if line.strip()))
    table = [dict(zip(cells[0], row, strict=False)) for row in cells[1:]]
    if table and "KernelName" in cells[0]:
        return _kernels_of(table)
    rows = []
    for values in table:
        total = number_in(values.get("TotalDurationNs") or "")
        name = values.get("Name")
        if total is not None and name:
            calls = number_in(values.get("Calls") or "")
            is_host = name.startswith(("hip", "hsa_"))
            rows.append(_row(name, calls, total / NS_PER_MS, is_host=is_host))
    return rows


def _kernels_of(table: Sequence[dict[str, str]]) -> list[ProfilerRow]:
    spent: dict[str, float] = defaultdict(float)
    calls: dict[str, int] = defaultdict(int)
    for values in table:
        begin = number_in(values.get("BeginNs") or "")
        end = number_in(values.get("EndNs") or "")
        name = (values.get("KernelName") or "").removesuffix(".kd")
        if begin is not None and end is not None and end >= begin and name:
            spent[name] += end - begin
            calls[name] += 1
    return [_row(name, calls[name], ns / NS_PER_MS, is_host=False) for name, ns in spent.items()]
