"""Findings on the measurement itself: what spoils it, what it cost, what it cannot tell. Nothing to
win in them."""

from collections.abc import Iterator

from traceanalyzer.analysis.groups.bounds import busy_counters, unknown_kernels, unknown_share
from traceanalyzer.analysis.groups.ops import SHOWN, ApiTime, api_times
from traceanalyzer.base import counted, digits, span
from traceanalyzer.diagnosis.draft import Draft, finding, share, times
from traceanalyzer.diagnosis.finding import Evidence, Words
from traceanalyzer.diagnosis.measurements import Measurements
from traceanalyzer.trace import Bool

RECORD_THE_GPU = Words(
    "Record the GPU, too: profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) around code that runs on "
    "it, or `traceanalyzer collect torch -- python train.py`.",
    (
        "Record the GPU, too: nsys profile -t cuda,nvtx, of a version that knows the driver, "
        "where CUPTI may record it."
    ),
    "Record the GPU, too: jax.profiler.trace around steps that run on it.",
)
PROFILER_COST = 0.2
"""From here up the recorded step no longer stands for the program's: its host time has grown by a
fifth."""
AS_LONG = 0.03
"""Share of the step by which two means of one program differ."""
MIN_UNKNOWN_SHARE = 0.2  # less of the computation changes no verdict


def top_operators(m: Measurements) -> list[ApiTime]:
    """The operators with the most CPU time of their own, over the whole recording; without any the
    phases."""
    steps = m.timed.steps.steady_count
    own = [(row.name, row.calls, row.host_self_ms) for row in m.ops if row.kind == "op"]
    own = own or [
        (row.name, row.calls or 0.0, row.host_ms) for row in m.phase_rows if not row.derived
    ]
    rows = sorted(own, key=lambda row: -row[2])[:SHOWN]
    return [ApiTime(name, round(calls * steps), time * steps) for name, calls, time in rows if time]


def no_gpu_work(m: Measurements) -> str:
    """Why it is not known what the GPU did, the largest parts of the CPU's time, and what to
    record."""
    if m.trace.health.truncated:
        why = "the file is cut off, and no GPU event is in what is left: copy or export it again."
    elif m.launches is not None and m.launches.launch_calls:
        why = "launches were recorded, but no GPU work: what the GPU did is not known."
    else:
        why = "the recording holds no GPU work."
    times = top_operators(m) or api_times(m.linked)
    shown = [f"{row.name} {span(row.ms)} ({counted(row.calls, 'call')})" for row in times[:3]]
    recorded = (
        f" Of {span(m.coverage.recorded_ms)} recorded the CPU spends most in {', '.join(shown)}."
    )
    return f"{why}{recorded if times else ''} {RECORD_THE_GPU.of(m.joined.framework)}"


def spoiled(m: Measurements, _free: Bool) -> Iterator[Draft]:
    """A condition of the recording makes its figures those of something else."""
    for condition in m.trace.conditions:
        if condition.spoils:
            spaced = condition.name.lower().replace(".", " ").replace("_", " ")
            name = "-".join(spaced.split())
            evidence = [
                Evidence(condition.name, condition.value, "", "conditions of the recording")
            ]
            yield Draft(
                f"condition-{name}",
                "inconclusive",
                f"Caveat: {condition.spoils}",
                "none",
                None,
                evidence,
            )


def profiler_cost(m: Measurements, _free: Bool) -> Iterator[Draft]:
    """The recorded step is much slower than the same step without the profiler."""
    timed = m.unprofiled_time
    if timed is None or m.mean_step_ms <= (1 + PROFILER_COST) * timed.step_ms:
        return
    cost = m.mean_step_ms / timed.step_ms - 1
    evidence = [
        Evidence("profiler's cost", cost, "share", "of the unprofiled step", PROFILER_COST),
        Evidence("recorded step", m.mean_step_ms, "ms", "mean of the steady state"),
        Evidence("unprofiled step", timed.step_ms, "ms", "median"),
    ]
    yield finding("profiler-cost", "none", None, evidence)


def profiler_note(m: Measurements) -> str | None:
    """What the profiler cost, in a sentence; None where the unprofiled step time is not known."""
    if m.unprofiled_time is None:
        return None
    plain = m.unprofiled_time.step_ms
    recorded = m.mean_step_ms
    cost = recorded / plain - 1
    both = f"{digits(plain, 4)} ms without, {digits(recorded, 4)} ms with."
    if cost >= 0:
        return f"Profiling slowed the step by {cost:.1%}: {both}"
    if -cost < AS_LONG:
        return f"Profiling did not slow the step: {both}"
    return (
        f"Recorded steps were {-cost:.0%} shorter than those timed without the profiler ({digits(recorded, 4)} against "
        f"{digits(plain, 4)} ms): clocks, data or the load of the host differed."
    )


def cpu_only(m: Measurements, _free: Bool) -> Iterator[Draft]:
    """Host time by operator, of a recording without device work."""
    times = top_operators(m) if m.timed.device is None else []
    if times:
        yield finding("cpu-only", "none", None, _times_alone(m, times))


def api_only(m: Measurements, _free: Bool) -> Iterator[Draft]:
    """Host time by API call, of a recording without device work."""
    if m.timed.device is None and len(m.trace.api_calls):
        yield finding("api-calls-only", "none", None, _times_alone(m, api_times(m.linked)))


def _times_alone(m: Measurements, times: list[ApiTime]) -> list[Evidence]:
    return [
        Evidence("GPU work", "not recorded", "", "only the host's side is known"),
        *(
            Evidence("host time", row.ms, "ms", f"{row.calls:,} x {row.name}, whole recording")
            for row in times
        ),
        Evidence(
            "next step", RECORD_THE_GPU.of(m.joined.framework), "", "what the recording lacks"
        ),
    ]


def unknown_work(m: Measurements, _free: Bool) -> Iterator[Draft]:
    """Kernels whose limit neither a model, nor counters, nor their names tell."""
    unknown = unknown_share(m.rated)
    if m.step.budget is None or unknown < MIN_UNKNOWN_SHARE:
        return
    what = "computation in kernels of no known kind"
    idle = "mean of {:,} samples while the GPU was busy"
    evidence = [
        share(m, unknown * m.step.budget.compute, what),
        *times(unknown_kernels(m.rated)),
        *(
            Evidence(name, mean, "", idle.format(samples))
            for name, mean, samples in busy_counters(m.timed)
        ),
        Evidence(
            "next step",
            "traceanalyzer collect ncu, then analyze --ncu",
            "",
            "measures what limits each kernel",
        ),
    ]
    yield finding("unknown-kernels", "none", None, evidence)
