"""What each device did over the whole recording, warm-up included, by exact unions of intervals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from traceanalyzer.analysis.algebra.intervals import IntervalSet, complement, join, subtract, union

if TYPE_CHECKING:
    from traceanalyzer.analysis.joined.linked import Linked
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


def device_activity(linked: Linked, device: int) -> DeviceActivity:
    """The activity of one device (CUDA ordinal); it must have at least one op."""
    ops = linked.trace.device_ops
    here = ops.device == device
    alone = bool(here.all())

    def covered(which: Bool) -> IntervalSet:
        rows = which if alone else which & here
        return union(ops.start[rows], ops.end[rows])

    compute, communication, copy = covered(linked.is_compute), covered(linked.is_communication), covered(linked.is_copy)
    exposed_communication = subtract(communication, compute)
    kernels = join(compute, communication)
    exposed_copy = subtract(copy, kernels)
    start, end = (ops.start, ops.end) if alone else (ops.start[here], ops.end[here])
    span, busy = (int(start.min()), int(end.max())), union(start, end)
    return DeviceActivity(device, span, compute, communication, exposed_communication, copy, exposed_copy, busy)
