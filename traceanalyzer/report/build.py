"""Builds the report of a run: measures every rank, diagnoses the one the others wait for."""

from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from pathlib import PurePath

import numpy as np

from traceanalyzer.analysis.joined.knowledge import Knowledge
from traceanalyzer.analysis.roofline.kernel_tables import other_version
from traceanalyzer.analysis.serving.cut import find_iterations
from traceanalyzer.analysis.tables.budget import launches_by_step
from traceanalyzer.analysis.tables.logged_steps import log_rows
from traceanalyzer.analysis.tables.timing import contradicted
from traceanalyzer.base import NS_PER_MS, MinorNote, digits, plural
from traceanalyzer.diagnosis.diagnose import diagnose
from traceanalyzer.diagnosis.effort import with_efforts
from traceanalyzer.diagnosis.finding import Diagnosis, Evidence, Finding, Recommendation
from traceanalyzer.diagnosis.measurements import Measurements
from traceanalyzer.diagnosis.part_of_run import Selection
from traceanalyzer.diagnosis.rank_costs import rank_costs
from traceanalyzer.diagnosis.remedies.advice import looked_at
from traceanalyzer.diagnosis.rules.evidence import profiler_note
from traceanalyzer.diagnosis.rules.host_alone import is_cpu_alone
from traceanalyzer.diagnosis.rules.recording import recording_notes
from traceanalyzer.diagnosis.rules.timing import profiled_notes
from traceanalyzer.diagnosis.selection import MeasuredRanks, measured
from traceanalyzer.diagnosis.serving.load import engine_notes, summary_notes
from traceanalyzer.diagnosis.shares import copied_within_gpu_ms, missing_kernels
from traceanalyzer.ingest.unprofiled import contradiction
from traceanalyzer.report.figures.names import with_parts
from traceanalyzer.report.figures.step_times import ITERATION_OF
from traceanalyzer.report.in_parallel import in_halves
from traceanalyzer.report.model import (
    TOP_ROWS,
    Input,
    InputDevice,
    InputHealth,
    Metrics,
    Report,
    Tool,
)
from traceanalyzer.report.parts.vendors import in_words_for, vendor_of
from traceanalyzer.report.table_entries.rows import ranks_by_worth
from traceanalyzer.report.tables import PATH, RANKS, in_lists, in_order, report_tables
from traceanalyzer.trace import Collected, Device, Failure, Run, Trace
from traceanalyzer.trace.hardware import GIGA, Hardware
from traceanalyzer.version import __version__

SHOWN_PHASES = 5  # of those that a log times, in a sentence

NAMED_FAILURES = 8  # files that could not be read, named one by one
NOTED_MISSING = 0.001  # share of launches without their kernels that is worth a note
MUCH_SLOWER = 3.0  # times: a profiler alone seldom makes a step on a CPU so much longer


def build_report(
    run: Run,
    selection: Selection | None = None,
    knowledge: Knowledge | None = None,
    top: int = TOP_ROWS,
) -> Report:
    """The report of a run, or of the selected part of it. Figures of a step are the critical
    rank's; its long tables have `top` rows. Raises EmptyRecordingError for a rank, device or step
    that the recording does not have."""
    report = report_of(measured(run, selection, knowledge), top)
    return replace(report, tables=in_lists(report.tables))


def report_of(measured_run: MeasuredRanks, top: int = TOP_ROWS) -> Report:
    """The report of a measured run."""
    m = measured_run.critical
    (found, path_time, path), (metrics, tables) = in_halves(
        m,
        lambda: (diagnose(m), m.path_time, list(m.path[:top])),
        lambda: (_metrics(m), report_tables(measured_run, top, without=(PATH, RANKS))),
    )
    ranks = ranks_by_worth(measured_run, rank_costs(m, found))
    of_memory, for_memory = _on_memory(m)
    if any(one.remedy == "preallocate" for one in found.recommendations):
        # Of what grows it is the same advice, with its gain.
        for_memory = [one for one in for_memory if one.remedy != "avoid_allocations"]
    notes = sorted(
        [*_notes(measured_run.run, m), *measured_run.ranks.notes],
        key=lambda note: isinstance(note, MinorNote),
    )
    report = Report(
        tool=Tool("traceanalyzer", __version__),
        inputs=[_input(trace) for trace in (*measured_run.run.traces, *measured_run.run.logs)],
        summary=with_parts(found.summary, metrics),
        metrics=replace(metrics, critical_path=path_time),
        devices=[row for one in measured_run.each for row in one.devices],
        findings=[*found.findings, *of_memory],
        recommendations=with_efforts([*found.recommendations, *for_memory]),
        tables=in_order({**tables, PATH: path, RANKS: ranks}),
        notes=list(map(str, notes)),
        pressing_notes=sum(not isinstance(note, MinorNote) for note in notes),
        step_parts=m.step_parts,
        host_parts=m.host_parts,
    )
    return _for_vendor(report, report.inputs[0].vendor if report.inputs else None)


