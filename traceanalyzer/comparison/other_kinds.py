"""Two memory snapshots, or two logs of torch.compile: the figures of both, and what accounts for
their difference."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from traceanalyzer.analysis.memory.measure import MemoryOfDevice, measured_memory
from traceanalyzer.base import MEMORY, TraceAnalyzerError, dataclass, metric, signed_share
from traceanalyzer.comparison.outline import FigureRow
from traceanalyzer.diagnosis.memory import GROWTHS
from traceanalyzer.ingest.memory import read_snapshot
from traceanalyzer.ingest.stream import head_of
from traceanalyzer.ingest.torch_log import is_log, read_logs
from traceanalyzer.replay.compile.measure import measure_logs
from traceanalyzer.replay.compile.model import Compiled
from traceanalyzer.report.compile.figures import stats_of_logs
from traceanalyzer.report.document import Document, Section, Table, Verdict
from traceanalyzer.report.format import figure
from traceanalyzer.report.memory.model import line_changes
from traceanalyzer.report.printed import Printed, PrintedRows

PICKLES = (b"\x80", b"PK")  # how pickles, and torch.save's archives, begin
LEAST_SHARE = 0.01  # a peak that differs by less is the same
SHOWN = 15
COUNTED = {"graphs": "graphs", "graph_breaks": "graph breaks", "recompiles": "recompilations"}
PHASES = ("forward", "backward", "optimizer")


@dataclass(frozen=True)
class BreakChange:
    """Graph breaks of one reason at one line."""

    location: str = metric("line of the program")
    reason: str = metric("why")
    a: int = metric("breaks in A")
    b: int = metric("breaks in B")


def other_kind_of(reference: str) -> str | None:
    """`memory` of a memory snapshot, `compile` of a log of torch.compile or a folder of them; None
    of anything else.

    Raises UnreadableInputError where it cannot be opened."""
    path = Path(reference)
    if path.is_file() and head_of(path).startswith(PICKLES):
        return "memory"
    if path.is_file():
        return "compile" if is_log(path) else None
    files = list(filter(Path.is_file, path.iterdir())) if path.is_dir() else []
    are_logs = all(file.suffix in (".log", ".gz") and is_log(file) for file in files)
    return "compile" if files and are_logs else None


def compared_kinds(a: str, b: str) -> Printed | None:
    """The comparison of two snapshots or logs; None where neither is one. Raises
    UnreadableInputError, and TraceAnalyzerError where the two are of other kinds."""
    kinds = other_kind_of(a), other_kind_of(b)
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
    before = _largest_device(a)
    after = _largest_device(b)
    lines = line_changes(before.sites, after.sites)
    answer = _peak_sentence(before, after)
    if lines and _peak_share(before, after) is not None:
        sign = "+" if lines[0].change_bytes > 0 else ""
        more = f"{sign}{_bytes(lines[0].change_bytes)}"
        answer += f" Largest part: {lines[0].site} ({lines[0].category}), {more}."
    of_a = _figures(before)
    of_b = _figures(after)
    rows = [FigureRow.of(name, of_a[name], of_b[name], MEMORY) for name in of_a]
    return _printed(answer, rows, "GPU memory at the peak, by line", lines)


def _largest_device(name: str) -> MemoryOfDevice:
    """The memory of the GPU with the largest peak. Raises TraceAnalyzerError where there is
    none."""
    devices = measured_memory(read_snapshot(Path(name)))
    if not devices:
        raise TraceAnalyzerError(f"{name}: the snapshot holds no GPU memory")
    return max(devices, key=lambda device: device.peak_bytes)


def _peak_share(a: MemoryOfDevice, b: MemoryOfDevice) -> float | None:
    """Change of the peak, a share of A's; None where it is none."""
    share = b.peak_bytes / max(a.peak_bytes, 1) - 1.0
    return None if abs(share) < LEAST_SHARE else share


def _peak_sentence(a: MemoryOfDevice, b: MemoryOfDevice) -> str:
    word = "No change of the peak"
    if _peak_share(a, b) is not None:
        word = "More memory" if b.peak_bytes > a.peak_bytes else "Less memory"
    share = b.peak_bytes / max(a.peak_bytes, 1) - 1.0
    phase = f", in the {b.peak_phase}" if b.peak_phase in PHASES else ""
    peak = f"{word}: peak {_bytes(a.peak_bytes)} → {_bytes(b.peak_bytes)} ({signed_share(share)}){phase}."
    return f"{_growth_sentence(a, b)}{peak}"


def _growth_sentence(a: MemoryOfDevice, b: MemoryOfDevice) -> str:
    """That memory grows in one of the two alone, with a space behind it; else empty."""
    before, after = a.growth.verdict, b.growth.verdict
    if before in GROWTHS and after == "steady":
        return f"The {before} of {_bytes(a.growth.bytes_per_step or 0)} a step is gone. "
    if after in GROWTHS and before == "steady":
        return f"B has a {after} of {_bytes(b.growth.bytes_per_step or 0)} a step. "
    return ""


def _figures(device: MemoryOfDevice) -> dict[str, float | None]:
    """What a snapshot says of a GPU, bytes by name."""
    found: dict[str, float | None] = {"peak": device.peak_bytes, "reserved": device.reserved_bytes}
    found |= {f"peak in {name}": device.phase_peaks.get(name) for name in PHASES}
    found["growth per step"] = device.growth.bytes_per_step
    return found


def _compiled(a: str, b: str) -> Printed:
    logs = [read_logs(Path(name)) for name in (a, b)]
    before, after = map(stats_of_logs, logs)
    answer = f"Compilation {figure(before.compile_s, 's')} → {figure(after.compile_s, 's')}"
    for name, words in COUNTED.items():
        answer += f", {getattr(before, name)} → {getattr(after, name)} {words}"
    rows = [
        FigureRow.of(name, value, getattr(after, name), "s" if name == "compile_s" else "")
        for name, value in vars(before).items()
    ]
    changed = _break_changes(measure_logs(logs[0]), measure_logs(logs[1]))
    return _printed(f"{answer}.", rows, "Graph breaks that differ", changed)


def _break_changes(a: Compiled, b: Compiled) -> list[BreakChange]:
    """Places whose number of graph breaks differs, the largest difference first."""
    of_a = _break_counts(a)
    of_b = _break_counts(b)
    places = dict.fromkeys((*of_a, *of_b))
    changes = [
        BreakChange(location, reason, of_a[location, reason], of_b[location, reason])
        for location, reason in places
    ]
    differing = [change for change in changes if change.a != change.b]
    return sorted(differing, key=lambda change: -abs(change.b - change.a))


def _break_counts(measures: Compiled) -> Counter[tuple[str, str]]:
    """Breaks by location and reason."""
    counts: Counter[tuple[str, str]] = Counter()
    for row in measures.graph_breaks:
        counts[row.location, row.reason] += row.count
    return counts


def _printed(answer: str, figures: list[FigureRow], title: str, parts: Sequence[Any]) -> Printed:
    sections = [Section("Comparison", [Verdict(answer), "", Table(figures)], untitled=True)]
    if parts:
        sections.append(Section(title, [Table(parts[:SHOWN])]))
    values = {"headline": answer, "figures": figures, "parts": list(parts)}
    return Printed(Document(answer, sections), values, PrintedRows("figures", figures, FigureRow))


def _bytes(value: float) -> str:
    return figure(value, MEMORY)
