"""What each device did over the whole recording, and the counters of it that the recorder
sampled."""

import numpy as np

from traceanalyzer.analysis.algebra import EMPTY, Groups, IntervalSet, clip, covered_before
from traceanalyzer.analysis.time.sampled import samples_of
from traceanalyzer.analysis.time.timed import DeviceActivity, Timed
from traceanalyzer.base import NS_PER_US, dataclass, metric, ms
from traceanalyzer.trace import I64, DeviceOpKind, Trace


@dataclass(frozen=True)
class DeviceTotals:
    """One device over the whole recording, warm-up included: from its first op's start to its last
    one's end."""

    rank: int | None = metric("rank of the process")
    device: int = metric("CUDA ordinal of the device in its process")
    name: str | None = metric("device name")
    span_ms: float = metric("first device op's start to the last one's end")
    busy_ms: float = metric("time with any device op (union of kernels, copies, memsets, graphs)")
    idle_ms: float = metric("span without any device op")
    compute_ms: float = metric(
        "time with a kernel that is not a collective, a memset or a graph (union)"
    )
    communication_ms: float = metric("time with a collective (union)")
    exposed_communication_ms: float = metric("time with a collective and no compute")
    copy_ms: float = metric("time with a memory copy (union)")
    exposed_copy_ms: float = metric("time with a memory copy and neither compute nor collective")
    kernels: int = metric("number of kernels, collectives included")
    copies: int = metric("number of memory copies")
    memsets: int = metric("number of memsets")
    gaps: int = metric("number of stretches of the span without any device op, however short")
    largest_gap_ms: float = metric("longest of them")


def device_totals(timed: Timed) -> list[DeviceTotals]:
    """A row for each device of the trace that did anything, by ordinal."""
    names = {d.id: d.name for d in timed.trace.devices}
    return [
        _totals(timed.trace, activity, names.get(device))
        for device, activity in timed.activity.items()
    ]


def _totals(trace: Trace, activity: DeviceActivity, name: str | None) -> DeviceTotals:
    ops = trace.device_ops
    gaps = activity.gaps
    span = activity.span[1] - activity.span[0]
    kinds = np.bincount(ops.kind[ops.device == activity.device], minlength=max(DeviceOpKind) + 1)
    return DeviceTotals(
        rank=trace.rank,
        device=activity.device,
        name=name,
        span_ms=ms(span),
        busy_ms=ms(activity.busy.total),
        idle_ms=ms(span - activity.busy.total),
        compute_ms=ms(activity.compute.total),
        communication_ms=ms(activity.communication.total),
        exposed_communication_ms=ms(activity.exposed_communication.total),
        copy_ms=ms(activity.copy.total),
        exposed_copy_ms=ms(activity.exposed_copy.total),
        kernels=int(kinds[DeviceOpKind.KERNEL]),
        copies=int(kinds[DeviceOpKind.MEMCPY]),
        memsets=int(kinds[DeviceOpKind.MEMSET]),
        gaps=len(gaps.start),
        largest_gap_ms=ms((gaps.end - gaps.start).max(initial=0)),
    )


@dataclass(frozen=True)
class GpuCounters:
    """Counters sampled during the steady steps on their device, idle time included. Shares are of
    the GPU's peak."""

    sm_active_share: float | None = metric("SMs with work; null where not sampled")
    occupancy_share: float | None = metric(
        "compute warps in flight over those that the SMs can hold; null where not sampled"
    )
    tensor_active_share: float | None = metric(
        "cycles in which the tensor cores worked; null where not sampled"
    )
    dram_share: float | None = metric(
        "traffic of the device memory, reads and writes, over its peak; null where not sampled"
    )
    samples: int = metric("samples in the steady steps")
    period_us: float = metric("time from one sample to the next: shorter kernels are unsampled")


@dataclass(frozen=True)
class CounterStats:
    """One sampled counter of one device over the steady steps."""

    rank: int | None = metric("rank of the process")
    device: int | None = metric("CUDA ordinal of the device; null where the recording does not say")
    counter: str = metric("the counter as the recorder names it")
    counted_in: str | None = metric("its unit as the recorder names it; null where it does not")
    mean: float = metric("mean of the samples in the steady steps, idle time included")
    busy_mean: float | None = metric(
        "mean of those taken while the device had work; null without any"
    )
    max: float = metric("largest of them")
    samples: int = metric("samples in the steady steps")


def gpu_counters(timed: Timed) -> GpuCounters | None:
    """What was sampled of the GPU in the steady steps; None where nothing was."""
    samples = None if timed.device is None else samples_of(timed, timed.device)
    if samples is None:
        return None
    begin = int(timed.steps.start[timed.steps.warmup])
    window = (begin, int(timed.steps.end[-1]))
    count = samples.count(*window)
    if not count:
        return None
    active, occupancy, tensor, dram = (
        samples.mean(role, *window) for role in ("sm_active", "warps", "tensor", "dram")
    )
    return GpuCounters(active, occupancy, tensor, dram, count, samples.period_ns / NS_PER_US)


def counter_stats(timed: Timed) -> list[CounterStats]:
    """A row for each counter of each device, by name."""
    table = timed.trace.gpu_metrics
    begin = int(timed.steps.start[timed.steps.warmup])
    window = (begin, int(timed.steps.end[-1]))
    inside = (table.start > window[0]) & (table.start <= window[1])
    rows = np.flatnonzero(inside & (table.name >= 0))
    groups = Groups.of(table.device[rows], table.name[rows])
    busy = {device: clip(activity.busy, window) for device, activity in timed.activity.items()}
    result = [_counter_row(timed, rows[members], busy) for members in groups.rows]
    return sorted(result, key=lambda row: (row.device or 0, row.counter))


def _counter_row(timed: Timed, rows: I64, busy: dict[int, IntervalSet]) -> CounterStats:
    """The row of these samples of one counter; `busy`: when each device was."""
    table = timed.trace.gpu_metrics
    device = int(table.device[rows[0]])
    value = table.value[rows].astype(np.float64)
    time = table.start[rows]
    working_time = busy.get(timed.device or 0 if device < 0 else device, EMPTY)
    working = covered_before(working_time, time) > covered_before(working_time, time - 1)
    counter, unit = _name_and_unit(timed.trace.strings[table.name[rows[0]]])
    return CounterStats(
        rank=timed.trace.rank,
        device=device if device >= 0 else None,
        counter=counter,
        counted_in=unit,
        mean=float(value.mean()),
        max=float(value.max()),
        busy_mean=float(value[working].mean()) if working.any() else None,
        samples=len(rows),
    )


def _name_and_unit(text: str) -> tuple[str, str | None]:
    """A counter's name and what it is counted in, if its text ends with that in brackets."""
    counter, bracket, unit = text.rpartition(" [")
    return (counter, unit[:-1]) if bracket and unit.endswith("]") else (text, None)
