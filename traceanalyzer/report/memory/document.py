"""The memory report as a document: the same sections in every form that people read."""

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from traceanalyzer.analysis.memory.measure import MemoryOfDevice
from traceanalyzer.analysis.memory.oom import Oom
from traceanalyzer.analysis.memory.phases import PHASES
from traceanalyzer.base import MEMORY, digits
from traceanalyzer.diagnosis.effort import usual_effort
from traceanalyzer.diagnosis.memory import MemoryFinding, MemoryRecommendation
from traceanalyzer.report.brief import first_screen, shown_path, what_to_change
from traceanalyzer.report.document import (
    Document,
    Drawing,
    Facts,
    Item,
    Items,
    Paragraph,
    Part,
    Section,
    Table,
    Verdict,
    part_of_report,
)
from traceanalyzer.report.format import figure
from traceanalyzer.report.memory.curves import drawn_curves
from traceanalyzer.report.memory.flame import drawn_flames
from traceanalyzer.report.memory.model import UNTRACED, MemoryReport, as_document
from traceanalyzer.report.outline.gains import in_full, saved_memory
from traceanalyzer.report.outline.step_facts import EXPLAINED
from traceanalyzer.report.printed import Printed

ZOOM = ("zoom.js",)
TOP_LINES = 12
TOP_PARTS = 4
NO_FINDING = "Nothing stands out at the peak."
NO_ADVICE = "Nothing that is known makes the peak lower."
NO_STACK = "a place without a stack"
NO_OPERATORS = (
    "unknown: the trace has no allocator events, and the snapshot's history is not of the same time. `collect torch "
    "--memory-snapshot` records both at once; `--memory` (profile_memory=True of torch.profiler) the events."
)


def memory_document(report: MemoryReport, full: bool = True) -> Printed:
    """The report in order of interest; unless it is full a terminal gets one screen of it."""
    told: list[Part | None] = [*report.notes, Facts.of(*_totals(report))]
    summary = Section("Summary", [Verdict(report.headline), *told])
    # Figures fill many screens of a page: its summary says what to change.
    advice = what_to_change(list(map(_change, report.recommendations)))
    with_advice = Section("Summary", [Verdict(report.headline), *advice, *told])
    metrics = part_of_report("Metrics", _figures(report))
    details = part_of_report("Details", _details(report))
    title = f"GPU memory: {report.headline}"
    following = [*metrics, _found(report), _advised(report), *details]
    return Printed(
        Document(title, [summary, *following]),
        as_document(report),
        screen=None if full else _screen(report),
        page=Document(title, [with_advice, *following], scripts=ZOOM),
    )


def _figures(report: MemoryReport) -> list[Section]:
    """What was measured, of each GPU: what is allocated at the peak, peaks of phases, the course."""
    sections = [
        section
        for device in report.memory
        for section in _peak_of_device(device, _on_device(report, device))
    ]
    return [
        *sections,
        Section("Memory at the peak by stack", [Drawing(partial(drawn_flames, report.memory))]),
        Section("Memory over time", [Drawing(partial(drawn_curves, report.memory))]),
    ]


def _on_device(report: MemoryReport, device: MemoryOfDevice) -> str:
    return f" on GPU {device.device}" if len(report.memory) > 1 else ""


def _details(report: MemoryReport) -> list[Section]:
    """Lines, growth, what is reserved, predicted peaks, operators, the other snapshot."""
    sections = [
        section
        for device in report.memory
        for section in _of_device(device, _on_device(report, device))
    ]
    if report.traced.operators:
        how = (
            "A step of the trace, by the operator that allocates: what is held sums to the "
            "peak at that time."
        )
        sections.append(
            Section("Operators by memory", [how, _rows(report.traced.operators[:TOP_LINES])])
        )
    elif report.traced != UNTRACED:
        sections.append(Section("Operators by memory", [NO_OPERATORS]))
    for pair in report.compared:
        text = (
            f"{_bytes(pair.other_peak_bytes)} at the peak of {report.other_path}: {_bytes(abs(pair.change_bytes))} "
            f"{'more' if pair.change_bytes >= 0 else 'less'} than the {_bytes(pair.peak_bytes)} here."
        )
        sections.append(
            Section(f"Compared on GPU {pair.device}", [text, _rows(pair.lines[:TOP_LINES])])
        )
    return sections


def _found(report: MemoryReport) -> Section:
    if not report.findings:
        return Section("Findings", [NO_FINDING])
    explained = Paragraph(EXPLAINED.format(report.findings[0].id), "dim")
    return Section("Findings", [Items(list(map(_finding, report.findings))), explained])


def _advised(report: MemoryReport) -> Section:
    """What to change, with what it assumes."""
    if not report.recommendations:
        return Section("Recommendations", [NO_ADVICE])
    return Section("Recommendations", [Items(list(map(_advice, report.recommendations)))])


