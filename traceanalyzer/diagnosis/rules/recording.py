"""Sentences on what the recording is: which part of it the steps are, what repeats within them,
what it cannot hold."""

import re
from collections.abc import Iterator

from traceanalyzer.analysis.algebra import texts_where
from traceanalyzer.analysis.names import Framework
from traceanalyzer.analysis.names.pytorch import LIBRARY_MARK
from traceanalyzer.analysis.serving.cut import find_iterations
from traceanalyzer.analysis.time.coverage import WHOLE_SHARE
from traceanalyzer.analysis.time.repeats import coinciding_range
from traceanalyzer.base import NS_PER_MS, MinorNote, digits, plural, span
from traceanalyzer.diagnosis.measurements import Measurements
from traceanalyzer.diagnosis.rules.timing import DRIFT_SHARE
from traceanalyzer.diagnosis.serving.sentences import sentences
from traceanalyzer.trace import DeviceOpKind, RangeKind

MANY_STEPS = 30
MANY_EVENTS = 200_000
"""More steps tell nothing new; a recording with fewer events than that is small however many steps
it has."""
RANGE_MS = 0.001
"""About what a range costs the host with a recorder attached; `record_function` costs several times
that."""
MB = 1e6
MANY_RANGES = 500
RANGES_SHARE = 0.05
"""Fewer ranges are phases and layers; ranges that cost less of the step do not change the
picture."""
WORK_OUTSIDE = 0.1
"""Share of the GPU's work outside all steps from which it is worth a note: a recorder that starts
behind the GPU records what was queued before."""
MOST_OUTSIDE = 0.5
"""From here on the steps may not be what the program is about."""
NOTED_SPAN = 0.9
"""Device work that spans less of the recording than this leaves start-up or shutdown to be
noted."""
NOTED_GRAPHS = 0.1  # share of the GPU's time from which whole graphs hide what is worth knowing
MOSTLY = 0.5  # from here on of a busy GPU's time they are the verdict
UNEVEN_RATIO = 1.3  # a mean this far above the median is that of a few steps, not of the usual one
UNEVEN_STD = 0.3  # steps that vary by more than this share of their mean do not do the same work


def recording_notes(m: Measurements) -> Iterator[str]:
    """What a reader should know before reading the figures of a step."""
    if not m.trace.only_step_times:
        yield from _steps(m) if m.timed.steps.found else _no_steps(m)
        for notes in (
            _uneven,
            _iterations,
            _whole_graphs,
            _slowed,
            _repeats,
            _more_than_useful,
            _own_markers,
            _volume,
        ):
            yield from notes(m)
    elif m.trace.step_timings.of_server:
        yield from sentences(m)


def _volume(m: Measurements) -> Iterator[str]:
    """How much a step sends, measured by the model: plain data parallelism sends the gradients once."""
    time = m.communication
    if time is None or not time.volume_bytes or not time.gradient_bytes:
        return
    times = time.volume_bytes / time.gradient_bytes
    yield MinorNote(
        f"The collectives of a step carry {digits(time.volume_bytes / MB)} MB, {digits(times)} times the gradients of "
        f"one backward pass ({digits(time.gradient_bytes / MB)} MB). Plain data parallelism carries them once, FSDP "
        "three times at the same precision."
    )


def _whole_graphs(m: Measurements) -> Iterator[str]:
    """That nsys recorded CUDA graphs as a whole, where the verdict does not say so: it does where
    they are most of a busy GPU's time."""
    if m.trace.source != "nsys" or m.budget is None:
        return
    ops = m.trace.device_ops
    rows = m.timed.steady_ops
    time = ops.end[rows] - ops.start[rows]
    is_graph = ops.kind[rows] == DeviceOpKind.GRAPH
    share = time[is_graph].sum() / max(time.sum(), 1)
    is_verdict = share > MOSTLY and m.budget.compute > m.budget.idle
    if share < NOTED_GRAPHS or is_verdict:
        return
    yield (
        f"CUDA graphs, {share:.0%} of the GPU's time, were recorded as a whole: nsys profile "
        "--cuda-graph-trace=node records the kernels in them."
    )


def _slowed(m: Measurements) -> Iterator[str]:
    """That recorded steps get slower, where the GPU's work does not: what has no finding, and
    why."""
    known = m.regularity
    if known is None or not known.drift_share or known.busy_drift_share is None:
        return
    if known.drift_share >= DRIFT_SHARE > abs(known.busy_drift_share):
        yield MinorNote(
            f"Recorded steps become {known.drift_share:.0%} slower over the recording, and the GPU's work in them does "
            "not: the recorder slows the host the longer it records."
        )


def _more_than_useful(m: Measurements) -> Iterator[str]:
    """Recordings that are longer, or marked more finely, than they need be: both disturb the
    program."""
    count = m.timed.steps.steady_count
    if m.timed.steps.found and count >= MANY_STEPS and m.trace.health.events >= MANY_EVENTS:
        yield (
            f"{count} steps were recorded in {m.trace.health.events:,} events: four are enough for most of this "
            "report, 20 for outliers and drift; shorter recordings disturb the program less."
        )
    ranges = m.trace.host_ranges
    own = (ranges.kind == RangeKind.ANNOTATION) & ~texts_where(
        m.trace.strings, LIBRARY_MARK.search
    )[ranges.name]
    a_step = (
        float((own & m.timed.steady_host(ranges.start)).sum()) / count
        if m.timed.steps.found
        else 0.0
    )
    if a_step >= MANY_RANGES and a_step * RANGE_MS >= RANGES_SHARE * m.mean_step_ms:
        yield (
            f"{a_step:,.0f} annotated ranges a step cost the CPU about {span(a_step * RANGE_MS)} of each "
            f"{span(m.mean_step_ms)} step: mark phases, not single operations."
        )


