"""Nsight Compute reports: what `ncu --csv` prints, as the pages `raw` (a row a kernel) or `details`
(a row a metric).

An `.ncu-rep` is read by NVIDIA's Python module `ncu_report` where that is installed, else exported
with `ncu`. Names and units of metrics are
those of the Nsight Compute documentation ("Profiling Guide", metrics decoder; `--csv`, `--page`,
`--print-units`)."""

import csv
import math
import re
import shutil
import subprocess
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from importlib.util import find_spec
from itertools import dropwhile
from operator import itemgetter
from pathlib import Path
from typing import Any

import msgspec

from traceanalyzer.base import UnreadableInputError, regex
from traceanalyzer.base.files import note_read
from traceanalyzer.base.limits import MIB, limits
from traceanalyzer.ingest.side_files import number_in
from traceanalyzer.ingest.stream import open_stream
from traceanalyzer.trace.circumstances import KernelCounters

EXPORT_SECONDS = 600  # reports of a few thousand kernels are exported in seconds
ROUNDED = 1.02
"""Reasons that add up to more than this much of their sum were measured in other runs of the kernel
than it."""
Metrics = dict[str, float]
_NAME = "Kernel Name"
_METRIC = ("Metric Name", "Metric Unit", "Metric Value")
REPORT_SUFFIX = ".ncu-rep"  # of binary reports
_HEAD = regex(r'^\s*+"ID".*"Kernel Name"')
_TABLE: dict[str, dict[str, Any]] = tomllib.loads(
    Path(__file__).with_name("ncu.toml").read_text(encoding="utf-8")
)
_NAMES, _REASONS, _SCALES = (_TABLE[name] for name in ("metrics", "reasons", "scales"))
_TENSOR = regex(r"^sm__(?:pipe|inst_executed_pipe)_tensor.*pct_of_peak")
"""Activity of the tensor pipes, which each generation of GPUs names and divides in its own way."""
_STALL = regex(r"^smsp__average_warps?_issue_stalled_(\w+?)_per_issue_active\.ratio$")
"""Warps that wait for one reason, for each instruction that is issued."""
_WARPS = "smsp__average_warp_latency_per_inst_issued.ratio"
"""Warps that wait for any reason, for each instruction that is issued; being issued is one."""
_ISSUED = "selected"  # one warp of those that are counted an instruction: it issues it
_KNOWN = {name for names in _NAMES.values() for name in names}


def read_counters(path: Path) -> list[KernelCounters]:
    """The kernels of a report. Raises UnreadableInputError where it is none, or holds no kernel."""
    try:
        note_read(path)
        if path.suffix == REPORT_SUFFIX and find_spec("ncu_report") is not None:
            found = _reported(path)
        elif path.suffix == REPORT_SUFFIX:
            found = _kernels(_exported(path))
        else:
            found = _kernels(_lines_of(path))
        kernels = [_counters(head, metrics) for head, metrics in found]
    except (OSError, csv.Error) as error:
        raise UnreadableInputError(f"{path}: cannot be read: {error}") from error
    if not kernels:
        raise UnreadableInputError(
            f"{path}: holds no kernels; write it with: ncu --csv --page raw --import "
            "report.ncu-rep > report.csv"
        )
    return kernels


def can_read_reports() -> bool:
    """Whether NVIDIA's Python module or ncu is installed, which read an `.ncu-rep`."""
    return find_spec("ncu_report") is not None or shutil.which("ncu") is not None


def _lines_of(path: Path) -> list[str]:
    data = bytearray()
    most = limits().report
    with open_stream(path) as stream:
        for piece in stream:
            data += piece
            if len(data) > most:
                raise UnreadableInputError(
                    f"{path}: larger than {most // MIB} MiB; raise --limit report=BYTES"
                )
    return data.decode("utf-8-sig", "replace").splitlines()


def _exported(path: Path) -> list[str]:
    tool = shutil.which("ncu")
    if tool is None:
        raise UnreadableInputError(
            f"{path}: reading an .ncu-rep needs Nsight Compute (ncu) or its Python module (ncu-report), which are "
            "not installed here; export it where ncu is: ncu --csv --page raw --import report.ncu-rep > report.csv"
        )
    command = [tool, "--csv", "--page", "raw", "--import", str(path)]
    try:
        done = subprocess.run(  # noqa: S603
            command, capture_output=True, text=True, timeout=EXPORT_SECONDS, check=True
        )
    except subprocess.SubprocessError as error:
        raise UnreadableInputError(f"{path}: ncu could not export it: {error}") from error
    return done.stdout.splitlines()


