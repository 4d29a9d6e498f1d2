"""Two memory snapshots, or two logs of torch.compile: the figures of both, and what accounts for
their difference."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from traceanalyzer.analysis.memory.measure import measured
from traceanalyzer.base import MEMORY, TraceAnalyzerError, dataclass, metric
from traceanalyzer.comparison.outline import FigureRow
from traceanalyzer.ingest.memory import read_snapshot
from traceanalyzer.ingest.stream import head_of
from traceanalyzer.ingest.torch_log import is_log, read_logs
from traceanalyzer.replay.compile.measure import measure_logs
from traceanalyzer.report.compile.figures import stats_of_logs
from traceanalyzer.report.document import Document, Section, Table, Verdict
from traceanalyzer.report.format import figure
from traceanalyzer.report.memory.model import line_changes
from traceanalyzer.report.printed import Printed, Rows

PICKLES = (b"\x80", b"PK")  # how pickles, and torch.save's archives, begin
LEAST_SHARE = 0.01  # a peak that differs by less is the same
SHOWN = 15
PHASES = ("forward", "backward", "optimizer")


@dataclass(frozen=True)
class BreakChange:
    """Graph breaks of one reason at one line."""

    location: str = metric("line of the program")
    reason: str = metric("why")
    a: int = metric("breaks in A")
    b: int = metric("breaks in B")


def kind_of(reference: str) -> str | None:
    """`memory` of a memory snapshot, `compile` of a log of torch.compile or a folder of them; None
    of anything else.

    Raises UnreadableInputError where it cannot be opened."""
    path = Path(reference)
    if path.is_file() and head_of(path).startswith(PICKLES):
        return "memory"
    if path.is_file():
        return "compile" if is_log(path) else None
    files = list(filter(Path.is_file, path.iterdir())) if path.is_dir() else []
    return (
        "compile"
        if files and all(file.suffix in (".log", ".gz") and is_log(file) for file in files)
        else None
    )


def compared_kinds(a: str, b: str) -> Printed | None:
    """The comparison of two snapshots or logs; None where neither is one. Raises
    UnreadableInputError, and TraceAnalyzerError where the two are of other kinds."""
    kinds = kind_of(a), kind_of(b)
    if kinds == (None, None):
        return None
    if kinds[0] != kinds[1]:
        names = {
            None: "a recording",
            "memory": "a memory snapshot",
            "compile": "a log of torch.compile",
        }
        raise TraceAnalyzerError(
            f"{a} is {names[kinds[0]]}, {b} is {names[kinds[1]]}: compare two of one kind"
        )
    return _memory(a, b) if kinds[0] == "memory" else _compiled(a, b)


def _memory(a: str, b: str) -> Printed:
    sides = []
    for name in (a, b):
        devices = measured(read_snapshot(Path(name)))
        if not devices:
            raise TraceAnalyzerError(f"{name}: the snapshot holds no GPU memory")
        sides.append(max(devices, key=lambda device: device.peak_bytes))
    before, after = sides
    change = after.peak_bytes - before.peak_bytes
    share = after.peak_bytes / max(before.peak_bytes, 1) - 1.0
    lines = line_changes(before.sites, after.sites)
    word = (
        "No change of the peak"
        if abs(share) < LEAST_SHARE
        else ("Less memory", "More memory")[change > 0]
    )
    phase = f", in the {after.peak_phase}" if after.peak_phase in PHASES else ""
    answer = (
        f"{word}: peak {_bytes(before.peak_bytes)} → {_bytes(after.peak_bytes)} "
        f"({share:+.1%}){phase}."
    )
    if lines and abs(share) >= LEAST_SHARE:
        more = "+" * (lines[0].change_bytes > 0) + _bytes(lines[0].change_bytes)
        answer += f" Largest part: {lines[0].site} ({lines[0].category}), {more}."
    named = ["peak", "reserved", *(f"peak in {name}" for name in PHASES), "growth per step"]
    x, y = (
        [
            of.peak_bytes,
            of.reserved_bytes,
            *map(of.phase_peaks.get, PHASES),
            of.growth.bytes_per_step,
        ]
        for of in (before, after)
    )
    rows = [FigureRow.of(*row, MEMORY) for row in zip(named, x, y, strict=True)]
    return _printed(answer, rows, "GPU memory at the peak, by line", lines)


def _compiled(a: str, b: str) -> Printed:
    logs = [read_logs(Path(name)) for name in (a, b)]
    before, after = map(stats_of_logs, logs)
    answer = f"Compilation {figure(before.compile_s, 's')} → {figure(after.compile_s, 's')}"
    for name, words in (
        ("graphs", "graphs"),
        ("graph_breaks", "graph breaks"),
        ("recompiles", "recompilations"),
    ):
        answer += f", {getattr(before, name)} → {getattr(after, name)} {words}"
    units = {"compile_s": "s"}
    rows = [
        FigureRow.of(name, x, getattr(after, name), units.get(name, ""))
        for name, x in vars(before).items()
    ]
    counts: dict[tuple[str, str], list[int]] = {}
    for side, of in enumerate(map(measure_logs, logs)):
        for row in of.graph_breaks:
            counts.setdefault((row.location, row.reason), [0, 0])[side] += row.count
    changed = [BreakChange(*key, *both) for key, both in counts.items() if both[0] != both[1]]
    changed.sort(key=lambda row: -abs(row.b - row.a))
    return _printed(f"{answer}.", rows, "Graph breaks that differ", changed)


def _printed(answer: str, figures: list[FigureRow], title: str, parts: Sequence[Any]) -> Printed:
    sections = [Section("Comparison", [Verdict(answer), "", Table(figures)], untitled=True)]
    if parts:
        sections.append(Section(title, [Table(parts[:SHOWN])]))
    values = {"headline": answer, "figures": figures, "parts": list(parts)}
    return Printed(Document(answer, sections), values, Rows("figures", figures, FigureRow))


def _bytes(value: float) -> str:
    return figure(value, MEMORY)
