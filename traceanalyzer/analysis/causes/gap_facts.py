"""What is known of idle gaps, on which their causes are decided (`gap_rules`)."""

from functools import cached_property

import numpy as np

from traceanalyzer.analysis.algebra import IntervalSet, at, local_searchsorted, measure, union
from traceanalyzer.analysis.causes.details import host_details, migrates
from traceanalyzer.analysis.causes.doubts import outlasting_waits
from traceanalyzer.analysis.causes.draining import (
    could_be_ahead,
    drained_by,
    keeps_waiting,
    waits_by_end,
)
from traceanalyzer.analysis.causes.started import LaunchEdges
from traceanalyzer.analysis.causes.turns import others_work
from traceanalyzer.analysis.joined.joined import Joined
from traceanalyzer.analysis.joined.launched import last_launch, lost_launches
from traceanalyzer.analysis.names.api import ApiKind
from traceanalyzer.analysis.time.host_timeline import HostState
from traceanalyzer.analysis.time.launch_queue import QUEUED_LATENCY_NS, UNEXPLAINED_NS
from traceanalyzer.base import dataclass
from traceanalyzer.trace import I32, I64, U8, Bool

DOMINANT = 0.5
"""A cause owns a gap if it filled at least this share of it, or if the gap would shrink below that
without it."""


@dataclass(frozen=True, eq=False)
class GapFacts:
    """Some gaps, one entry each; times in ns.

    host     ...work... launch(call, returned)
    device   op |<------ gap ------>| next_op
    """

    started: LaunchEdges
    start: I64
    end: I64
    next_op: I64  # device op that ends the gap, -1 after the last one
    device: I32  # that is idle

    @cached_property
    def duration(self) -> I64:
        """Length of each gap."""
        return self.end - self.start

    @cached_property
    def launch(self) -> I64:
        """When the op that ends it was launched (-1: not recorded); of the last gap its end."""
        return np.where(self.next_op >= 0, self.started.linked.launch_time[self.next_op], self.end)

    @cached_property
    def returned(self) -> I64:
        """When the call that launched it returned."""
        call = np.where(self.next_op >= 0, self.started.linked.launch[self.next_op], -1)
        ended = at(self.started.trace.api_calls.end, call, 0)
        return np.where(call >= 0, ended, self.launch)

    @cached_property
    def in_graph_launch_ns(self) -> I64:
        """Time in the call that launches the graph whose first op ends it."""
        linked = self.started.linked
        call = np.where(self.next_op >= 0, linked.launch[self.next_op], -1)
        launches = at(linked.api_kind, call, 0) == ApiKind.GRAPH_LAUNCH
        inside = np.minimum(self.returned, self.end) - np.maximum(self.launch, self.start)
        return np.where(launches & (call >= 0), np.maximum(inside, 0), 0)

    @cached_property
    def followed(self) -> Bool:
        """Whether an op ends it."""
        return self.next_op >= 0

    @cached_property
    def waited(self) -> I64:
        """How long the op that ends it had been launched while the device was idle."""
        return self.end - np.maximum(self.returned, self.start)

    @cached_property
    def queued(self) -> Bool:
        """Whether the op that ends it had been launched before, or long before it began."""
        held_up = (self.waited >= QUEUED_LATENCY_NS) & (self.waited >= DOMINANT * self.duration)
        launched = (self.launch >= 0) & self.followed
        return launched & ((self.returned <= self.start) | held_up)

    @cached_property
    def late(self) -> Bool:
        """Whether the host had yet to launch the op that ends it."""
        return (self.launch >= 0) & ~self.queued

    @cached_property
    def arrival(self) -> I64:
        """When within the gap the launch came."""
        return np.clip(self.launch, self.start, self.end)

    @cached_property
    def spent(self) -> dict[HostState, I64]:
        """What the host did until then, by its state."""
        states = self.started.timed.timeline.states
        return {state: measure(when, self.start, self.arrival) for state, when in states.items()}

    def fills(self, time: I64) -> Bool:
        """Whether the host was late and this is most of the gap."""
        return self.late & (time >= DOMINANT * self.duration)

    @cached_property
    def wait(self) -> I64:
        """The last blocking call that ended before the launch, -1 if there is none."""
        waits = self.started.joined.memo(waits_by_end)
        last = local_searchsorted(waits.end, self.launch, side="right") - 1
        return at(waits.call, last, -1).astype(np.int64)

    @cached_property
    def drained(self) -> I64:
        """The blocking call that had emptied the queue shortly before the launch, -1: none."""
        return drained_by(self.started, self.launch)

    @cached_property
    def waits_matter(self) -> bool:
        """Whether the host would be ahead of the device without its waits, or keeps waiting."""
        timed = self.started.timed
        return timed.memo(keeps_waiting) or timed.memo(could_be_ahead)

    @cached_property
    def profiler_ns(self) -> I64:
        """Time of the profiler's own work until the launch."""
        return measure(self.started.timed.timeline.profiler, self.start, self.arrival)

    @cached_property
    def outlasting_ns(self) -> I64:
        """Time in waits that went on although all recorded work had ended."""
        waits = self.started.joined.memo(outlasting_waits)
        return measure(waits, self.start, self.end)

    @cached_property
    def neighbour_ns(self) -> I64:
        """Time in which another GPU of the process has its turn."""
        spent = np.zeros(len(self.start), np.int64)
        for own, others in self.started.timed.memo(others_work).items():
            on_device = self.device == own
            spent[on_device] = measure(others, self.start[on_device], self.end[on_device])
        return spent

    @cached_property
    def work_detail(self) -> U8:
        """The kind of host work (`IdleDetail`) that fills most of it."""
        return host_details(self.started.timed, self.start, self.end)

    @cached_property
    def before_input_copy(self) -> Bool:
        """Whether a copy of input data ends it."""
        return self.followed & self.started.input_copies[self.next_op]

    @cached_property
    def stuck(self) -> Bool:
        """Whether the op that ends it had been launched late, and then waited for something that is
        not recorded."""
        least = np.maximum(UNEXPLAINED_NS, DOMINANT * self.duration)
        return self.late & self.followed & (self.waited >= least)

    @cached_property
    def migrates(self) -> Bool:
        """Whether the migration of managed memory ends it, which nobody launched."""
        return ~self.late & ~self.queued & ~self.stuck & migrates(self.started.timed, self.next_op)

    @cached_property
    def in_calls_ns(self) -> I64:
        """Time in API calls that do not wait for the device."""
        return measure(self.started.joined.memo(working_calls), self.start, self.end)

    @cached_property
    def lost(self) -> Bool:
        """Whether kernels were launched meanwhile that are not in the recording: the device may
        have run them."""
        lost = self.started.linked.memo(lost_launches)
        last = self.started.linked.memo(last_launch)
        lost = lost[: np.searchsorted(lost, last, side="right")]
        before = np.searchsorted(lost, self.start, side="left")
        return np.searchsorted(lost, self.arrival, side="left") > before


def working_calls(joined: Joined) -> IntervalSet:
    """When the host was in API calls that do not wait for the device."""
    calls = joined.trace.api_calls
    rows = np.flatnonzero(~joined.blocks)
    return union(calls.start[rows], calls.end[rows])
