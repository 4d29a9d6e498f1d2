"""What each device did over the whole recording, warm-up included, by exact unions of intervals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from traceanalyzer.analysis.algebra.intervals import IntervalSet, complement, join, subtract, union
from traceanalyzer.figures import metric, ms
from traceanalyzer.trace import DeviceOpKind

if TYPE_CHECKING:
    from traceanalyzer.analysis.context import Context
    from traceanalyzer.trace import Bool


@dataclass(frozen=True)
class DeviceActivity:
    """When a device was busy with what. `exposed_*` is time in which nothing further up the list ran."""

    device: int
    span: tuple[int, int]
    """First device op's start to the last one's end, ns."""
    compute: IntervalSet
    communication: IntervalSet
    exposed_communication: IntervalSet
    copy: IntervalSet
    exposed_copy: IntervalSet
    busy: IntervalSet

    @property
    def gaps(self) -> IntervalSet:
        """Stretches of the span without any device op."""
        return complement(self.span, self.busy)


def device_activity(ctx: Context, device: int) -> DeviceActivity:
    """The activity of one device (CUDA ordinal); it must have at least one op."""
    ops = ctx.trace.device_ops
    here = ops.device == device

    def covered(which: Bool) -> IntervalSet:
        return union(ops.start[here & which], ops.end[here & which])

    compute, communication, copy = covered(ctx.is_compute), covered(ctx.is_communication), covered(ctx.is_copy)
    exposed_communication = subtract(communication, compute)
    kernels = join(compute, communication)
    exposed_copy = subtract(copy, kernels)
    span = (int(ops.start[here].min()), int(ops.end[here].max()))
    busy = join(kernels, copy)
    return DeviceActivity(device, span, compute, communication, exposed_communication, copy, exposed_copy, busy)


@dataclass(frozen=True)
class DeviceTotals:
    """One device over the whole recording, warm-up included: from its first op's start to its last one's end."""

    rank: int | None = metric("rank of the process")
    device: int = metric("CUDA ordinal of the device in its process")
    name: str | None = metric("device name")
    span_ms: float = metric("first device op's start to the last one's end", "ms")
    busy_ms: float = metric("time with any device op (union of kernels, copies, memsets, graphs)", "ms")
    idle_ms: float = metric("span without any device op", "ms")
    compute_ms: float = metric("time with a kernel that is not a collective, a memset or a graph (union)", "ms")
    communication_ms: float = metric("time with a collective (union)", "ms")
    exposed_communication_ms: float = metric("time with a collective and no compute", "ms")
    copy_ms: float = metric("time with a memory copy (union)", "ms")
    exposed_copy_ms: float = metric("time with a memory copy and neither compute nor collective", "ms")
    kernels: int = metric("number of kernels, collectives included")
    copies: int = metric("number of memory copies")
    memsets: int = metric("number of memsets")
    gaps: int = metric("number of stretches of the span without any device op, however short")
    largest_gap_ms: float = metric("longest of them", "ms")


def device_totals(ctx: Context) -> list[DeviceTotals]:
    """A row for each device of the trace that did anything, by ordinal."""
    names = {d.id: d.name for d in ctx.trace.devices}
    return [_totals(ctx, a, names.get(a.device)) for a in ctx.activity.values()]


def _totals(ctx: Context, activity: DeviceActivity, name: str | None) -> DeviceTotals:
    ops = ctx.trace.device_ops
    kinds = np.bincount(ops.kind[ops.device == activity.device], minlength=max(DeviceOpKind) + 1)
    gaps = activity.gaps
    span = activity.span[1] - activity.span[0]
    return DeviceTotals(
        rank=ctx.trace.rank,
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
