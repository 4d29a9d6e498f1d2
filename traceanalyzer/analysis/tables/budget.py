"""The step's wall-clock budget on the device it is measured on, and its idle time by cause, step by
step and as means over the steady state.

Compute goes first, then communication that compute does not hide, then copies that neither hides,
then idle: a partition, so the parts sum to the step."""

from collections.abc import Iterable
from dataclasses import astuple, fields
from functools import partial
from typing import Any, Literal

import numpy as np

from traceanalyzer.analysis.algebra import IntervalSet, measure
from traceanalyzer.analysis.causes.gaps import Gaps, idle_by_cause
from traceanalyzer.analysis.causes.idle_cause import IdleCause
from traceanalyzer.analysis.joined.launched import is_launch
from traceanalyzer.analysis.tables.logged_steps import logged_columns
from traceanalyzer.analysis.time.sampled import MIN_STEP_SAMPLES, samples_of
from traceanalyzer.analysis.time.steps import Steps
from traceanalyzer.analysis.time.timed import Timed
from traceanalyzer.base import MEMORY, NS_PER_MS, dataclass, maybe, metric, ms
from traceanalyzer.trace import I64

logged = partial(maybe, missed=False)
"""A figure that timing logs alone have: no other recording lacks it."""


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
    """Partition of the step's wall-clock time on the critical device; the four parts sum to the
    mean step time."""

    compute: float = metric(
        (
            "time with a kernel that is not a collective, a memset or a CUDA graph on the "
            "device (union of intervals)"
        ),
        "ms",
    )
    exposed_communication: float = metric(
        "time with a collective but no compute on the device", "ms"
    )
    exposed_copy: float = metric(
        "time with a memory copy but neither compute nor collective on the device", "ms"
    )
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
class Waiting:
    """What of `Budget.exposed_communication` is waiting for other ranks, by what the rank that came
    last was doing, or, where that one waited itself, the one that it waited for."""

    compute: float = metric("waiting for a rank: it was still computing", "ms")
    transfer: float = metric("waiting for a rank: it was still in another collective", "ms")
    copy: float = metric("waiting for a rank: it was still copying memory", "ms")
    launch: float = metric("its host issued work too slowly", "ms")
    sync: float = metric("its host had waited for its device, so nothing was queued", "ms")
    input: float = metric("its host was waiting for or preparing input data", "ms")
    host: float = metric("its host did other work between launches (Python, allocation, I/O)", "ms")
    communication: float = metric("it waited for communication on the host", "ms")
    profiler: float = metric("the profiler's own work", "ms")
    other: float = metric("the recordings do not tell", "ms")

    @property
    def total(self) -> float:
        """All of it."""
        return float(sum(astuple(self)))


@dataclass(frozen=True)
class Unprofiled:
    """The mean steady-state step without the profiler, in the same parts as the recorded one."""

    step_time_ms: float = metric("step time without the profiler")
    low_ms: float = metric("lower end of its 90 % range: nine of ten stopwatch medians lie inside")
    high_ms: float = metric("upper end of it")
    source: Literal["measured", "estimated"] = metric(
        "`measured`: timed by the capture; `estimated`: the recording replayed without "
        "the profiler's usual cost"
    )
    budget_ms: Budget = metric("the step's wall-clock time by what the device did, summing to it")
    idle_ms: Idle = metric("its idle time by cause, summing to `budget_ms.idle`")
    waiting_ms: Waiting | None = maybe(
        "what of `budget_ms.exposed_communication` is waiting for other ranks, by cause; the rest is transfer; null "
        "where ranks were not replayed together"
    )
    if_host_slower: float | None = maybe(
        "by which share it grows for each 100 % that the host takes longer: 0 where the GPU bounds it, 1 where the "
        "host does; null where it was not replayed",
        "share",
    )
    if_host_faster: float | None = maybe("by which share it shrinks for each 100 % less", "share")


@dataclass(frozen=True)
class Step:
    """The step that a report speaks of: the one without the profiler where it is known, else the
    recorded one."""

    basis: Literal["unprofiled", "recorded"]
    step_ms: float
    budget: Budget | None
    idle: Idle | None
    waiting: Waiting | None = None


def step_time(steps: Steps) -> StepTime | None:
    """Distribution over the steady-state steps; None where the recording has no steps."""
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
    data_ms: float | None = logged("time waiting for data, as a timing log says")
    forward_ms: float | None = logged("time of the forward pass, as a timing log says")
    backward_ms: float | None = logged("time of the backward pass, as a timing log says")
    optimizer_ms: float | None = logged("time of the optimizer, as a timing log says")
    phases: str | None = logged("phases by names of the program's own, with their times")
    samples: int | None = logged("samples of the step, as a timing log says")
    tokens: int | None = logged("tokens of the step without padding, as a timing log says")
    loss: float | None = logged("loss of the step, as a timing log says")
    grad_norm: float | None = logged("norm of its gradients, as a timing log says")
    peak_memory_bytes: int | None = logged("most GPU memory in use until then", MEMORY)


def step_rows(timed: Timed, budgets: StepBudgets | None) -> list[StepRow]:
    """A row a step, warm-up included. They are made of whole columns: logs have 100,000 steps and
    more."""
    steps = timed.steps
    count = len(steps)
    of_kernels = steps.of_op[timed.linked.is_kernel & (steps.of_op >= 0)]
    columns: dict[str, Iterable[Any]] = {
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
    in_order = (columns[f.name] for f in fields(StepRow))
    return [StepRow(*row) for row in zip(*in_order, strict=True)]


def _each_ms(ns: I64) -> list[float]:
    return [ms(one) for one in ns.tolist()]


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