def report_without_tables(measured_run: MeasuredRanks, found: Diagnosis) -> Report:
    """The answer of a report alone: summary, metrics, findings and advice of a run whose diagnosis
    is known."""
    m = measured_run.critical
    metrics = _metrics(m)
    report = Report(
        tool=Tool("traceanalyzer", __version__),
        inputs=[_input(trace) for trace in measured_run.run.traces],
        summary=with_parts(found.summary, metrics),
        metrics=metrics,
        devices=[],
        findings=list(found.findings),
        recommendations=with_efforts(found.recommendations),
    )
    return _for_vendor(report, report.inputs[0].vendor if report.inputs else None)


def _for_vendor(report: Report, vendor: str | None) -> Report:
    """The report in words for the maker of its GPUs. Names that were recorded stay as they are."""
    if vendor in (None, "nvidia"):
        return report

    def told(text: str) -> str:
        return in_words_for(vendor, text)

    def next_step(evidence: Evidence) -> Evidence:
        is_advice = evidence.metric == "next step" and isinstance(evidence.value, str)
        return replace(evidence, value=told(str(evidence.value))) if is_advice else evidence

    return replace(
        report,
        summary=replace(report.summary, headline=told(report.summary.headline)),
        findings=[
            replace(one, title=told(one.title), evidence=list(map(next_step, one.evidence)))
            for one in report.findings
        ],
        recommendations=[
            replace(one, action=told(one.action), basis=told(one.basis))
            for one in report.recommendations
        ],
        notes=list(map(told, report.notes)),
    )


def _on_memory(m: Measurements) -> tuple[list[Finding], list[Recommendation]]:
    traced = None if m.memory_of_devices else m.traced_memory
    if not m.memory_of_devices and traced is None:
        return [], []
    from traceanalyzer.diagnosis.memory import in_a_report, of_a_trace

    if traced is None:
        return in_a_report(m.memory_of_devices)
    return of_a_trace(
        traced, next((d.memory_bytes for d in m.trace.devices if d.id == m.timed.device), None)
    )


def _input(trace: Trace) -> Input:
    health = trace.health
    return Input(
        path=trace.path,
        kind=trace.source,
        rank=trace.rank,
        world_size=trace.process.world_size,
        devices=[InputDevice(d.id, d.name) for d in trace.devices],
        health=InputHealth(
            health.events,
            health.skipped,
            health.repaired,
            health.lost,
            health.clipped,
            health.truncated,
            list(health.notes),
        ),
        collected=[f.name for f in fields(Collected) if getattr(trace.collected, f.name)],
        vendor=vendor_of(trace),
        program=PurePath(trace.process.name).name or None,
    )


def _step_unit(m: Measurements) -> str | None:
    """What ends a step, as the capture or the marks of a server say; None where they do not."""
    if m.timed.steps.found and m.timed.steps.unlike:
        found = m.timed.memo(find_iterations)
        engine = found.framework if found is not None else None
        return f"{ITERATION_OF}{engine or 'a server'}"
    stopwatch = m.trace.stopwatch
    light = m.trace.light
    return (stopwatch and stopwatch.unit) or (light and light.unit) or None