def _screen(report: MemoryReport) -> Document:
    lines = [line for device in report.memory for line in _brief(device)]
    for pair in report.compared:
        sign = "+" if pair.change_bytes >= 0 else "-"
        change = f"{sign}{_bytes(abs(pair.change_bytes))}"
        lines.append(f"{report.other_path}: peak {_bytes(pair.other_peak_bytes)}, {change}")
        top = [
            f"{line.site} {_bytes(line.bytes)} → {_bytes(line.other_bytes)}"
            for line in pair.lines[:TOP_PARTS]
        ]
        lines += [f"  {', '.join(top)}"] if top else []
    path = shown_path(report.path, "SNAPSHOT")
    more = [f"analyze {path} --full"] + (
        [f"explain {report.findings[0].id}"] if report.findings else []
    )
    more += [f"analyze TRACE {path}"] if report.traced == UNTRACED else []
    advice = [_change(one) for one in report.recommendations]
    return first_screen(report.headline, lines, advice, report.notes, more)


def _brief(device: MemoryOfDevice) -> Iterator[str]:
    """A GPU in a few lines: why it ran out, what is allocated at the peak, and the peak of each
    phase."""
    if device.oom is not None:
        asked = f"Asked for at {device.oom.site}" if device.oom.site else "The request has no stack"
        yield f"{asked}; it fits with {_fits(device.oom)}."
    total = max(device.peak_bytes, 1)
    filled = [(size, name) for name, size in device.at_peak.items() if size]
    parts = sorted(filled, reverse=True)[:TOP_PARTS]
    shown = ", ".join(
        f"{name.replace('_', ' ')} {_bytes(size)} ({size / total:.0%})" for size, name in parts
    )
    yield f"At the peak of {_bytes(device.peak_bytes)}: {shown}."
    if device.phase_peaks:
        yield f"Peaks: {', '.join(map(' '.join, _peaks(device)))}."


def _peaks(device: MemoryOfDevice) -> list[tuple[str, str]]:
    in_order = sorted(device.phase_peaks.items(), key=lambda item: PHASES.index(item[0]))
    return [(name.replace("_", " "), _bytes(size)) for name, size in in_order]


def _change(advice: MemoryRecommendation) -> str:
    """A remedy with what it frees, and what it costs in time."""
    text = _saved(advice)
    if advice.predicted_step_ms is not None and advice.predicted_speedup:
        now = advice.predicted_step_ms * advice.predicted_speedup
        text += f", step {figure(now, 'ms')} → {figure(advice.predicted_step_ms, 'ms')}"
    return f"{text} [{advice.remedy}]  {advice.action}"


def _saved(advice: MemoryRecommendation) -> str:
    after = advice.predicted_reserved_bytes
    if after is None:
        after = advice.predicted_peak_bytes
    return saved_memory(advice, after + advice.saved_bytes)


def _rows(rows: Sequence[Any]) -> Part | None:
    return Table(rows, every_column_in="json") if rows else None


def _bytes(size: float) -> str:
    return figure(round(size), MEMORY)


def _totals(report: MemoryReport) -> Iterator[tuple[str, str]]:
    for device in report.memory:
        size = report.traced.capacity_bytes.get(device.device)
        of_size = f" of {_bytes(size)}" if size else ""
        yield f"GPU {device.device} peak allocated", f"{_bytes(device.peak_bytes)}{of_size}"
        yield f"GPU {device.device} most reserved", f"{_bytes(device.reserved_bytes)}{of_size}"
    yield "Snapshot", Path(report.path).name
    if report.traced.step_ms is not None:
        yield "Step of the trace", figure(report.traced.step_ms, "ms")


def _peak_of_device(device: MemoryOfDevice, on: str) -> Iterator[Section]:
    """What a GPU holds at its peak, and the peak of each phase."""
    if device.oom is not None:
        yield _oom(device.oom, on)
    total = max(device.peak_bytes, 1)
    parts = [
        (name.replace("_", " "), f"{_bytes(size)} ({figure(size / total, 'share')})")
        for name, size in sorted(device.at_peak.items(), key=lambda item: -item[1])
        if size
    ]
    how = "Categories are inferred from stacks, phases and sizes. They add up to the peak."
    yield Section(f"What is allocated at the peak{on}", [how, Facts.of(*parts)])
    if device.phase_peaks:
        sources = {"annotation": "annotations", "stacks": "stacks that come back"}
        found = (
            f"{len(device.steps):,} steps, found by "
            f"{sources.get(device.step_source, device.step_source)}."
        )
        found = found if device.steps else "No steps were found."
        yield Section(f"Peak of each phase{on}", [found, Facts.of(*_peaks(device))])


