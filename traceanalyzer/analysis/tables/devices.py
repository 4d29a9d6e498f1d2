"""What each device did over the whole recording, as a table."""

from __future__ import annotations

import numpy as np

from traceanalyzer.analysis.joined.linked import Linked
from traceanalyzer.analysis.time.devices import DeviceActivity
from traceanalyzer.analysis.time.timed import Timed
from traceanalyzer.base.figures import metric, ms
from traceanalyzer.base.frozen import dataclass
from traceanalyzer.trace import DeviceOpKind


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


def device_totals(timed: Timed) -> list[DeviceTotals]:
    """A row for each device of the trace that did anything, by ordinal."""
    names = {d.id: d.name for d in timed.trace.devices}
    return [_totals(timed.linked, a, names.get(a.device)) for a in timed.activity.values()]


def _totals(linked: Linked, activity: DeviceActivity, name: str | None) -> DeviceTotals:
    ops = linked.trace.device_ops
    kinds = np.bincount(ops.kind[ops.device == activity.device], minlength=max(DeviceOpKind) + 1)
    gaps = activity.gaps
    span = activity.span[1] - activity.span[0]
    return DeviceTotals(
        rank=linked.trace.rank,
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
