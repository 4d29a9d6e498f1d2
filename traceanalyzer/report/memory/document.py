"""The memory report as sections of paragraphs, facts and tables: the same in every form that people read."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Any

from traceanalyzer.analysis.memory.phases import PHASES
from traceanalyzer.frozen import dataclass
from traceanalyzer.report.format import figure
from traceanalyzer.report.memory.model import UNTRACED
from traceanalyzer.report.outline import EXPLAINED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traceanalyzer.analysis.memory.measure import MemoryOfDevice
    from traceanalyzer.analysis.memory.oom import Oom
    from traceanalyzer.diagnosis.memory import MemoryFinding, MemoryRecommendation
    from traceanalyzer.report.memory.model import Compared, MemoryReport

TOP_LINES = 12
NO_OPERATORS = (
    "unknown: the trace has no allocator events, and the snapshot's history is not of the same time. `collect torch "
    "--memory-snapshot` records both at once; `--memory` (profile_memory=True of torch.profiler) the events."
)


@dataclass(frozen=True)
class Section:
    """A part of the report. `facts` are names with figures, `items` paragraphs with details below each."""

    title: str
    lines: tuple[str, ...] = ()
    facts: tuple[tuple[str, str], ...] = ()
    items: tuple[tuple[str, tuple[str, ...]], ...] = ()
    rows: tuple[Any, ...] = field(default=())
    """Rows of one dataclass whose fields are figures."""


def sections_of(report: MemoryReport) -> list[Section]:
    """The report in order of interest."""
    found = [Section("Summary", (report.headline, *report.notes), tuple(_summary(report)))]
    for device in report.memory:
        found += _of_device(device, len(report.memory) > 1)
    if report.traced.operators:
        how = "A step of the trace, by the operator that allocates: what is held sums to the peak at that time."
        found.append(Section("Operators by memory", (how,), rows=report.traced.operators[:TOP_LINES]))
    elif report.traced != UNTRACED:
        found.append(Section("Operators by memory", (NO_OPERATORS,)))
    if report.compared:
        found += [section for pair in report.compared for section in _compared(pair, report)]
    if report.findings:
        found.append(Section("Findings", items=tuple(_finding(f) for f in report.findings)))
    if report.recommendations:
        found.append(Section("Recommendations", items=tuple(_advice(a) for a in report.recommendations)))
    return found


def _summary(report: MemoryReport) -> Iterator[tuple[str, str]]:
    for device in report.memory:
        size = report.traced.capacity_bytes.get(device.device)
        of = f" of {figure(size, 'bytes')}" if size else ""
        yield f"GPU {device.device} peak allocated", f"{figure(device.peak_bytes, 'bytes')}{of}"
        yield f"GPU {device.device} most reserved", f"{figure(device.reserved_bytes, 'bytes')}{of}"
    yield "Snapshot", report.path
    if report.traced.step_ms is not None:
        yield "Step of the trace", figure(report.traced.step_ms, "ms")


def _of_device(device: MemoryOfDevice, several: bool) -> Iterator[Section]:
    on = f" on GPU {device.device}" if several else ""
    if device.oom is not None:
        yield _oom(device.oom, on)
    total = max(device.peak_bytes, 1)
    parts = tuple(
        (name.replace("_", " "), f"{figure(size, 'bytes')} ({figure(size / total, 'share')})")
        for name, size in sorted(device.at_peak.items(), key=lambda item: -item[1])
        if size
    )
    how = "Categories are inferred from stacks, phases and sizes. They add up to the peak."
    yield Section(f"What is allocated at the peak{on}", (how,), parts)
    yield Section(f"Lines at the peak{on}", rows=device.sites[:TOP_LINES])
    if device.phase_peaks:
        peaks = tuple((name.replace("_", " "), figure(size, "bytes")) for name, size in _in_order(device.phase_peaks))
        yield Section(f"Peak of each phase{on}", (_steps_found(device),), peaks)
    yield _growth(device, on)
    held = device.fragmentation
    yield Section(
        f"Reserved and not allocated, at the {'failure' if held.at == 'oom' else 'peak'}{on}",
        facts=(
            ("reserved", figure(held.reserved_bytes, "bytes")),
            ("inactive", figure(held.inactive_bytes, "bytes")),
            ("of it in empty segments", figure(held.releasable_bytes, "bytes")),
            ("largest hole", figure(held.largest_free_block_bytes, "bytes")),
            ("rounding inside allocations", figure(held.internal_bytes, "bytes")),
            *((("waiting for another stream", figure(held.pending_bytes, "bytes")),) if held.pending_bytes else ()),
        ),
        rows=held.pins,
    )
    yield _larger_batch(device, on)
    if device.scenarios:
        yield Section(f"Predicted peaks{on}", rows=device.scenarios)


def _in_order(phase_peaks: dict[str, int]) -> list[tuple[str, int]]:
    """As a step has its phases."""
    return sorted(phase_peaks.items(), key=lambda item: PHASES.index(item[0]))


def _larger_batch(device: MemoryOfDevice, on: str) -> Section:
    batch = device.larger_batch
    if batch.largest_times is None:
        return Section(f"Room for a larger batch{on}", (f"unknown: {batch.reason}.",))
    text = f"{batch.largest_times:g} times this batch would fit, with {figure(batch.peak_bytes, 'bytes')} at the peak."
    if batch.sample_speedup is not None:
        text += f" Samples would be {batch.sample_speedup:.3g}x as fast (priced for at most 8 times the batch)."
    return Section(
        f"Room for a larger batch{on}", (text,), (("usable by tensors", figure(batch.usable_bytes, "bytes")),)
    )


def _steps_found(device: MemoryOfDevice) -> str:
    if not device.steps:
        return "No steps were found."
    sources = {"annotation": "annotations", "stacks": "stacks that come back"}
    return f"{len(device.steps):,} steps, found by {sources.get(device.step_source, device.step_source)}."


def _growth(device: MemoryOfDevice, on: str) -> Section:
    growth = device.growth
    if growth.bytes_per_step is None or growth.low is None or growth.high is None:
        return Section(f"Growth{on}", ("unknown: it takes five steps in the history.",))
    text = (
        f"{growth.verdict}: {figure(round(growth.bytes_per_step), 'bytes')} a step "
        f"({figure(round(growth.low), 'bytes')} to {figure(round(growth.high), 'bytes')}) over {growth.steps:,} steps."
    )
    return Section(f"Growth{on}", (text,), rows=growth.sites[:TOP_LINES])


def _oom(oom: Oom, on: str) -> Section:
    limit = "under the limit that was set" if oom.is_limited else "on this GPU"
    fits = ["expandable segments"] if oom.fits_with_expandable_segments else []
    if oom.fits_without_top_culprit and oom.culprits:
        fits.append(f"no {oom.culprits[0].site or 'top culprit'}")
    if oom.fits_with_batch_share is not None and oom.fits_with_batch_share < 1:
        fits.append(f"{figure(oom.fits_with_batch_share, 'share')} of the batch")
    return Section(
        f"Out of memory{on}: {oom.verdict.replace('_', ' ')}",
        (
            f"{figure(oom.requested_bytes, 'bytes')} asked for at {oom.site or 'a place without a stack'}; "
            f"{figure(oom.missing_bytes, 'bytes')} missing even without fragmentation.",
        ),
        (
            ("allocated", figure(oom.allocated_bytes, "bytes")),
            ("reserved", figure(oom.reserved_bytes, "bytes")),
            ("largest hole", figure(oom.largest_free_block_bytes, "bytes")),
            ("free outside", figure(oom.device_free_bytes, "bytes")),
            ("usable", f"{figure(oom.usable_bytes, 'bytes')} {limit}"),
            ("would have fitted with", ", ".join(fits) or "none of the remedies alone"),
        ),
        rows=oom.culprits,
    )


def _compared(pair: Compared, report: MemoryReport) -> Iterator[Section]:
    sign = "more" if pair.change_bytes >= 0 else "less"
    text = (
        f"{figure(pair.other_peak_bytes, 'bytes')} at the peak of {report.other_path}: "
        f"{figure(abs(pair.change_bytes), 'bytes')} {sign} than the {figure(pair.peak_bytes, 'bytes')} here."
    )
    yield Section(f"Compared on GPU {pair.device}", (text,), rows=tuple(pair.lines[:TOP_LINES]))


def _finding(finding: MemoryFinding) -> tuple[str, tuple[str, ...]]:
    saved = f"up to {figure(finding.headroom_bytes, 'bytes')}" if finding.headroom_bytes else "bytes unknown"
    evidence = tuple(
        f"{item.metric}: {figure(item.value, item.unit)}" + (f", {item.where}" if item.where else "")
        for item in finding.evidence
    )
    return (
        f"{finding.title} ({finding.severity}, {finding.id}, {saved})",
        (*evidence, EXPLAINED.format(finding.id)),
    )


def _advice(advice: MemoryRecommendation) -> tuple[str, tuple[str, ...]]:
    before = advice.predicted_peak_bytes + advice.saved_bytes
    what = f"{figure(before, 'bytes')} → {figure(advice.predicted_peak_bytes, 'bytes')} at the peak"
    if advice.predicted_reserved_bytes is not None:
        after = advice.predicted_reserved_bytes
        what = f"{figure(after + advice.saved_bytes, 'bytes')} → {figure(after, 'bytes')} reserved"
    details = [f"Basis: {advice.basis}."]
    if advice.predicted_step_ms is not None:
        details.append(f"The step would take {figure(advice.predicted_step_ms, 'ms')}.")
    return f"{advice.action}: {what}", tuple(details)