def _of_device(device: MemoryOfDevice, on: str) -> Iterator[Section]:
    yield Section(f"Lines at the peak{on}", [_rows(device.sites[:TOP_LINES])])
    yield _growth(device, on)
    yield _not_allocated(device, on)
    yield _larger_batch(device, on)
    if device.scenarios:
        yield Section(f"Predicted peaks{on}", [_rows(device.scenarios)])


def _not_allocated(device: MemoryOfDevice, on: str) -> Section:
    held = device.fragmentation
    facts = Facts.of(
        ("reserved", _bytes(held.reserved_bytes)),
        ("inactive", _bytes(held.inactive_bytes)),
        ("of it in empty segments", _bytes(held.releasable_bytes)),
        ("largest hole", _bytes(held.largest_free_block_bytes)),
        ("rounding inside allocations", _bytes(held.internal_bytes)),
        *(
            (("waiting for another stream", _bytes(held.pending_bytes)),)
            if held.pending_bytes
            else ()
        ),
    )
    when = "failure" if held.at == "oom" else "peak"
    return Section(f"Reserved and not allocated, at the {when}{on}", [facts, _rows(held.pins)])


def _larger_batch(device: MemoryOfDevice, on: str) -> Section:
    batch = device.larger_batch
    title = f"Room for a larger batch{on}"
    if batch.largest_times is None:
        return Section(title, [f"unknown: {batch.reason}."])
    text = (
        f"{batch.largest_times:g} times this batch would fit, with "
        f"{_bytes(batch.peak_bytes or 0)} at the peak."
    )
    if batch.sample_speedup is not None:
        text += (
            f" Samples would be {digits(batch.sample_speedup)}x as fast (priced for at most 8 "
            "times the batch)."
        )
    return Section(
        title, [text, Facts.of(("usable by tensors", figure(batch.usable_bytes, MEMORY)))]
    )


def _growth(device: MemoryOfDevice, on: str) -> Section:
    growth = device.growth
    if growth.bytes_per_step is None or growth.low is None or growth.high is None:
        return Section(f"Growth{on}", ["unknown: it takes five steps in the history."])
    each = f"{_bytes(growth.bytes_per_step)} a step ({_bytes(growth.low)} to {_bytes(growth.high)})"
    text = f"{growth.verdict}: {each} over {growth.steps:,} steps."
    return Section(f"Growth{on}", [text, _rows(growth.sites[:TOP_LINES])])


def _oom(oom: Oom, on: str) -> Section:
    limit = "under the limit that was set" if oom.is_limited else "on this GPU"
    site = oom.site or NO_STACK
    missing = f"{_bytes(oom.missing_bytes)} missing even without fragmentation."
    text = f"{_bytes(oom.requested_bytes)} asked for at {site}; {missing}"
    facts = Facts.of(
        ("allocated", _bytes(oom.allocated_bytes)),
        ("reserved", _bytes(oom.reserved_bytes)),
        ("largest hole", _bytes(oom.largest_free_block_bytes)),
        ("free outside", figure(oom.device_free_bytes, MEMORY)),
        ("usable", f"{_bytes(oom.usable_bytes)} {limit}"),
        ("would have fitted with", _fits(oom)),
    )
    return Section(
        f"Out of memory{on}: {oom.verdict.replace('_', ' ')}", [text, facts, _rows(oom.culprits)]
    )


def _fits(oom: Oom) -> str:
    """What would have made room."""
    needed = ("parameters", "gradients", "optimizer_state")  # what no training does without
    fits = ["expandable segments"] if oom.fits_with_expandable_segments else []
    if oom.fits_without_top_culprit and oom.culprits and oom.culprits[0].category not in needed:
        fits.append(f"no {oom.culprits[0].site or 'top culprit'}")
    if oom.fits_with_batch_share is not None and oom.fits_with_batch_share < 1:
        fits.append(f"{figure(oom.fits_with_batch_share, 'share')} of the batch")
    return ", ".join(fits) or "neither a smaller batch nor expandable segments"


def _finding(finding: MemoryFinding) -> Item:
    saved = f"up to {_bytes(finding.headroom_bytes)}" if finding.headroom_bytes else "bytes unknown"
    details = [
        f"{one.metric}: {figure(one.value, one.unit)}" + (f", {one.where}" if one.where else "")
        for one in finding.evidence
    ]
    title = f"{finding.title} ({finding.severity}, {finding.id}, {saved})"
    return Item(title, details=details)


def _advice(advice: MemoryRecommendation) -> Item:
    effort = usual_effort(advice.remedy, advice.action)
    lines = [(in_full(_saved(advice), effort, f"remedy: {advice.remedy}"), "green")]
    if advice.predicted_step_ms is not None:
        lines.append((f"The step would take {figure(advice.predicted_step_ms, 'ms')}.", ""))
    lines.append((f"Assumes: {advice.basis}", ""))
    return Item(advice.action, lines)
