"""The step's wall-clock budget on the device it is measured on, and its idle time by cause, step by
step and as means over the steady state.

Compute goes first, then communication that compute does not hide, then copies that neither hides,
then idle: a partition, so the parts sum to the step."""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from functools import partial
from typing import Any

import numpy as np

from traceanalyzer.analysis.algebra import IntervalSet, measure, median_of, percentiles
from traceanalyzer.analysis.algebra.lazy_rows import FEW, ColumnRows
from traceanalyzer.analysis.causes.gaps import Gaps, idle_by_cause
from traceanalyzer.analysis.causes.idle_cause import IdleCause
from traceanalyzer.analysis.joined.launched import is_launch
from traceanalyzer.analysis.tables.logged_steps import logged_columns
from traceanalyzer.analysis.tables.step_figures import Budget, Idle, StepTime
from traceanalyzer.analysis.time.sampled import MIN_STEP_SAMPLES, samples_of
from traceanalyzer.analysis.time.steps import Steps
from traceanalyzer.analysis.time.timed import Timed
from traceanalyzer.base import MEMORY, NS_PER_MS, dataclass, maybe, metric, ms
from traceanalyzer.trace import I64

"""A figure that timing logs alone have: no other recording lacks it."""


def step_time(steps: Steps) -> StepTime | None:
    """Distribution over the steady-state steps; None where the recording has no steps."""
    if not steps.known:
        return None
    times = steps.duration[steps.steady] / NS_PER_MS
    p95, p99 = percentiles(times, 95, 99)
    return StepTime(
        count=len(times),
        mean=float(times.mean()),
        median=median_of(times),
        std=float(times.std(ddof=1)) if len(times) > 1 else 0.0,
        min=float(times.min()),
        max=float(times.max()),
        p95=p95,
        p99=p99,
    )


def mean_budget(budgets: "StepBudgets", steady: slice) -> Budget:
    """Mean over the steady-state steps."""
    columns = (getattr(budgets, part.name)[steady] for part in fields(Budget))
    return Budget(*(ms(column.mean()) for column in columns))


def mean_idle(budgets: "StepBudgets", steady: slice) -> Idle:
    """Mean over the steady-state steps."""
    return Idle(
        **{cause.label: ms(budgets.idle_by_cause[cause][steady].mean()) for cause in IdleCause}
    )


def each_idle(budgets: "StepBudgets") -> list[Idle]:
    """The idle time of every step by cause, warm-up included."""
    columns = ((budgets.idle_by_cause[cause] / NS_PER_MS).tolist() for cause in IdleCause)
    return [Idle(*times) for times in zip(*columns, strict=True)]


@dataclass(frozen=True, eq=False)
class StepBudgets:
    """Parts of each step's wall-clock window on one device, ns; one entry a step, warm-up
    included."""

    duration: I64
    compute: I64
    exposed_communication: I64
    exposed_copy: I64
    idle: I64
    communication: I64  # exposed or not
    idle_by_cause: dict[IdleCause, I64]


def step_budgets(timed: Timed, gaps: Gaps, device: int) -> StepBudgets:
    """Partition the window of every step on the device."""
    activity = timed.activity[device]
    duration = timed.steps.duration

    def inside(part: IntervalSet) -> I64:
        return measure(part, timed.steps.start, timed.steps.end)

    return StepBudgets(
        duration=duration,
        compute=inside(activity.compute),
        exposed_communication=inside(activity.exposed_communication),
        exposed_copy=inside(activity.exposed_copy),
        idle=duration - inside(activity.busy),
        communication=inside(activity.communication),
        idle_by_cause=idle_by_cause(timed, gaps, device),
    )


