"""Times of single recorded steps: how regular they are, and how long a request of an inference takes."""

import math

import numpy as np

from traceanalyzer.analysis.causes.gaps import IdleCause
from traceanalyzer.analysis.names.serving import iteration
from traceanalyzer.analysis.tables.budget import StepBudgets
from traceanalyzer.analysis.time.periods import inference_only
from traceanalyzer.analysis.time.regularity import Regularity, outliers, percentile, regularity
from traceanalyzer.analysis.time.steps import Steps, count_warmup
from traceanalyzer.analysis.time.timed import Timed
from traceanalyzer.base.figures import NS_PER_MS, metric
from traceanalyzer.base.frozen import dataclass
from traceanalyzer.trace import F64, I64

MARKED = ("profiler_step", "nvtx", "annotation")
"""Steps that the program marks: repeats of the GPU's work may be parts of steps, and differ as these do."""


@dataclass(frozen=True)
class Latency:
    """Requests of an inference as recorded: one step is one request (or one batch of them)."""

    requests: int = metric("recorded steady steps, one request or batch each")
    mean_ms: float = metric(
        "mean time from where the CPU begins a request until its last GPU work and its host range have ended", "ms"
    )
    median_ms: float = metric("median of these times", "ms")
    p95_ms: float | None = metric("95th percentile, linearly interpolated; null with fewer than 20 requests", "ms")
    p99_ms: float | None = metric("99th percentile, linearly interpolated; null with fewer than 100 requests", "ms")
    max_ms: float = metric("longest", "ms")


def recorded_regularity(timed: Timed, budgets: StepBudgets | None) -> Regularity | None:
    """How regular the recorded steady steps are; None where they are few, or not marked as one kind of step."""
    phases = {one.phase if one else None for one in map(iteration, timed.steps.names)}
    if timed.steps.source not in MARKED or len(phases) != 1:
        return None
    busy = None if budgets is None else (budgets.duration - budgets.idle)[timed.steps.steady].astype(np.float64)
    return regularity(own_times(timed.steps, budgets), busy)


def own_times(steps: Steps, budgets: StepBudgets | None) -> F64:
    """Times of the steady steps without the profiler's own idle time, ns."""
    time: F64 = steps.duration.astype(np.float64)
    if budgets is not None:
        time = time - budgets.idle_by_cause[IdleCause.PROFILER]
    return time[steps.steady]


def slow_steps(timed: Timed, budgets: StepBudgets | None) -> list[str]:
    """Names of the steady steps that are outliers."""
    names = timed.steps.names[timed.steps.steady]
    return [names[i] for i in np.flatnonzero(outliers(own_times(timed.steps, budgets)))]


def latency(timed: Timed) -> Latency | None:
    """Latency of the requests of an inference; None where PyTorch trains or is not seen, and where steps are no
    requests."""
    steps = timed.steps
    if steps.source not in MARKED or any(map(iteration, steps.names)) or not inference_only(timed.linked):
        return None
    time = (steps.end - steps.host_start)[steps.steady] / NS_PER_MS
    return Latency(
        requests=len(time),
        mean_ms=float(time.mean()),
        median_ms=float(np.median(time)),
        p95_ms=percentile(time, 95),
        p99_ms=percentile(time, 99),
        max_ms=float(time.max()),
    )


FIRST_NUMBERS = 1
"""Logs count their steps from 0 or 1; one that begins later was resumed, or left its first steps out."""


@dataclass(frozen=True)
class FirstSteps:
    """The slow first steps of a process."""

    source: str = metric("whether they were `timed` without the profiler, `recorded` or `logged`", text="own")
    first_ms: float = metric("the first step", "ms")
    steady_ms: float = metric("a steady step, from the same source", "ms")
    steps: int = metric("first steps that take much longer than a steady one")
    excess_ms: float = metric("time beyond that of as many steady steps", "ms")
    eager_ms: float | None = metric(
        "a steady step with torch.compile switched off; null where none was timed (collect torch --eager-steps N)", "ms"
    )
    pays_after_steps: int | None = metric(
        "steps after which compiled code, faster than the eager step, has made up for the excess; null where it never "
        "does, or no eager step was timed"
    )


def first_steps(timed: Timed) -> FirstSteps | None:
    """The first steps as far as they are known; None where no slow one is."""
    steps, watch, log = timed.steps, timed.trace.stopwatch, timed.trace.step_timings
    if watch is not None and watch.first_ns:
        steady = np.full(len(watch.first_ns), watch.step_ns, np.int64)
        return _of("timed", np.append(watch.first_ns, steady), timed)
    if timed.trace.only_step_times and not log.of_server:
        rows = log.duration > 0
        begins = bool(rows.any()) and log.step[rows][0] <= FIRST_NUMBERS
        return _of("logged", log.duration[rows], timed) if begins else None
    if not steps.found or not (steps.warmup or (watch is not None and watch.from_first)):
        return None  # what comes before the first launch may be the recorder's start
    return _of("recorded", np.append(steps.end[0] - begin_of_first(timed), steps.duration[1:]), timed)


def _of(source: str, duration: I64, timed: Timed) -> FirstSteps | None:
    """Of all known steps, ns; compiled and eager steps are those that the stopwatch timed."""
    slow, watch = count_warmup(duration), timed.trace.stopwatch
    if not slow:
        return None
    steady_ns = float(np.median(duration[slow:]))
    excess_ns = float(duration[:slow].sum()) - slow * steady_ns
    eager_ns = watch.eager_ns if watch is not None else None
    saved_ns = eager_ns - watch.step_ns if watch is not None and eager_ns is not None else 0
    return FirstSteps(
        source=source,
        first_ms=float(duration[0]) / NS_PER_MS,
        steady_ms=steady_ns / NS_PER_MS,
        steps=slow,
        excess_ms=excess_ns / NS_PER_MS,
        eager_ms=None if eager_ns is None else eager_ns / NS_PER_MS,
        pays_after_steps=math.ceil(excess_ns / saved_ns) if saved_ns > 0 else None,
    )


def begin_of_first(timed: Timed) -> int:
    """When the host began with the first step, or earlier work of the GPU ended. Steps are counted without the idle
    time before the first launch; here it is what a first step costs."""
    steps, ops = timed.steps, timed.trace.device_ops
    own = ops.start[steps.of_op == 0]
    earlier = ops.end[ops.start < own.min()] if len(own) else own
    return min(max(int(steps.host_start[0]), int(earlier.max(initial=steps.host_start[0]))), int(steps.start[0]))