def _metrics(m: Measurements) -> Metrics:
    steps = m.timed.steps
    kernels = m.linked.is_kernel & m.timed.steady_ops
    idle_share = m.budget.idle / m.mean_step_ms if m.budget and m.mean_step_ms else None
    is_known = m.step.basis == "unprofiled"
    how = "estimated" if m.timed_step is None else "measured"
    return Metrics(
        step_time_ms=m.step_time,
        step_source=steps.source,
        warmup_steps=steps.warmup,
        unprofiled=m.unprofiled,
        unprofiled_step_time_ms=m.step.step_ms if is_known else None,
        unprofiled_source=how if is_known else None,
        unsteady_step_time_ms=m.unsteady_step_ms,
        step_unit=_step_unit(m),
        kernels_per_step=None
        if m.timed.device is None
        else float(kernels.sum() / steps.steady_count),
        launches_per_step=float(launches_by_step(m.timed)[steps.steady].mean())
        if len(m.trace.api_calls)
        else None,
        concurrent_kernel_share=m.concurrent_kernel_share,
        budget_ms=m.budget,
        idle_ms=m.idle,
        gpu_busy_share=None if idle_share is None else 1.0 - idle_share,
        gpu_idle_share=idle_share,
        copied_within_gpu_ms=None
        if m.budget is None
        else min(copied_within_gpu_ms(m), m.budget.exposed_copy),
        unprofiled_critical_path=m.unprofiled_path_time,
        roofline=m.roofline_step,
        phases=m.phase_times,
        communication=m.communication,
        launches=m.launches,
        host=m.host,
        timing=m.timing,
        coverage=m.coverage,
        repeats=m.repeats,
        first_steps=m.first_steps,
        counters=m.counters,
        regularity=m.regularity,
        latency=m.latency,
        memory=m.memory,
        serving=m.serving,
        throughput=m.throughput,
        utilisation=m.utilisation,
        program=m.program,
    )


def _roofline_notes(m: Measurements) -> Iterator[str]:
    """Why there is no roofline, and how far measured kernels replace its estimates."""
    if m.timed.device is not None:
        device = next(
            (d for d in m.trace.devices if d.id == m.timed.device), Device(m.timed.device)
        )
        yield from _limits(m, device, m.linked.gpus[device.id])
    if m.linked.knowledge.counters:
        counted = m.rated.roofline.counted & m.timed.steady_ops
        share = counted.sum() / max((m.linked.is_kernel & m.timed.steady_ops).sum(), 1)
        yield MinorNote(
            f"Nsight Compute's report has {share:.0%} of the kernels; the others' "
            "rooflines are estimates."
        )


def _limits(m: Measurements, device: Device, gpu: Hardware | None) -> Iterator[str]:
    if gpu is None:
        unknown = (
            f"The hardware table has no {device.name}"
            if device.name
            else "The GPU's name was not recorded"
        )
        yield f"{unknown}: its limits are unknown (--hardware FILE gives them)."
        return
    if gpu.stated:
        fp32 = f", {digits(gpu.vector['fp32'] / 1e12)} TFLOP/s in fp32" if gpu.vector else ""
        yield MinorNote(
            f"{gpu.name} is not in the hardware table: its limits are those that the recording states "
            f"({digits(gpu.bandwidth / 1e9, 4)} GB/s{fp32}; of tensor cores it states nothing)."
        )
    elif device.sm_count and not device.called:
        size = f"{device.sm_count} SMs (compute units) and {digits((device.memory_bytes or 0) / GIGA)} GB"
        yield MinorNote(
            f"The GPU's name was not recorded; {size} are those of {gpu.name}: its limits are used."
        )
    counted_elsewhere = other_version(m.trace)
    if counted_elsewhere:
        yield counted_elsewhere


def _unreadable(failures: Sequence[Failure]) -> str:
    """The files that could not be read, and in a sentence more why that is so of the first."""
    if len(failures) == 1:
        return f"{failures[0].path} could not be read: {failures[0].message}"
    paths = [failure.path for failure in failures]
    folder = paths[0].rpartition("/")[0]
    together = all(path.rpartition("/")[0] == folder for path in paths)
    shown = ", ".join(
        path.rpartition("/")[2] if together else path for path in paths[:NAMED_FAILURES]
    )
    more = f" and {len(failures) - NAMED_FAILURES} more" if len(failures) > NAMED_FAILURES else ""
    place = f" of {folder}" if together and folder else ""
    return (
        f"{len(failures)} files{place} could not be read: {shown}{more}. The first: "
        f"{failures[0].message}"
    )