@dataclass(frozen=True)
class StepRow:
    """One step of the recording."""

    rank: int | None = metric("rank of the process")
    step: int = metric("index of the step in the recording")
    name: str = metric("the step's name in the recording")
    warmup: bool = metric("whether the step is left out of the steady state")
    start_ns: int = metric("start of the step's window on the recording's clock")
    end_ns: int = metric("end of it: both its host range and its last device op have ended")
    duration_ms: float = metric("wall-clock time of the step")
    compute_ms: float | None = metric(
        "time with compute on the device; of a timing log: the step without waiting for data"
    )
    exposed_communication_ms: float | None = metric("time with a collective and no compute")
    exposed_copy_ms: float | None = metric("time with a copy and neither compute nor collective")
    idle_ms: float | None = metric("time without device work")
    largest_idle_cause: str | None = metric(
        "cause of the largest part of the idle time", text="own"
    )
    kernels: int = metric("kernels launched by the step")
    launches: int = metric("kernel and graph launch calls made in the step")
    latency_ms: float | None = maybe(
        "time from where the CPU begins the step until its work on the GPU and its host "
        "range have ended"
    )
    sm_active_share: float | None = maybe(
        "SMs with work, as sampled in the step; null where counters were not sampled, or "
        "less than 3 times in it"
    )
    tensor_active_share: float | None = maybe(
        "cycles in which the tensor cores worked; null as above"
    )
    dram_share: float | None = maybe("traffic of the device memory over its peak; null as above")
    data_ms: float | None = maybe("time waiting for data, as a timing log says")
    forward_ms: float | None = maybe("time of the forward pass, as a timing log says")
    backward_ms: float | None = maybe("time of the backward pass, as a timing log says")
    optimizer_ms: float | None = maybe("time of the optimizer, as a timing log says")
    phases: str | None = maybe("phases by names of the program's own, with their times")
    samples: int | None = maybe("samples of the step, as a timing log says")
    tokens: int | None = maybe("tokens of the step without padding, as a timing log says")
    loss: float | None = maybe("loss of the step, as a timing log says")
    grad_norm: float | None = maybe("norm of its gradients, as a timing log says")
    peak_memory_bytes: int | None = maybe("most GPU memory in use until then", MEMORY)


def step_rows(timed: Timed, budgets: StepBudgets | None) -> Sequence[StepRow]:
    """A row a step, warm-up included: of many made when asked for. Logs have 100,000 steps and
    more."""
    rows = ColumnRows(StepRow, len(timed.steps), partial(_step_columns, timed, budgets))
    return list(rows) if len(rows) <= FEW else rows


def _step_columns(timed: Timed, budgets: StepBudgets | None) -> Mapping[str, Sequence[Any]]:
    """The fields of `StepRow`, each of all steps."""
    steps = timed.steps
    count = len(steps)
    of_kernels = steps.of_op[timed.linked.is_kernel & (steps.of_op >= 0)]
    return {
        "rank": [timed.trace.rank] * count,
        "step": range(steps.first, steps.first + count),
        "name": steps.names,
        "warmup": (np.arange(count) < steps.warmup).tolist(),
        "start_ns": steps.start.tolist(),
        "end_ns": steps.end.tolist(),
        "duration_ms": _each_ms(steps.duration),
        "kernels": np.bincount(of_kernels, minlength=count).tolist(),
        "launches": launches_by_step(timed).tolist(),
        "latency_ms": _each_ms(steps.end - steps.host_start),
        **logged_columns(timed.trace, steps.names, steps.duration),
        **_budget_columns(budgets, count),
        **_counter_columns(timed),
    }


def _each_ms(ns: I64) -> list[float]:
    times: list[float] = (ns / NS_PER_MS).tolist()
    return times


def _budget_columns(budgets: StepBudgets | None, count: int) -> dict[str, list[Any]]:
    """Columns of `StepRow` that the budgets fill; without them, and of a log's compute, nothing."""
    names = ("compute", "exposed_communication", "exposed_copy", "idle")
    if budgets is None:
        unknown = [f"{name}_ms" for name in names[1:]]
        return {name: [None] * count for name in (*unknown, "largest_idle_cause")}
    columns: dict[str, list[Any]] = {
        f"{name}_ms": _each_ms(getattr(budgets, name)) for name in names
    }
    return columns | {"largest_idle_cause": _largest_causes(budgets)}


def _largest_causes(budgets: StepBudgets) -> list[str | None]:
    """The cause of the largest part of each step's idle time; None where it has none."""
    causes = list(IdleCause)
    largest = np.argmax(np.stack([budgets.idle_by_cause[cause] for cause in causes]), axis=0)
    return [
        causes[cause].label if idle else None
        for cause, idle in zip(largest.tolist(), budgets.idle.tolist(), strict=True)
    ]


def _counter_columns(timed: Timed) -> dict[str, list[Any]]:
    """Columns of `StepRow` that samples of hardware counters fill."""
    steps = timed.steps
    roles = {"sm_active_share": "sm_active", "tensor_active_share": "tensor", "dram_share": "dram"}
    samples = None if timed.device is None else samples_of(timed, timed.device)
    if samples is None:
        return {name: [None] * len(steps) for name in roles}
    windows = list(zip(steps.start.tolist(), steps.end.tolist(), strict=True))
    return {
        name: [samples.mean(role, start, end, MIN_STEP_SAMPLES) for start, end in windows]
        for name, role in roles.items()
    }


def launches_by_step(timed: Timed) -> I64:
    """Kernel and graph launch calls made in the host range of each step."""
    steps = timed.steps
    time = timed.trace.api_calls.start[is_launch(timed.linked)]
    return np.searchsorted(time, steps.host_end) - np.searchsorted(time, steps.host_start)
