"""The step in figures: its time, what the device did in it, and what it waited for."""

from collections.abc import Mapping
from dataclasses import astuple, fields
from typing import Literal

from traceanalyzer.analysis.causes.idle_cause import IdleCause
from traceanalyzer.base import dataclass, maybe, metric


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
    """Waiting for other ranks, by what the rank that came last was doing, or, where that one waited
    itself, the one that it waited for."""

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

    @classmethod
    def of(cls, times_ms: Mapping[str, float]) -> "Waiting":
        """Waiting of these causes; none of the others."""
        return cls(**{one.name: times_ms.get(one.name, 0.0) for one in fields(cls)})

    def __add__(self, other: "Waiting") -> "Waiting":
        return Waiting(*map(sum, zip(astuple(self), astuple(other), strict=True)))


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
    idle_waiting_ms: Waiting | None = maybe(
        "what of `idle_ms.communication` is waiting for other ranks, by cause: more than the recording has exposed "
        "communication; null where there is none, or ranks were not replayed together"
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
    """What of `budget.exposed_communication` is waiting for other ranks."""
    idle_waiting: Waiting | None = None
    """What of `idle.communication` is."""

    @property
    def waited(self) -> Waiting:
        """All waiting for other ranks."""
        none = Waiting.of({})
        return (self.waiting or none) + (self.idle_waiting or none)
