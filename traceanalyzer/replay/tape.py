"""A recording's steady steps as a tape: host events in order, the device ops they launch, and dependencies.

The launching threads are taken as one sequence of events: the thread that waits for another does nothing, so
at any moment one of them drives the device. Between two events the host works, either on dispatch (which the
profiler slows) or on long stretches of its own (which it hardly does). An op starts when it has been launched,
its stream is free and the ops of other streams that it waits for have ended.
"""

from functools import cached_property
from typing import NamedTuple

from traceanalyzer.analysis.causes.dependencies import Dependencies
from traceanalyzer.analysis.joined.linked import Memo
from traceanalyzer.analysis.roofline.rated import Rated
from traceanalyzer.base.frozen import dataclass
from traceanalyzer.trace import I32, I64, Bool


class Tail(NamedTuple):
    """Host time after the last event, ns."""

    dispatch: int
    work: int
    loading: int
    profiling: int


@dataclass(frozen=True, eq=False)
class Tape(Memo):
    """Arrays of host events (one entry an event, in time order) and of device ops (in launch order)."""

    steps: int
    dispatch: I64
    """Host time before each event on dispatch, ns, waits left out."""
    work: I64
    """Host time before each event on other work of its own, ns."""
    loading: I64
    """Host time before each event on input data, ns."""
    reading: I64
    """Part of `dispatch` inside operators that only read a value and calls that only wait."""
    sending: I64
    """Part of `dispatch` inside calls of collectives: mostly a library's code, which a profiler slows less."""
    profiling: I64
    """Host time before each event on the profiler's own work, ns."""
    waits: Bool
    """Whether the event waits until what was launched before it has ended."""
    waits_for: I64
    """Where it waits for less, the op up to which: -1 for all that was launched before it."""
    reads: Bool
    """Whether the event belongs to an operator that only reads a value."""
    call: I64
    """Row of `Trace.api_calls` that each event is."""
    tail: Tail
    event: I64
    """For each op the event that launches it."""
    stream: I32
    duration: I64
    alone: I64
    """What it would take without a collective beside it, ns."""
    latency: I64
    """From the start of the launch to the earliest start of the op, ns."""
    gap: I64
    """Least pause after the op before it on its stream, ns."""
    dependencies: Dependencies
    communication: Bool
    copy: Bool
    meeting: I64
    """Number of the collective among those that several ranks' tapes share, -1: none (`together`)."""
    row: I64
    """Row of `Trace.device_ops` ..."""
    source: Rated
    """... of this recording."""

    @cached_property
    def step_of_op(self) -> I32:
        """The step that each op belongs to."""
        return self.source.timed.steps.of_op[self.row]

    @property
    def host_ns(self) -> int:
        """Time of the host between its waits."""
        return int((self.dispatch + self.work + self.loading).sum()) + self.tail.dispatch + self.tail.work

    @property
    def compute(self) -> Bool:
        """Which ops are computation."""
        return ~(self.communication | self.copy)
