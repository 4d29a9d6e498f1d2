"""What `traceanalyzer memory` has to say, as one value."""

from collections.abc import Callable, Iterable
from dataclasses import field
from typing import Any

from traceanalyzer import __version__
from traceanalyzer.analysis.memory.measure import MemoryOfDevice, Site
from traceanalyzer.analysis.tables.op_memory import OpMemory
from traceanalyzer.base import MEMORY, SENTENCE, dataclass, metric
from traceanalyzer.diagnosis.memory import MemoryFinding, MemoryRecommendation

SCHEMA_VERSION = 2


@dataclass(frozen=True)
class LineChange:
    """A line of the program in two snapshots, each at its own peak."""

    site: str = metric("innermost line of the program on the stack of the allocations")
    category: str = metric("what it is of; inferred")
    bytes: int = metric("bytes at the peak of the snapshot", MEMORY)
    other_bytes: int = metric("bytes at the peak of the other snapshot", MEMORY)
    change_bytes: int = metric("the other one minus this one", MEMORY)


@dataclass(frozen=True)
class Compared:
    """Two snapshots of one GPU."""

    device: int
    peak_bytes: int
    other_peak_bytes: int
    change_bytes: int
    reserved_change_bytes: int
    lines: list[LineChange]


@dataclass(frozen=True)
class Traced:
    """What the trace adds that was recorded with a snapshot: of the critical rank's step."""

    step_ms: float | None = None
    forward_ms: float | None = None
    capacity_bytes: dict[int, int] = field(default_factory=dict)  # what each GPU has, by device
    operators: tuple[OpMemory, ...] = ()  # the ones that hold the most at its peak first
    # of a sample with so many times the batch
    sample_speedup: Callable[[float], float | None] | None = None


UNTRACED = Traced()


@dataclass(frozen=True)
class MemoryReport:
    """The report."""

    path: str
    memory: tuple[MemoryOfDevice, ...]
    findings: list[MemoryFinding]
    recommendations: list[MemoryRecommendation]
    notes: list[str] = field(metadata=SENTENCE)
    headline: str = field(metadata=SENTENCE)
    traced: Traced = UNTRACED
    other_path: str | None = None
    compared: tuple[Compared, ...] = ()


def as_document(report: MemoryReport) -> dict[str, Any]:
    """The report in the contract's names, in order of interest."""
    traced = report.traced
    document: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "tool": {"name": "traceanalyzer", "version": __version__},
        "inputs": [{"path": report.path, "kind": "memory_snapshot"}],
        "summary": {
            "headline": report.headline,
            "step_ms": traced.step_ms,
            "forward_ms": traced.forward_ms,
        },
        "memory": report.memory,
        "findings": report.findings,
        "recommendations": report.recommendations,
        "operators": traced.operators,
        "notes": report.notes,
    }
    if report.other_path is not None:
        document |= {"other": {"path": report.other_path}, "compared": report.compared}
    return document


def compared(
    own: tuple[MemoryOfDevice, ...], others: tuple[MemoryOfDevice, ...]
) -> tuple[Compared, ...]:
    """The GPUs that both snapshots have, by line, the largest change first."""
    by_device = {other.device: other for other in others}
    pairs = [(one, by_device[one.device]) for one in own if one.device in by_device]
    return tuple(
        Compared(
            one.device,
            one.peak_bytes,
            other.peak_bytes,
            other.peak_bytes - one.peak_bytes,
            other.reserved_bytes - one.reserved_bytes,
            line_changes(one.sites, other.sites),
        )
        for one, other in pairs
    )


def line_changes(sites: Iterable[Site], others: Iterable[Site]) -> list[LineChange]:
    """What differs between two peaks, a line of the program and category each, the largest change
    first."""
    totals: dict[tuple[str, str], list[int]] = {}
    for index, rows in enumerate((sites, others)):
        for site in rows:
            totals.setdefault((site.site, site.category), [0, 0])[index] += site.bytes
    changed = {key: sizes for key, sizes in totals.items() if sizes[0] != sizes[1]}
    lines = [LineChange(*place, a, b, b - a) for place, (a, b) in changed.items()]
    return sorted(lines, key=lambda line: -abs(line.change_bytes))
