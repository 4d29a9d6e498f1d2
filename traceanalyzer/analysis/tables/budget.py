"""The step's wall-clock budget on the device it is measured on, and its idle time by cause, step by step.

Compute goes first, then communication that compute does not hide, then copies that neither hides, then idle:
a partition, so the parts sum to the step.
"""

from __future__ import annotations

import numpy as np

from traceanalyzer.analysis.algebra.intervals import measure
from traceanalyzer.analysis.causes.gaps import Gaps, IdleCause, idle_by_cause
from traceanalyzer.analysis.joined.launches import is_launch
from traceanalyzer.analysis.time.sampled import MIN_STEP_SAMPLES, samples_of
from traceanalyzer.analysis.time.timed import Timed
from traceanalyzer.base.figures import metric, ms
from traceanalyzer.base.frozen import dataclass
from traceanalyzer.trace import I64


@dataclass(frozen=True, eq=False)
class StepBudgets:
    """Parts of each step's wall-clock window on one device, ns; one entry a step, warm-up included."""

    duration: I64
    compute: I64
    exposed_communication: I64
    exposed_copy: I64
    idle: I64
    communication: I64
    """Exposed or not."""
    idle_by_cause: dict[IdleCause, I64]


def step_budgets(timed: Timed, gaps: Gaps, device: int) -> StepBudgets:
    """Partition the window of every step on the device."""
    activity, start, end = timed.activity[device], timed.steps.start, timed.steps.end
    duration = timed.steps.duration
    return StepBudgets(
        duration=duration,
        compute=measure(activity.compute, start, end),
        exposed_communication=measure(activity.exposed_communication, start, end),
        exposed_copy=measure(activity.exposed_copy, start, end),
        idle=duration - measure(activity.busy, start, end),
        communication=measure(activity.communication, start, end),
        idle_by_cause=idle_by_cause(timed, gaps, device),
    )


@dataclass(frozen=True)
class StepRow:
    """One step of the recording."""

    rank: int | None = metric("rank of the process")
    step: int = metric("index of the step in the recording")
    name: str = metric("the step's name in the recording")
    warmup: bool = metric("whether the step is left out of the steady state")
    start_ns: int = metric("start of the step's window on the recording's clock", "ns")
    end_ns: int = metric("end of it: both its host range and its last device op have ended", "ns")
    duration_ms: float = metric("wall-clock time of the step", "ms")
    compute_ms: float | None = metric("time with compute on the device", "ms")
    exposed_communication_ms: float | None = metric("time with a collective and no compute", "ms")
    exposed_copy_ms: float | None = metric("time with a copy and neither compute nor collective", "ms")
    idle_ms: float | None = metric("time without device work", "ms")
    largest_idle_cause: str | None = metric("cause of the largest part of the idle time", text="own")
    kernels: int = metric("kernels launched by the step")
    launches: int = metric("kernel and graph launch calls made in the step")
    latency_ms: float | None = metric(
        "time from where the CPU begins the step until its work on the GPU and its host range have ended",
        "ms",
        default=None,
    )
    sm_active_share: float | None = metric(
        "SMs with work, as sampled in the step; null where counters were not sampled, or less than 3 times in it",
        "share",
        default=None,
    )
    tensor_active_share: float | None = metric(
        "cycles in which the tensor cores worked; null as above", "share", default=None
    )
    dram_share: float | None = metric(
        "traffic of the device memory over its peak; null as above", "share", default=None
    )


def step_rows(timed: Timed, budgets: StepBudgets | None) -> list[StepRow]:
    """A row a step, warm-up included."""
    steps, count = timed.steps, len(timed.steps)
    inside = timed.linked.is_kernel & (steps.of_op >= 0)
    kernels = np.bincount(steps.of_op[inside], minlength=count)
    launches = launches_by_step(timed)

    def part(name: str, i: int) -> float | None:
        return None if budgets is None else ms(getattr(budgets, name)[i])

    samples = None if timed.device is None else samples_of(timed, timed.device)

    def counter(role: str, i: int) -> float | None:
        return None if samples is None else samples.mean(role, int(steps.start[i]), int(steps.end[i]), MIN_STEP_SAMPLES)

    return [
        StepRow(
            rank=timed.trace.rank,
            step=steps.first + i,
            name=steps.names[i],
            warmup=i < steps.warmup,
            start_ns=int(steps.start[i]),
            end_ns=int(steps.end[i]),
            duration_ms=ms(steps.duration[i]),
            compute_ms=part("compute", i),
            exposed_communication_ms=part("exposed_communication", i),
            exposed_copy_ms=part("exposed_copy", i),
            idle_ms=part("idle", i),
            largest_idle_cause=_largest_cause(budgets, i),
            kernels=int(kernels[i]),
            launches=int(launches[i]),
            latency_ms=ms(steps.end[i] - steps.host_start[i]),
            sm_active_share=counter("sm_active", i),
            tensor_active_share=counter("tensor", i),
            dram_share=counter("dram", i),
        )
        for i in range(count)
    ]


def launches_by_step(timed: Timed) -> I64:
    """Kernel and graph launch calls made in the host range of each step."""
    steps, time = timed.steps, timed.trace.api_calls.start[is_launch(timed.linked)]
    return np.searchsorted(time, steps.host_end) - np.searchsorted(time, steps.host_start)


def _largest_cause(budgets: StepBudgets | None, i: int) -> str | None:
    if budgets is None or budgets.idle[i] == 0:
        return None
    return max(IdleCause, key=lambda cause: budgets.idle_by_cause[cause][i]).label