def _notes(run: Run, m: Measurements) -> list[str]:
    notes = [_unreadable(run.failures)] if run.failures else []
    if m.profiled is not None:
        return [*notes, *profiled_notes(m.profiled)]
    if m.trace.pasted is not None:
        of_server = summary_notes(m.serving) if m.serving is not None else ()
        return [*notes, *of_server, *m.trace.pasted.notes, m.trace.pasted.record]
    if m.trace.is_companion:
        return [*notes, *m.trace.health.notes]
    if any(device.oom for device in m.memory_of_devices):
        from traceanalyzer.diagnosis.memory import memory_headline

        notes.append(memory_headline(m.memory_of_devices))
    if m.serving is not None:
        notes += engine_notes(m.serving)
    tried = "" if m.trace.only_step_times else looked_at(m)
    found = [*notes, *_step_notes(m), *_device_notes(m), *filter(None, [tried])]
    return list(dict.fromkeys(found))  # a reader may have noted it, too


def _other_steps_timed(m: Measurements) -> Iterator[str]:
    """That the recorded steps are not those that the capture timed."""
    stated = m.said_unprofiled
    if stated is None or m.unprofiled_time is not None:
        return
    unit = m.trace.stopwatch.unit if m.trace.stopwatch is not None else None
    why = "other steps, or parts of one, were recorded"
    if is_cpu_alone(m):
        why = f"{why}, or other programs held the CPU meanwhile"
    yield (
        f"The recorded steps take {digits(m.mean_step_ms)} ms, the timed ones {digits(stated.step_ms)} ms "
        f"without the profiler{f' ({unit})' if unit else ''}: {why}. All "
        "figures are of these; record again to have those of a timed step."
    )


def _step_notes(m: Measurements) -> Iterator[str]:
    steps = m.timed.steps
    yield from _other_steps_timed(m)
    yield from recording_notes(m)
    if steps.warmup:
        yield MinorNote(
            f"{steps.warmup} slow leading {plural('step', steps.warmup)} left out as warm-up."
        )
    if steps.incomplete:
        left_out = (
            "step at its ends misses GPU work and is left out"
            if steps.incomplete == 1
            else "steps at its ends miss GPU work and are left out"
        )
        yield f"The recording is cut off: {steps.incomplete} {left_out}."
    if m.program is not None and m.program.skipped_optimizer_steps:
        yield (
            f"{m.program.skipped_optimizer_steps} of {steps.steady_count} steps skipped their optimizer: "
            "the GradScaler met infinite gradients. Such a step is shorter than one that learns."
        )


def _device_notes(m: Measurements) -> Iterator[str]:
    """What is known of the GPU's work and of the step without the profiler."""
    yield from _lost_notes(m)
    if m.trace.only_step_times:
        yield from m.trace.health.notes
    elif m.timed.device is None:
        # The recorder's own notes first: they say why.
        yield from sorted(
            m.trace.health.notes, key=lambda note: not note.startswith("nsys reports: ")
        )
        note = "The recording holds no GPU work: nothing is said about the GPU."
        yield MinorNote(note) if is_cpu_alone(m) else note
    elif not m.trace.collected.api:
        yield (
            "API calls were not recorded: launches, waits and the causes of idle time cannot "
            "be told."
        )
    yield from _roofline_notes(m)
    yield from _log_notes(m)
    if not m.trace.only_step_times:
        of_profiler = profiler_note(m)
        if of_profiler:
            yield MinorNote(of_profiler)
        yield from _unprofiled_notes(m)
        yield from _outlier_notes(m)
    if m.timed.device is not None and missing_kernels(m) > NOTED_MISSING:
        yield (
            f"The kernels of {missing_kernels(m):.1%} of the launches are missing (lost, or cut off): "
            "idle time is overstated by them."
        )


def _outlier_notes(m: Measurements) -> Iterator[str]:
    """How many steps the estimate leaves out."""
    outliers = 0 if m.replay is None else m.replay.hiccups
    if outliers:
        were = "was an outlier" if outliers == 1 else "were outliers"
        yield (
            f"{outliers} of {m.timed.steps.steady_count} steps {were} of no recorded cause; left out of the step "
            "without the profiler."
        )


def _lost_notes(m: Measurements) -> Iterator[str]:
    """Where the loss or the gradients are no numbers any more."""
    stats = m.timing
    if stats is None or not stats.not_finite:
        return
    logged = len(m.trace.step_timings)
    rows = f"{stats.not_finite:,} of {logged:,} logged steps"
    if stats.not_finite == logged:
        yield "The logged loss is nan or infinite."
    elif stats.loss_lost_at is not None:
        yield f"The loss is nan or infinite from step {stats.loss_lost_at} on ({rows})."
    else:
        yield f"The loss or the gradient norm is nan or infinite in {rows}; the loss recovers."