def _own_markers(m: Measurements) -> Iterator[str]:
    """A region that the program marks for profilers, where the recording is not of it alone."""
    calls = m.trace.api_calls
    names = m.trace.strings
    is_start = texts_where(names, re.compile(r"^cu(da)?ProfilerStart$").match)
    is_stop = texts_where(names, re.compile(r"^cu(da)?ProfilerStop$").match)
    starts = calls.end[is_start[calls.name]]
    stops = calls.start[is_stop[calls.name]]
    if m.timed.steps.found or not len(starts) or not len(stops):
        return
    if stops[-1] <= starts[0]:
        return
    region = (stops[-1] - starts[0]) / NS_PER_MS
    launched = m.linked.launch_time
    before = ((launched >= 0) & (launched < starts[0])).sum()
    after = (launched >= stops[-1]).sum()
    if before + after:
        yield (
            f"The program marks {span(float(region))} for profilers (cudaProfilerStart to cudaProfilerStop), and "
            f"{before + after:,} GPU operations were launched outside: figures are for all of it. "
            "nsys profile --capture-range=cudaProfilerApi records the marked part alone."
        )


def _steps(m: Measurements) -> Iterator[str]:
    seen = m.coverage
    steps = m.timed.steps
    left_out = seen.work_outside_share or 0.0
    if left_out > WORK_OUTSIDE:
        where = f"the {steps.steady_count} {plural(steps.unit, steps.steady_count)} found"
        if left_out > MOST_OUTSIDE:
            yield (
                f"Only {1 - left_out:.0%} of GPU work is in {where}: no figure is of the rest, "
                "such as warm-up or validation."
            )
        else:
            yield MinorNote(f"{1 - left_out:.0%} of GPU work is in {where}.")
    elif seen.steps_share is not None and seen.steps_share < WHOLE_SHARE:
        idle = seen.idle_outside_share
        outside = f"; {idle:.0%} of the GPU's idle time lies outside" if idle is not None else ""
        yield MinorNote(
            f"The steps cover {seen.steps_share:.0%} of {span(seen.recorded_ms)} recorded{outside}."
        )
    if steps.source == "periodicity":
        name = coinciding_range(m.timed)
        holds = f", each with one range `{name}`" if name else ""
        yield (
            f"No marker says what a step is: {len(steps)} repeats of the same GPU work are called one{holds}. They may "
            f"be parts of a step, such as layers; an annotation of the step ({_how(m)}) would tell."
        )


def _uneven(m: Measurements) -> Iterator[str]:
    times = m.step_time
    if times is None or m.kinds is not None:
        return
    # A few are far longer, or shorter, than the usual one: the mean stands for none of them.
    if times.mean > UNEVEN_RATIO * times.median or times.std > UNEVEN_STD * times.mean:
        yield (
            f"The steps are uneven: {span(times.min)} to {span(times.max)}, median {span(times.median)}; "
            f"figures are means ({span(times.mean)})."
        )


def _no_steps(m: Measurements) -> Iterator[str]:
    seen = m.coverage
    if m.timed.steps.known:
        yield (
            "Nothing marks a step: the recording is the unit of every figure, from the first "
            "GPU work to the last."
        )
    else:
        yield "No steps were found: every figure is for the whole recording."
    if seen.device_span_ms is None or seen.device_span_ms >= NOTED_SPAN * seen.recorded_ms:
        return
    before = (
        f"; the first GPU work comes after {span(seen.before_first_op_ms)}"
        if seen.before_first_op_ms
        else ""
    )
    yield MinorNote(
        f"GPU work spans {span(seen.device_span_ms)} of {span(seen.recorded_ms)} recorded{before}."
    )


def _iterations(m: Measurements) -> Iterator[str]:
    found = m.timed.memo(find_iterations)
    if found is not None:
        yield from sentences(m, gains=False)
        if found.framework:
            yield (
                f"A step is one iteration of {found.framework}; `traceanalyzer show iterations` "
                "lists them."
            )


def _repeats(m: Measurements) -> Iterator[str]:
    found = m.repeats
    if found is None:
        return
    what = f"one for each `{found.name}`" if found.name else "layers or micro-batches"
    if m.timed.steps.found:
        yield MinorNote(f"{found.count} repeats of {span(found.mean_ms)} within the step: {what}.")
    elif found.name:
        yield (
            f"The GPU's work repeats {found.count} times, {span(found.mean_ms)} each, {what}: parts of a step, which "
            f"is longer than what was recorded, or not marked. Name the step with an annotation ({_how(m)})."
        )
    else:
        yield (
            f"The GPU's work repeats {found.count} times, {span(found.mean_ms)} each; whether that is a step or "
            f"part of one is not recorded. Name the step with an annotation ({_how(m)}) to know."
        )


def _how(m: Measurements) -> str:
    marks = {Framework.JAX: "jax.profiler.StepTraceAnnotation", Framework.CUDA: "NVTX"}
    return marks.get(m.joined.framework, "record_function")
