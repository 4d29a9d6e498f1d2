"""A recording's steady steps as a tape: host events in order, the device ops they launch, and
dependencies.

The launching threads are taken as one sequence of events: a thread that waits for another does
nothing. Between two events the host works, either on dispatch (which the profiler slows) or on long
stretches of its own (which it hardly does). An op starts when it has been launched, its stream is
free and the ops of others that it waits for have ended."""

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property, wraps
from typing import Concatenate, NamedTuple, ParamSpec, TypeVar

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.analysis.algebra import (
    IntervalSet,
    at,
    isin,
    isin_few,
    measure,
    texts_where,
    union,
)
from traceanalyzer.analysis.causes.dependencies import Dependencies
from traceanalyzer.analysis.joined.backward import made_by
from traceanalyzer.analysis.joined.linked import Linked, Memo
from traceanalyzer.analysis.roofline.rated import Rated
from traceanalyzer.base import NS_PER_S, dataclass
from traceanalyzer.trace import F64, I32, I64, Bool, CopyKind

Entry = TypeVar("Entry", bound=np.generic)


class Tail(NamedTuple):
    """Host time after the last event, ns."""

    dispatch: int
    work: int
    loading: int
    profiling: int


@dataclass(frozen=True, eq=False)
class Tape(Memo):
    """Arrays of host events (one entry an event, in time order) and of device ops (in launch
    order)."""

    steps: int
    dispatch: I64  # host time before each event on dispatch, ns, waits left out
    work: I64  # host time before each event on other work of its own, ns
    loading: I64  # host time before each event on input data, ns
    reading: (
        I64  # part of `dispatch` inside operators that only read a value and calls that only wait
    )
    # part of `dispatch` inside calls of collectives: mostly a library's code, which a profiler
    # slows less
    sending: I64
    profiling: I64  # host time before each event on the profiler's own work, ns
    waits: Bool  # whether the event waits until what was launched before it has ended
    waits_for: (
        I64  # where it waits for less, the op up to which: -1 for all that was launched before it
    )
    reads: Bool  # whether the event belongs to an operator that only reads a value
    call: I64  # row of `Trace.api_calls` that each event is
    tail: Tail
    event: I64  # for each op the event that launches it
    stream: I32
    duration: I64
    alone: I64  # what it would take without a collective beside it, ns
    latency: I64  # from the start of the launch to the earliest start of the op, ns
    gap: I64  # least pause after the op before it on its stream, ns
    dependencies: Dependencies
    communication: Bool
    copy: Bool
    # number of the collective among those that several ranks' tapes share, -1: none (`together`)
    meeting: I64
    row: I64  # row of `Trace.device_ops` ...
    source: Rated  # ... of this recording

    @cached_property
    def step_of_op(self) -> I32:
        """The step that each op belongs to."""
        return self.source.timed.steps.of_op[self.row]

    @property
    def host_before_event(self) -> I64:
        """The host's own time before each event, ns, waits left out."""
        return self.dispatch + self.work + self.loading + self.profiling

    @property
    def host_ns(self) -> int:
        """Time of the host between its waits."""
        return (
            int((self.dispatch + self.work + self.loading).sum())
            + self.tail.dispatch
            + self.tail.work
        )

    @property
    def compute(self) -> Bool:
        """Which ops are computation."""
        return ~(self.communication | self.copy)

    @property
    def nodes(self) -> I64:
        """For each event the node of the host tree that its API call is."""
        return self.source.linked.tree.node_of_call[self.call].astype(np.int64)

    def events_of(self, ops: Bool) -> Bool:
        """Which events launch any of these ops."""
        result = np.zeros(len(self.dispatch), bool)
        result[self.event[ops]] = True
        return result

    def events_of_only(self, ops: Bool) -> Bool:
        """Which events launch some of these ops and no other."""
        return self.events_of(ops) & ~self.events_of(~ops)

    @property
    def launching_events(self) -> Bool:
        """Which events launch anything."""
        return self.events_of(np.ones(len(self.event), bool))

    @property
    def step_of_event(self) -> I32:
        """For each event the step that the ops launched by it, or else by the next that launches
        any, belong to."""
        launching = np.minimum(np.arange(len(self.dispatch)), self.event[-1])
        return self.step_of_op[np.searchsorted(self.event, launching)]

    def before_events(self, intervals: IntervalSet) -> I64:
        """How much of these intervals of the host's time lies before each event and after the one
        before it, ns; before the first one as far back as the tape's host time reaches."""
        called = self.source.trace.api_calls.start[self.call]
        led = self.host_before_event[:1]
        return measure(intervals, np.append(called[:1] - led, called[:-1]), called)

    def after_events(self, intervals: IntervalSet) -> int:
        """How much of these intervals of the host's time lies after the last event and within its
        step, ns."""
        called = self.source.trace.api_calls.start[self.call[-1:]]
        until = self.source.timed.steps.host_end[self.step_of_event[-1:]]
        return int(measure(intervals, called, np.maximum(until, called)).sum())

    def share_within(self, intervals: IntervalSet) -> F64:
        """For each event the share of the host's time since the one before it, of the first as far
        back as the tape's host time reaches, that lies in these intervals."""
        called = self.source.trace.api_calls.start[self.call]
        led = self.host_before_event[:1]
        since = np.diff(called, prepend=called[:1] - led)
        share: F64 = np.divide(
            self.before_events(intervals), since, out=np.zeros(len(since)), where=since > 0
        )
        return share.clip(0.0, 1.0)

    def share_within_ranges(self, ranges: Bool) -> F64:
        """The share within these host ranges (one entry a row of `Trace.host_ranges`)."""
        table = self.source.trace.host_ranges
        return self.share_within(union(table.start[ranges], table.end[ranges]))

    def usual_dispatch_ns(self, ops: Bool) -> float:
        """Median dispatch before the events that launch these ops, ns; 0 without any."""
        return float(np.median(self.dispatch[self.events_of(ops)])) if ops.any() else 0.0

    @property
    def median_dispatch_ns(self) -> float:
        """Median dispatch of the events before which there is any, ns; 0 without any."""
        taken = self.dispatch[self.dispatch > 0]
        return float(np.median(taken)) if len(taken) else 0.0

    def of_launches(self, of_nodes: NDArray[Entry]) -> NDArray[Entry]:
        """For each op the value, of those of the nodes of the host tree, of the call that launches
        it."""
        return of_nodes[self.nodes[self.event]]

    def of_calls(self, of_calls: NDArray[Entry]) -> NDArray[Entry]:
        """For each op the value, of those of the API calls, of the call that launches it."""
        return of_calls[self.call[self.event]]

    def of_classes(self, *names: str) -> Bool:
        """Ops of these classes."""
        linked = self.source.linked
        return isin_few(linked.op_class[self.row], [linked.classes.index(name) for name in names])

    def copies_of(self, kind: CopyKind) -> Bool:
        """Copies in this direction."""
        return self.source.trace.device_ops.copy_kind[self.row] == kind

    @property
    def in_backward(self) -> Bool:
        """Ops that the backward pass launches."""
        return self.of_launches(self.source.joined.in_backward)

    def backward_of(self, operators: Bool) -> Bool:
        """Ops that operators of the forward pass, nodes of the host tree, give rise to in the
        backward pass."""
        return self.of_launches(made_by(self.source.linked, operators))

    @property
    def in_optimizer(self) -> Bool:
        """Ops launched by an optimizer's step, which keeps its own format and is not part of the
        model."""
        return self.of_launches(self.source.linked.memo(within_optimizer))

    @property
    def beside_matrices(self) -> Bool:
        """Kernels that an operator runs beside a matrix kernel of its own (changes of layout, sums
        over parts): a library's business, which no compiler sees."""
        operator = self.of_launches(self.source.linked.tree.operator)
        matrix = self.source.linked.is_matrix[self.row]
        return isin(operator, operator[matrix & (operator >= 0)]) & ~matrix

    def up_to_last(self, ops: Bool) -> Bool:
        """Which ops are no later than the last of these in their step; none where a step has none
        of these."""
        step = self.step_of_op
        index = np.arange(len(ops))
        last = np.full(int(step.max(initial=0)) + 1, -1)
        np.maximum.at(last, step[ops], index[ops])
        return index <= last[step]

    def moving_ns(self, bytes_: I64 | F64, passes: float = 1.0) -> F64:
        """What so many passes over these bytes of each op take at the rate of its GPU's memory, ns;
        0 where that is not known."""
        bandwidth = np.nan_to_num(self.source.linked.limit("bandwidth")[self.row], nan=np.inf)
        return bytes_ * passes / bandwidth * NS_PER_S

    @property
    def forward_operators(self) -> I64:
        """The outermost operators outside of the backward pass, as nodes of the host tree,
        ascending."""
        outer = self.source.linked.tree.outermost_operators
        return outer[~self.source.joined.in_backward[outer]]

    def of_operators(self, operator: I32 | I64, column: I32) -> I32:
        """What a column of `Trace.host_ranges` has for each of these operators, nodes of the host
        tree; -1 for -1."""
        return at(column, at(self.source.linked.tree.row, operator, -1), -1)

    def without(self, ops: Bool) -> "Tape":
        """The ops take no time and leave no gap; what is ordered by them stays so."""
        duration, alone, gap, latency = np.where(
            ops, 0, (self.duration, self.alone, self.gap, self.latency)
        )
        return replace(self, duration=duration, alone=alone, gap=gap, latency=latency)

    def without_launches(self, ops: Bool) -> "Tape":
        """The ops are gone, and so is what the host did to launch them, and its waits for them."""
        return self.without(ops).without_dispatch(self.events_of_only(ops))

    def without_events(self, events: Bool) -> "Tape":
        """What these events launch is gone, and so is all that the host does for them."""
        left = self.without(events[self.event])
        return left.without_dispatch(events).without_work(events)

    def without_calls(self, ops: Bool) -> "Tape":
        """The ops are gone, and so are the calls that launched them; what their operators do on the
        host stays, because they launch others, too."""
        calls = self.source.trace.api_calls
        alone = self.events_of_only(ops)
        called = np.minimum((calls.end - calls.start)[self.call], self.dispatch)
        left = replace(self.without(ops), waits=self.waits & ~alone)
        return left.with_dispatch(np.where(alone, self.dispatch - called, self.dispatch))

    def without_dispatch(self, events: Bool) -> "Tape":
        """The host does nothing before these events but what is work of its own, and waits at none
        of them."""
        return replace(self, waits=self.waits & ~events).with_dispatch(
            np.where(events, 0, self.dispatch)
        )

    def without_work(self, events: Bool) -> "Tape":
        """The host has no long work of its own before these events."""
        return replace(self, work=np.where(events, 0, self.work))

    def dispatch_at_most(self, events: Bool, most_ns: float) -> "Tape":
        """The host takes no longer than that on dispatch before these events."""
        return self.with_dispatch(
            np.where(events, np.minimum(self.dispatch, int(most_ns)), self.dispatch)
        )

    def without_reads(self) -> "Tape":
        """Operators that only read a value are gone, on the device and on the host; waits stay."""
        left = self.without(self.reads[self.event])
        return replace(left, reading=np.zeros_like(self.reading)).with_dispatch(
            self.dispatch - self.reading
        )

    def with_dispatch(self, times: I64 | F64) -> "Tape":
        """The host takes so long on dispatch before each event, ns, and for what it reads there no
        longer than that."""
        dispatch: I64 = np.rint(times).astype(np.int64)
        return replace(self, dispatch=dispatch, reading=np.minimum(self.reading, dispatch))

    def retimed(self, duration: I64 | F64) -> "Tape":
        """The ops take these times, ns; what they would take alone changes in proportion."""
        ratio = np.divide(
            duration, self.duration, out=np.ones(len(duration)), where=self.duration > 0
        )
        alone = np.where(ratio == 1.0, self.alone, self.alone * ratio).astype(np.int64)
        return replace(self, duration=np.rint(duration).astype(np.int64), alone=alone)

    def on_own_stream(self, ops: Bool, *, at_once: bool = True) -> "Tape":
        """The ops run on a stream of their own, `at_once` without what they wait for, and nothing
        waits for them."""
        new_stream = int(self.stream.max(initial=0)) + 1
        own: I32 = np.where(ops, new_stream, self.stream).astype(np.int32)
        waits = self.dependencies
        free = ops & at_once
        named = np.append(ops, False)  # -1, for none, is the last
        awaited = np.where(free | named[waits.awaited], -1, waits.awaited)
        also_awaited = np.where(free | named[waits.also_awaited], -1, waits.also_awaited)
        dependencies = Dependencies(awaited, waits.delay, also_awaited)
        return replace(self, stream=own, dependencies=dependencies)


P = ParamSpec("P")


def within_optimizer(linked: Linked) -> Bool:
    """Which nodes of the host tree are, or lie inside, an optimizer's step."""
    named = texts_where(linked.trace.strings, lambda text: text.startswith("Optimizer."))
    return linked.tree.innermost(linked.tree.named(named)) >= 0


Change = Callable[[Tape], Tape | None]
"""Makes another tape of a tape; None where the recording does not say what it needs."""


def parametric(change: Callable[Concatenate[Tape, P], Tape | None]) -> Callable[P, Change]:
    """What gives the change for some values, from one that takes them after the tape."""
    return wraps(change)(lambda *values, **named: lambda tape: change(tape, *values, **named))
