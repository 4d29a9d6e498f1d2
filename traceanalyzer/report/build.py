"""Builds the report of a run: measures every rank, diagnoses the one the others wait for."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

from traceanalyzer.analysis.roofline.kernel_tables import other_version
from traceanalyzer.analysis.tables.budget import launches_by_step
from traceanalyzer.analysis.tables.gap_rows import gap_rows, largest_gaps
from traceanalyzer.diagnosis.diagnose import diagnose
from traceanalyzer.diagnosis.rules.conditions import profiler_note
from traceanalyzer.diagnosis.rules.ranks import straggler
from traceanalyzer.diagnosis.shares import missing_kernels
from traceanalyzer.report.model import Input, InputDevice, InputHealth, Metrics, Report, Tool
from traceanalyzer.selection import measured
from traceanalyzer.trace import Collected
from traceanalyzer.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traceanalyzer.analysis.measure import Measurements
    from traceanalyzer.analysis.ranks.compare import RankComparison
    from traceanalyzer.selection import Knowledge, Measured, Selection
    from traceanalyzer.trace import Run, Trace

TOP_ROWS = 30
"""Rows of the long tables (kernels, operators, gaps, ...) that go into a report; the commands give all."""

NOT_TIMED = "The step was not timed without the profiler, which slows the host: host-bound steps are faster without it."


NOTED_MISSING = 0.001
"""Share of launches without their kernels that is worth a note."""


def build_report(
    run: Run, selection: Selection | None = None, knowledge: Knowledge | None = None, top: int = TOP_ROWS
) -> Report:
    """The report of a run, or of the selected part of it.

    Figures of a step are the critical rank's; `top` is how many rows its long tables have. Raises
    EmptyRecordingError for a rank, device or step that the recording does not have.
    """
    return report_of(measured(run, selection, knowledge), top)


def report_of(of: Measured, top: int = TOP_ROWS) -> Report:
    """The report of a measured run."""
    run, ranks, critical = of.run, of.ranks, of.critical
    diagnosis = diagnose(critical, straggler(critical, ranks))
    return Report(
        tool=Tool("traceanalyzer", __version__),
        inputs=[_input(trace) for trace in (*run.traces, *run.logs)],
        summary=diagnosis.summary,
        metrics=_metrics(critical),
        devices=[row for m in of.each for row in m.devices],
        findings=diagnosis.findings,
        recommendations=diagnosis.recommendations,
        tables=_tables(critical, ranks, top),
        notes=[*_notes(run, critical), *ranks.notes],
        step_parts=critical.step_parts,
    )


def _input(trace: Trace) -> Input:
    health = trace.health
    return Input(
        path=trace.path,
        kind=trace.source,
        rank=trace.rank,
        devices=[InputDevice(d.id, d.name) for d in trace.devices],
        health=InputHealth(
            events=health.events,
            skipped=health.skipped,
            repaired=health.repaired,
            lost=health.lost,
            clipped=health.clipped,
            truncated=health.truncated,
            notes=list(health.notes),
        ),
        world_size=trace.process.world_size,
        collected=[f.name for f in fields(Collected) if getattr(trace.collected, f.name)],
    )


def _metrics(m: Measurements) -> Metrics:
    steps = m.steps
    on_device, on_host = m.device is not None, len(m.trace.api_calls) > 0
    idle_share = m.budget.idle / m.mean_step_ms if m.budget and m.mean_step_ms else None
    return Metrics(
        step_time_ms=m.step_time,
        step_source=steps.source,
        unprofiled_step_time_ms=m.unprofiled_step_ms or (m.replay.base_ms if m.replay else None),
        unprofiled_source="measured" if m.unprofiled_step_ms else "estimated" if m.replay else None,
        warmup_steps=steps.warmup,
        kernels_per_step=float((m.is_kernel & m.steady_ops).sum() / steps.steady_count) if on_device else None,
        launches_per_step=float(launches_by_step(m)[steps.steady].mean()) if on_host else None,
        gpu_busy_share=None if idle_share is None else 1.0 - idle_share,
        gpu_idle_share=idle_share,
        budget_ms=m.budget,
        idle_ms=m.idle,
        communication=m.communication,
        launches=m.launches,
        host=m.host,
        critical_path=m.path_time,
        unprofiled_critical_path=m.unprofiled_path_time,
        roofline=m.roofline_step,
        timing=m.timing,
    )


def _tables(m: Measurements, ranks: RankComparison, top: int) -> dict[str, list[Any]]:
    longest = gap_rows(m, m.gaps, largest_gaps(m.gaps, top))
    return {
        "ranks": list(ranks.rows) if len(ranks.rows) > 1 else [],
        "steps": m.step_rows if m.steps.found else [],
        "critical_path": m.path[:top],
        "phases": m.phases,
        "gaps": longest,
        "gap_histogram": m.gap_histogram,
        "syncs": m.syncs[:top],
        "kernel_classes": m.class_rows,
        "kernels": m.kernels[:top],
        "ops": m.ops[:top],
        "copies": m.copies,
        "collectives": m.collectives,
        "skew": list(ranks.collectives),
        "conditions": list(m.trace.conditions),
    }


def _roofline_notes(m: Measurements) -> list[str]:
    """Why there is no roofline, and how far measured kernels replace its estimates."""
    notes = []
    if m.device is not None and m.gpus[m.device] is None:
        name = next((d.name for d in m.trace.devices if d.id == m.device), None)
        notes.append(
            f"{name or 'The GPU (its name was not recorded)'} is not in the hardware table, or not as it was recorded: "
            "nothing is said about its limits (--hardware FILE adds a GPU)."
        )
    elif (counted_elsewhere := other_version(m.trace)) is not None and m.device is not None:
        notes.append(counted_elsewhere)
    if m.knowledge.counters:
        counted = m.roofline.counted & m.steady_ops
        share = counted.sum() / max((m.is_kernel & m.steady_ops).sum(), 1)
        notes.append(f"Nsight Compute's report has {share:.0%} of the kernels; the others' rooflines are estimates.")
    return notes


def _notes(run: Run, m: Measurements) -> list[str]:
    steps, collected = m.steps, m.trace.collected
    notes = [f"{failure.path} could not be read: {failure.message}" for failure in run.failures]
    if not steps.found:
        notes.append("No steps were found; every figure is for the whole recording.")
    if steps.warmup:
        notes.append(f"{steps.warmup} slow leading step(s) are left out as warm-up.")
    if steps.incomplete:
        notes.append(
            f"The recording is cut off: its last {steps.incomplete} step(s) miss device work and are left out."
        )
    if m.device is None:
        notes.append("The recording holds no GPU work: nothing is said about the GPU.")
    elif not collected.api:
        notes.append("API calls were not recorded: launches, waits and the causes of idle time cannot be told.")
    notes += _roofline_notes(m)
    if m.trace.source != "timing_log":
        notes += [profiler_note(m) or NOT_TIMED, *_replay_notes(m)]
    if missing_kernels(m) > NOTED_MISSING:
        notes.append(
            f"The kernels of {missing_kernels(m):.1%} of the launches are missing (lost, or cut off): "
            "idle time is overstated by them."
        )
    return notes


def _replay_notes(m: Measurements) -> Iterator[str]:
    """What predictions start from, where that is not the measured step without the profiler."""
    replay = m.replay
    if replay is None:
        return
    off = f"the replay of the unchanged recording is off by {replay.fidelity_error:+z.1%}"
    if not replay.faithful:
        yield f"No predictions are made from a replay: {off}."
    elif m.unprofiled_step_ms is None:
        yield (
            f"Replayed with the profiler's usual cost taken out a step takes about {replay.base_ms:.3g} ms; "
            f"predictions start from there ({off})."
        )
