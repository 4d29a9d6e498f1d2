"""A joined trace in time: its steps, what the devices did, what the host was doing."""

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from traceanalyzer.analysis.algebra.blocks import blockwise
from traceanalyzer.analysis.algebra.columns import dedup_constant
from traceanalyzer.analysis.algebra.intervals import IntervalSet, complement, join, subtract, union
from traceanalyzer.analysis.algebra.lookup import Column, local_searchsorted
from traceanalyzer.analysis.joined.joined import HostAttribution
from traceanalyzer.analysis.joined.linked import Memo, TraceJoins
from traceanalyzer.analysis.time.collective_calls import CollectiveCalls, collective_calls
from traceanalyzer.analysis.time.host_timeline import HostTimeline
from traceanalyzer.analysis.time.steps import Steps, find_steps
from traceanalyzer.base import dataclass
from traceanalyzer.trace import I64, Bool, Trace, distinct, is_sorted


@dataclass(frozen=True)
class DeviceActivity:
    """When a device was busy with what. `exposed_*` is time in which nothing further up the list
    ran."""

    device: int
    start: I64
    end: I64  # of all device ops, as in the trace
    computes: Bool  # which of them are this device's and compute
    span: tuple[int, int]  # first device op's start to the last one's end, ns
    communication: IntervalSet
    exposed_communication: IntervalSet
    copy: IntervalSet
    exposed_copy: IntervalSet
    busy: IntervalSet

    @property
    def compute(self) -> IntervalSet:
        """When it computed. Made again at each call: it is nearly as long as all work, and few ask."""
        return union(self.start[self.computes], self.end[self.computes])

    @property
    def gaps(self) -> IntervalSet:
        """Stretches of the span without any device op."""
        return complement(self.span, self.busy)


def device_activity(linked: TraceJoins, device: int) -> DeviceActivity:
    """The activity of one device (CUDA ordinal); it must have at least one op."""
    ops = linked.trace.device_ops
    own = ops.device == device
    alone = bool(own.all())

    def of_device(chosen: Bool) -> Bool:
        return chosen if alone else chosen & own

    def time_of(chosen: Bool) -> IntervalSet:
        return union(ops.start[chosen], ops.end[chosen])

    computes = of_device(linked.is_compute)
    compute = time_of(computes)
    communication = time_of(of_device(linked.is_communication))
    copy = time_of(of_device(linked.is_copy))
    exposed_copy = subtract(copy, join(compute, communication))
    start = ops.start if alone else ops.start[own]
    end = ops.end if alone else ops.end[own]
    return DeviceActivity(
        device=device,
        start=ops.start,
        end=ops.end,
        computes=computes,
        span=(int(start.min()), int(end.max())),
        communication=communication,
        exposed_communication=subtract(communication, compute),
        copy=copy,
        exposed_copy=copy if exposed_copy.total == copy.total else exposed_copy,  # held once
        busy=union(start, end),
    )


@dataclass(frozen=True, eq=False)
class Timed(Memo):
    """Steps and the activity of devices and host."""

    joined: HostAttribution
    only_step: int | None = None  # narrows every figure to the step with that index

    @property
    def trace(self) -> Trace:
        """The recording."""
        return self.joined.trace

    @property
    def linked(self) -> TraceJoins:
        """The joins of its rows."""
        return self.joined.linked

    @cached_property
    def steps(self) -> Steps:
        """The recording's steps; one step that spans everything where it has none."""
        steps = find_steps(self.linked)
        return steps if self.only_step is None else steps.only(self.only_step)

    @cached_property
    def steady_ops(self) -> Bool:
        """Which device ops belong to a steady-state step."""
        return dedup_constant(self.steps.of_op >= self.steps.warmup)

    def steady_host(self, start: Column) -> Bool:
        """Which of these host times lie in the host range of a steady-state step."""
        steady = self.steps.steady
        first = self.steps.host_start[steady]
        last = self.steps.host_end[steady]

        until = np.minimum(last, np.append(first[1:], last[-1]))

        def is_steady(time: I64) -> Bool:
            if is_sorted(time):
                return _in_ranges(time, first, until)
            index = local_searchsorted(first, time, side="right") - 1
            return (index >= 0) & (time < last[np.maximum(index, 0)])

        return blockwise(is_steady, start)

    def until_steady_end(self, end: I64) -> I64:
        """These ends of host ranges, ns, none after the last steady-state step's on the host: its
        last range may outlast it."""
        return np.minimum(end, self.steps.host_end[self.steps.steady][-1])

    @cached_property
    def steady_calls(self) -> Bool:
        """Which API calls begin in the host range of a steady-state step."""
        return dedup_constant(self.steady_host(self.trace.api_calls.start))

    @cached_property
    def activity(self) -> dict[int, DeviceActivity]:
        """What each device did, by CUDA ordinal in ascending order; only devices with at least one
        op."""
        return {
            int(d): device_activity(self.linked, int(d))
            for d in distinct(self.trace.device_ops.device)
        }

    @cached_property
    def device(self) -> int | None:
        """The device the figures of a step speak of: the one with the most busy time; None without
        any."""
        return max(self.activity, key=lambda d: self.activity[d].busy.total, default=None)

    @cached_property
    def timeline(self) -> HostTimeline:
        """What the host was doing over time."""
        return HostTimeline.build(self.joined, self.steps)

    @cached_property
    def collective_calls(self) -> CollectiveCalls:
        """The collectives on the devices, with what their framework said about them."""
        return collective_calls(self.linked, self.steps)


def _in_ranges(times: I64, first: I64, end: I64) -> Bool:
    """Which of these times, which ascend, lie in ranges, which ascend and do not overlap."""
    inside = np.zeros(len(times), bool)
    if not len(times):
        return inside
    low, high = np.searchsorted(first, times[[0, -1]], side="right").tolist()
    near = slice(max(low - 1, 0), high)
    begins = np.searchsorted(times, first[near]).tolist()
    ends = np.searchsorted(times, end[near]).tolist()
    for rows in map(slice, begins, ends):
        inside[rows] = True
    return inside


class HasTimed(Memo):
    """What holds a timed trace: what that is made of is at hand."""

    if TYPE_CHECKING:

        @property
        def timed(self) -> Timed:
            """The recording in time."""

    @property
    def trace(self) -> Trace:
        """The recording."""
        return self.timed.trace

    @property
    def linked(self) -> TraceJoins:
        """The joins of its rows."""
        return self.timed.linked

    @property
    def joined(self) -> HostAttribution:
        """The joins made from these."""
        return self.timed.joined
