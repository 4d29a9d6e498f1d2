"""The figures of a step: distribution of its time, its budget and idle time as means over the steady state."""

from __future__ import annotations

from typing import Literal

import numpy as np

from traceanalyzer.analysis.causes.gaps import IdleCause
from traceanalyzer.analysis.tables.budget import StepBudgets
from traceanalyzer.analysis.time.steps import Steps
from traceanalyzer.base.figures import NS_PER_MS, metric, ms
from traceanalyzer.base.frozen import dataclass
from traceanalyzer.trace import I64


@dataclass(frozen=True)
class StepTime:
    """Distribution of the steady-state steps' wall-clock times."""

    count: int = metric("steady-state steps measured (warm-up excluded)")
    mean: float = metric("mean step time", "ms")
    median: float = metric("median step time", "ms")
    std: float = metric("standard deviation over steps (n-1); 0 with one step", "ms")
    min: float = metric("fastest step", "ms")
    max: float = metric("slowest step", "ms")
    p95: float = metric("95th percentile of the step times, linearly interpolated", "ms")
    p99: float = metric("99th percentile of the step times, linearly interpolated", "ms")


@dataclass(frozen=True)
class Budget:
    """Partition of the step's wall-clock time on the critical device; the four parts sum to the mean step time."""

    compute: float = metric(
        "time with a kernel that is not a collective, a memset or a CUDA graph on the device (union of intervals)", "ms"
    )
    exposed_communication: float = metric("time with a collective but no compute on the device", "ms")
    exposed_copy: float = metric("time with a memory copy but neither compute nor collective on the device", "ms")
    idle: float = metric("time with no work of any kind on the device", "ms")


@dataclass(frozen=True)
class Idle:
    """Partition of `Budget.idle` by what the device was waiting for."""

    launch: float = metric(
        "the host was issuing work too slowly: operator dispatch and launch calls, or the "
        "device-side latency between queued kernels",
        "ms",
    )
    sync: float = metric("the host had waited for the device, so nothing was queued", "ms")
    input: float = metric("the host was waiting for or preparing input data", "ms")
    host: float = metric("other host work between launches (Python, allocation, I/O)", "ms")
    communication: float = metric("waiting for another rank or for communication on the host", "ms")
    profiler: float = metric("the profiler's own work", "ms")
    other: float = metric("the recording does not tell", "ms")

    @property
    def total(self) -> float:
        """All of it."""
        return float(sum(getattr(self, cause.label) for cause in IdleCause))


@dataclass(frozen=True)
class Unprofiled:
    """The mean steady-state step without the profiler, in the same parts as the recorded one."""

    step_time_ms: float = metric("step time without the profiler", "ms")
    low_ms: float = metric("lower end of its 90 % range: nine of ten stopwatch medians lie inside", "ms")
    high_ms: float = metric("upper end of it", "ms")
    source: Literal["measured", "estimated"] = metric(
        "`measured`: timed by the capture; `estimated`: the recording replayed without the profiler's usual cost"
    )
    budget_ms: Budget = metric("the step's wall-clock time by what the device did, summing to it", "ms")
    idle_ms: Idle = metric("its idle time by cause, summing to `budget_ms.idle`", "ms")


@dataclass(frozen=True)
class Step:
    """The step that a report speaks of: the one without the profiler where it is known, else the recorded one."""

    basis: Literal["unprofiled", "recorded"]
    step_ms: float
    budget: Budget | None
    idle: Idle | None


def step_time(steps: Steps) -> StepTime | None:
    """Distribution over the steady-state steps; None without device work and steps."""
    if not steps.known:
        return None
    times = steps.duration[steps.steady] / NS_PER_MS
    return StepTime(
        count=len(times),
        mean=float(times.mean()),
        median=float(np.median(times)),
        std=float(times.std(ddof=1)) if len(times) > 1 else 0.0,
        min=float(times.min()),
        max=float(times.max()),
        p95=float(np.percentile(times, 95)),
        p99=float(np.percentile(times, 99)),
    )


def mean_budget(budgets: StepBudgets, steady: slice) -> Budget:
    """Mean over the steady-state steps."""
    return Budget(
        compute=_mean(budgets.compute, steady),
        exposed_communication=_mean(budgets.exposed_communication, steady),
        exposed_copy=_mean(budgets.exposed_copy, steady),
        idle=_mean(budgets.idle, steady),
    )


def mean_idle(budgets: StepBudgets, steady: slice) -> Idle:
    """Mean over the steady-state steps."""
    return Idle(**{cause.label: _mean(budgets.idle_by_cause[cause], steady) for cause in IdleCause})


def _mean(values: I64, steady: slice) -> float:
    return ms(values[steady].mean())