def _log_notes(m: Measurements) -> Iterator[str]:
    """Whether what the log of the run says of single steps is in the table of steps."""
    log = m.trace.step_timings
    says = [name for name in ("loss", "grad_norm") if np.isfinite(getattr(log, name)).any()]
    if m.trace.only_step_times:
        yield from _phase_notes(m.trace)
        return
    if not says:
        return
    steps = m.timed.steps
    rows = log_rows(m.trace, steps.names, steps.duration)
    if rows is None:
        yield MinorNote(
            "The log's loss is not joined with the recorded steps: no numbers or times say which of its "
            "steps they are. Figures of the whole log are in metrics.timing."
        )
        return
    joined = log.step[rows[rows >= 0]]
    yield MinorNote(
        f"The log's loss and what else it says are in the table of steps: its steps {joined[0]} to {joined[-1]}."
    )


def _phase_notes(trace: Trace) -> Iterator[str]:
    """The phases that a log times beside its steps, the longest first."""
    of_step = trace.step_timings.duration
    shares = []
    for phase in trace.logged_phases:
        known = (phase.duration >= 0) & (of_step > 0)
        if known.any():
            spent = phase.duration[known].sum()
            shares.append((spent / of_step[known].sum(), phase.name))
    parts = [f"{name} {share:.0%}" for share, name in sorted(shares, reverse=True)]
    if parts:
        yield f"Parts of a step as logged: {', '.join(parts[:SHOWN_PHASES])}."


def _unprofiled_notes(m: Measurements) -> Iterator[str]:
    """Where the step without the profiler comes from, or why it is not known."""
    stopwatch = m.trace.stopwatch
    fed = m.trace.may_have_waited_for_workers
    against = contradiction(stopwatch, m.trace.light, fed=fed) if stopwatch is not None else None
    if m.unsteady_step_ms is not None:
        yield (
            "Steps timed without the profiler are unsteady, and times here are the replay's: trust "
            "shares, and time more steps."
        )
    elif against is not None:
        yield against
        yield from _disturbed(m)
    if fed and m.unprofiled_time is not None and contradicted(m.unprofiled_time, m.mean_step_ms):
        yield (
            f"Recorded steps ({digits(m.mean_step_ms)} ms) are faster than those timed without the profiler "
            f"({digits(m.unprofiled_time.step_ms)} ms): the loader's queue had filled while the recorder started. "
            "Verdict and predictions are for the timed step."
        )
    if m.doubt:
        yield f"{m.doubt[0].upper()}{m.doubt[1:]}: nothing is predicted."
    elif m.replay is not None and not m.replay.faithful:
        yield (
            "The replay of the unchanged recording is off by more than a tenth: nothing is "
            "predicted from it."
        )
    yield from _source_of_step(m)


def _disturbed(m: Measurements) -> Iterator[str]:
    """That steps recorded on a CPU took far longer than those timed before: no replay takes out
    what the profiler and other programs cost."""
    stopwatch = m.trace.stopwatch
    if stopwatch is None or m.timed.device is not None or not m.timed.steps.found:
        return
    slower = m.mean_step_ms / (stopwatch.step_ns / NS_PER_MS)
    if slower >= MUCH_SLOWER:
        yield (
            f"The recorded steps took {slower:.0f} times as long as those without the profiler: other programs "
            "held the CPU, or the profiler did. Record again on a quiet machine; shares may be others."
        )


def _source_of_step(m: Measurements) -> Iterator[str]:
    """Which step summary and findings speak of."""
    known = m.unprofiled
    unit = m.timed.steps.unit
    if known is None and m.timed.device is not None:
        if m.doubt:
            return
        timed = m.why_not_replayed or "it was not timed, and the replay is too far off"
        yield (
            f"The {unit} without the profiler, which slows the host, is not known: {timed}. Summary and findings speak "
            f"of the {'recorded step' if m.timed.steps.found else 'recording'}."
        )
    elif known is not None and known.source == "estimated":
        low = digits(known.low_ms)
        high = digits(known.high_ms)
        yield MinorNote(
            f"Without the profiler the {unit} takes about {digits(known.step_time_ms)} ms ({low} to {high}): the "
            "recording replayed with the profiler's usual cost taken out. Verdict and predictions are for that, "
            "tables for what was recorded."
        )
    elif known is not None:
        yield MinorNote("Tables show the recorded step; all else is without the profiler.")
