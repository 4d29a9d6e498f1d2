"""What each device did over the whole recording, warm-up included, by exact unions of intervals."""

from traceanalyzer.analysis.algebra import IntervalSet, complement, join, subtract, union
from traceanalyzer.analysis.joined.linked import Linked
from traceanalyzer.base import dataclass
from traceanalyzer.trace import I64, Bool


@dataclass(frozen=True)
class DeviceActivity:
    """When a device was busy with what. `exposed_*` is time in which nothing further up the list ran."""

    device: int
    start: I64
    end: I64
    """Of all device ops, as in the trace."""
    computes: Bool
    """Which of them are this device's and compute."""
    span: tuple[int, int]
    """First device op's start to the last one's end, ns."""
    communication: IntervalSet
    exposed_communication: IntervalSet
    copy: IntervalSet
    exposed_copy: IntervalSet
    busy: IntervalSet

    @property
    def compute(self) -> IntervalSet:
        """When it computed. Made anew each time: it is nearly as long as all work, and few ask."""
        return union(self.start[self.computes], self.end[self.computes])

    @property
    def gaps(self) -> IntervalSet:
        """Stretches of the span without any device op."""
        return complement(self.span, self.busy)


def device_activity(linked: Linked, device: int) -> DeviceActivity:
    """The activity of one device (CUDA ordinal); it must have at least one op."""
    ops = linked.trace.device_ops
    here = ops.device == device
    alone = bool(here.all())

    def of_device(which: Bool) -> Bool:
        return which if alone else which & here

    def covered(rows: Bool) -> IntervalSet:
        return union(ops.start[rows], ops.end[rows])

    computes = of_device(linked.is_compute)
    compute = covered(computes)
    communication, copy = covered(of_device(linked.is_communication)), covered(of_device(linked.is_copy))
    exposed_communication = subtract(communication, compute)
    exposed_copy = subtract(copy, join(compute, communication))
    if exposed_copy.total == copy.total:
        exposed_copy = copy  # held once
    start, end = (ops.start, ops.end) if alone else (ops.start[here], ops.end[here])
    span, busy = (int(start.min()), int(end.max())), union(start, end)
    return DeviceActivity(
        device, ops.start, ops.end, computes, span, communication, exposed_communication, copy, exposed_copy, busy
    )
