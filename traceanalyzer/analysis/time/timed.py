"""A joined trace in time: its steps, what the devices did, what the host was doing."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from traceanalyzer.analysis.algebra.lean import flat
from traceanalyzer.analysis.algebra.lookup import blocks, places
from traceanalyzer.analysis.joined.joined import Joined
from traceanalyzer.analysis.time.collective_calls import CollectiveCalls, collective_calls
from traceanalyzer.analysis.time.devices import DeviceActivity, device_activity
from traceanalyzer.analysis.time.host_timeline import HostTimeline
from traceanalyzer.analysis.time.steps import Steps, find_steps
from traceanalyzer.trace.distinct import distinct

if TYPE_CHECKING:
    from traceanalyzer.analysis.algebra.lookup import Column
    from traceanalyzer.analysis.joined.knowledge import Knowledge
    from traceanalyzer.trace import Bool, Trace


class Timed(Joined):
    """`Joined` with steps and the activity of devices and host."""

    def __init__(self, trace: Trace, knowledge: Knowledge | None = None, only_step: int | None = None) -> None:
        """`only_step` narrows every figure to the step with that index."""
        super().__init__(trace, knowledge)
        self.only_step = only_step

    @cached_property
    def steps(self) -> Steps:
        """The recording's steps; one step that spans everything where it has none."""
        steps = find_steps(self)
        return steps if self.only_step is None else steps.only(self.only_step)

    @cached_property
    def steady_ops(self) -> Bool:
        """Which device ops belong to a steady-state step."""
        return flat(self.steps.of_op >= self.steps.warmup)

    def steady_host(self, start: Column) -> Bool:
        """Which of these host times lie in the host range of a steady-state step."""
        steady = self.steps.steady
        first, last = self.steps.host_start[steady], self.steps.host_end[steady]
        result = np.empty(len(start), bool)
        for here in blocks(len(start)):
            time = start[here]
            index = places(first, time, side="right") - 1
            result[here] = (index >= 0) & (time < last[np.maximum(index, 0)])
        return result

    @cached_property
    def steady_calls(self) -> Bool:
        """Which API calls begin in the host range of a steady-state step."""
        return flat(self.steady_host(self.trace.api_calls.start))

    @cached_property
    def activity(self) -> dict[int, DeviceActivity]:
        """What each device did, by CUDA ordinal in ascending order; only devices with at least one op."""
        return {int(d): device_activity(self, int(d)) for d in distinct(self.trace.device_ops.device)}

    @cached_property
    def device(self) -> int | None:
        """The device the figures of a step speak of: the one with the most busy time; None without any."""
        return max(self.activity, key=lambda d: self.activity[d].busy.total, default=None)

    @cached_property
    def timeline(self) -> HostTimeline:
        """What the host was doing over time."""
        return HostTimeline.build(self, self.steps)

    @cached_property
    def collective_calls(self) -> CollectiveCalls:
        """The collectives on the devices, with what their framework said about them."""
        return collective_calls(self, self.steps)