def _reported(path: Path) -> Iterator[tuple[dict[str, str], Metrics]]:
    """Columns and metrics of each kernel, by NVIDIA's Python module. Raises
    UnreadableInputError."""
    command = [sys.executable, "-m", "traceanalyzer.ingest.ncu.report", str(path.resolve())]
    try:
        done = subprocess.run(  # noqa: S603
            command, capture_output=True, text=True, timeout=EXPORT_SECONDS, check=True
        )
        for kernel in map(msgspec.json.Decoder(_Reported).decode, done.stdout.splitlines()):
            columns = {_NAME: kernel.name, "Grid Size": kernel.grid, "Block Size": kernel.block}
            values = ((name, unit, str(value)) for name, unit, value in kernel.metrics)
            yield columns, _metrics(values)
    except (subprocess.SubprocessError, msgspec.DecodeError) as error:
        raise UnreadableInputError(f"{path}: ncu_report could not read it: {error}") from error


class _Reported(msgspec.Struct):
    """A kernel as `ncu_report` prints it."""

    name: str
    grid: str
    block: str
    metrics: list[tuple[str, str, float]]


def _kernels(lines: list[str]) -> Iterator[tuple[dict[str, str], Metrics]]:
    """Columns and metrics of each kernel. What a program printed before the table is passed
    over."""
    table = dropwhile(lambda line: not _HEAD.match(line), lines)
    rows = csv.reader(line for line in table if not line.startswith("=="))
    header = next(rows, [])
    if not {"ID", _NAME} <= set(header):
        return
    is_details = set(_METRIC) <= set(header)
    units = [] if is_details else next(rows, [])
    found: dict[str, list[dict[str, str]]] = defaultdict(list)
    shortest = _shortest(header)
    complete = (row for row in rows if shortest <= len(row) <= len(header))
    for columns in (dict(zip(header, row, strict=False)) for row in complete):
        if is_details:  # rows of one kernel share its ID
            found[columns["ID"]].append(columns)
        else:
            yield (
                columns,
                _metrics(zip(header, units, map(columns.__getitem__, header), strict=False)),
            )
    for metrics in found.values():
        yield metrics[0], _metrics(map(itemgetter(*_METRIC), metrics))


def _shortest(header: list[str]) -> int:
    """How long a row is at least: those of `details` that hold a metric end before the columns of
    rules, with an empty one."""
    value = _METRIC[-1]
    return min(header.index(value) + 2, len(header)) if value in header else len(header)


def _metrics(values: Iterator[tuple[str, str, str]]) -> Metrics:
    """The metrics that are of use, in %, ns and bytes. A rate under a name that also is a share is
    left out."""
    result: Metrics = {}
    for name, unit, text in values:
        key = name.lower()
        scale = _SCALES.get(unit.lower())
        if key == _WARPS or _STALL.match(key):
            scale = 1.0
        elif key not in _KNOWN and not _TENSOR.match(key):
            continue
        if scale is None or key in result:
            continue
        number = number_in(text)
        if number is not None:
            result[key] = number * scale
    return result


def _counters(columns: dict[str, str], metrics: Metrics) -> KernelCounters:
    values = {
        what: next((metrics[n] for n in names if n in metrics), None)
        for what, names in _NAMES.items()
    }
    tensor = max((value for name, value in metrics.items() if _TENSOR.match(name)), default=None)
    read = values["dram_read"]
    written = values["dram_written"]
    both = read + written if read is not None and written is not None else None
    return KernelCounters(
        name=columns[_NAME][: limits().text],
        duration_ns=values["duration"],
        blocks=_product(columns.get("Grid Size", "")),
        threads=_product(columns.get("Block Size", "")),
        dram_bytes=values["dram"] if values["dram"] is not None else both,
        compute_share=_share(values["compute"]),
        memory_share=_share(values["memory"]),
        dram_share=_share(values["dram_share"]),
        tensor_share=_share(tensor),
        occupancy_share=_share(values["occupancy"]),
        stalls=_stalls(metrics),
    )


def _stalls(metrics: Metrics) -> tuple[tuple[str, float], ...]:
    """Shares of what warps wait for, most first; empty without the sum that they are shares of, and
    where a reason that was not measured may be the largest."""
    warps = metrics.get(_WARPS, 0.0)
    named = ((_STALL.match(name), value) for name, value in metrics.items())
    found = {match[1]: value for match, value in named if match is not None}
    found.setdefault(_ISSUED, 1.0)
    measured = sum(found.values())
    if warps <= 0 or measured > warps * ROUNDED:
        return ()
    most = max((value for reason, value in found.items() if reason != _ISSUED), default=0.0)
    if warps - measured > most:
        return ()
    waiting = [
        (value / warps, reason)
        for reason, value in found.items()
        if value > 0 and reason != _ISSUED
    ]
    waiting.sort(reverse=True)
    return tuple((_REASONS.get(name, name.replace("_", " ")), share) for share, name in waiting)


def _share(percent: float | None) -> float | None:
    return None if percent is None else percent / 100


def _product(text: str) -> int:
    """Size of a grid or block written as `(320, 1, 1)`, -1 where it is not."""
    numbers = [int(n) for n in re.findall(r"\d+", text)] if len(text) <= limits().digits else []
    size = math.prod(numbers)
    return size if numbers and size <= 2**62 else -1
