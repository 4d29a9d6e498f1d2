"""A recording's steady steps as a tape: host events in order, the device ops they launch, and dependencies.

The launching threads are taken as one sequence of events: the thread that waits for another does nothing, so
at any moment one of them drives the device. Between two events the host works, either on dispatch (which the
profiler slows) or on long stretches of its own (which it hardly does). An op starts when it has been launched,
its stream is free and the ops of other streams that it waits for have ended.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from traceanalyzer.analysis.algebra.intervals import IntervalSet, contains, intersect, join, measure, union
from traceanalyzer.analysis.algebra.lookup import blocks, look_up
from traceanalyzer.analysis.algebra.texts import texts_where
from traceanalyzer.analysis.causes.dependencies import Dependencies
from traceanalyzer.analysis.causes.gaps import IdleCause, idle_by_cause
from traceanalyzer.analysis.causes.reads import read_ranges
from traceanalyzer.analysis.causes.start import waited_for
from traceanalyzer.analysis.joined.blocking import RETURN_LATENCY_NS
from traceanalyzer.analysis.names.api import ApiKind
from traceanalyzer.analysis.names.collectives import CALLS
from traceanalyzer.analysis.replay.around import Around
from traceanalyzer.analysis.time.host_timeline import HostState
from traceanalyzer.analysis.time.launch_queue import blocked_time
from traceanalyzer.frozen import dataclass
from traceanalyzer.trace.distinct import distinct

if TYPE_CHECKING:
    from collections.abc import Callable

    from traceanalyzer.analysis.causes.explained import Explained
    from traceanalyzer.analysis.causes.started import Started
    from traceanalyzer.analysis.joined.joined import Joined
    from traceanalyzer.analysis.joined.linked import Linked
    from traceanalyzer.analysis.roofline.rated import Rated
    from traceanalyzer.analysis.time.timed import Timed
    from traceanalyzer.trace import I32, I64, Bool

Made = TypeVar("Made")

MAX_STEPS = 16
"""Steps on a tape at most: more of the same say nothing new and cost time."""
OUTLIER_RATIO = 1.5
"""A step this much slower than the median may have met something that is not the program's (a host hiccup) ..."""
FEW_HICCUPS = 0.2
"""... unless more than this share of the steps did: then it is how the program runs ..."""
NAMELESS = (IdleCause.LAUNCH, IdleCause.HOST, IdleCause.PROFILER, IdleCause.OTHER)
"""What a machine that is busy with something else looks like."""
NAMELESS_SHARE = 0.5
"""... or less than this share of its excess has no cause of its own."""


LONG_HELD_NS = 100_000
"""An op that is queued starts within this, unless it waits for something on another stream."""
HELD_BY = 8
"""Ops that ended before it among which that is looked for."""


class Tail(NamedTuple):
    """Host time after the last event, ns."""

    dispatch: int
    work: int
    loading: int
    profiling: int


@dataclass(frozen=True, eq=False)
class Tape:
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
    def _made(self) -> dict[Callable[[Tape], Any], Any]:
        return {}

    def once(self, make: Callable[[Tape], Made]) -> Made:
        """`make(self)`, worked out when it is first asked for: what tells that a remedy fits is needed for its replay
        again. `make` is a function of a module, which outlives the tape."""
        if make not in self._made:
            self._made[make] = make(self)
        result: Made = self._made[make]
        return result

    @cached_property
    def around(self) -> Around:
        """What of the host tree is around the events."""
        tree = self.source.tree
        return Around.of(tree, tree.node_of_call[self.call].astype(np.int64))

    @cached_property
    def step_of_op(self) -> I32:
        """The step that each op belongs to."""
        result: I32 = self.source.steps.of_op[self.row]
        return result

    @property
    def compute(self) -> Bool:
        """Which ops are computation."""
        result: Bool = ~(self.communication | self.copy)
        return result


def make_tape(rated: Rated, typical: Bool | None = None) -> Tape | None:
    """The tape of the steady steps (those that `typical_steps` chooses, unless given); None where launches or device
    work were not recorded."""
    ops, calls, steps = rated.trace.device_ops, rated.trace.api_calls, rated.steps
    typical = typical_steps(rated) if typical is None else typical
    chosen = np.flatnonzero(rated.steady_ops & (rated.launch >= 0))
    chosen = chosen[typical[steps.of_op[chosen]]]
    if not len(chosen):
        return None
    kept, whole = _host_windows(rated, typical)
    inside = contains(whole, calls.start)
    launching = np.zeros(len(calls), bool)
    launching[rated.launch[chosen]] = True
    rows = np.flatnonzero((launching | rated.blocks) & inside)
    chosen = chosen[np.isin(rated.launch[chosen], rows)]
    if not len(rows) or not len(chosen):
        return None
    event_of_call = np.full(len(calls), -1, np.int64)
    event_of_call[rows] = np.arange(len(rows))
    chosen = chosen[np.lexsort((ops.start[chosen], event_of_call[rated.launch[chosen]]))]
    event = event_of_call[rated.launch[chosen]]
    starts = rated.starts
    held, dependencies = _held_by_others(rated, chosen)
    begin = _cut_at(rated)
    host = _host_time(rated, rows, kept if begin is None else _from(kept, begin))
    reads = contains(read_ranges(rated), calls.start[rows])
    waits, waits_for = _waits(rated, rows, chosen)
    return Tape(
        steps=int(typical.sum()),
        dispatch=host.dispatch[:-1],
        work=host.work[:-1],
        loading=host.loading[:-1],
        reading=host.reading[:-1],
        sending=host.sending[:-1],
        profiling=host.profiling[:-1],
        waits=waits,
        waits_for=waits_for,
        reads=reads,
        call=rows,
        tail=_tail(host, _begins_step(steps.of_op[chosen], event)),
        event=event,
        stream=starts.stream[chosen],
        duration=(ops.end - ops.start)[chosen],
        alone=_alone(rated, chosen),
        latency=_latency_from(rated, chosen, begin),
        gap=starts.pause[chosen].astype(np.int64) + held,
        dependencies=dependencies,
        communication=rated.is_communication[chosen],
        copy=rated.is_copy[chosen],
        meeting=np.full(len(chosen), -1, np.int64),
        row=chosen,
        source=rated,
    )


def _held_by_others(started: Started, chosen: I64) -> tuple[I64, Dependencies]:
    """What each op was held beyond its usual pause, ns, and what it waits for on other streams: one that was held for
    long waited for the op of another stream that ended last before it, not for so much time."""
    ops, stream = started.trace.device_ops, started.starts.stream[chosen]
    held, found = started.starts.held[chosen].astype(np.int64), started.starts.dependencies.among(chosen)
    start, end, also_on = ops.start[chosen], ops.end[chosen], found.also_on.copy()
    ended = np.argsort(end, kind="stable")
    last = np.searchsorted(end[ended], start, side="right")
    for i in np.flatnonzero((held >= LONG_HELD_NS) & (also_on < 0)).tolist():
        candidates = ended[max(last[i] - HELD_BY, 0) : last[i]][::-1]
        usable = candidates[(candidates < i) & (stream[candidates] != stream[i])]
        usable = usable[end[usable] > start[i] - held[i]]
        if len(usable):
            also_on[i], held[i] = usable[0], 0
    return held, Dependencies(found.on, found.delay, also_on)


def typical_steps(*recordings: Explained) -> Bool:
    """For each step of the first of a run's ranks whether the tape holds it: on every rank steady and no hiccup, and of
    a long recording the steps in its middle."""
    typical = _usual(recordings[0])
    for other in recordings[1:]:
        usual = {name for name, here in zip(other.steps.names, _usual(other).tolist(), strict=True) if here}
        typical &= np.array([name in usual for name in recordings[0].steps.names])
    chosen = np.flatnonzero(typical)
    surplus = max(len(chosen) - MAX_STEPS, 0)
    typical[chosen[: surplus // 2]] = False
    typical[chosen[len(chosen) - (surplus - surplus // 2) :]] = False
    return typical


def _usual(explained: Explained) -> Bool:
    usual = ~hiccups(explained)
    usual[: explained.steps.warmup] = False
    return usual


def hiccups(explained: Explained) -> Bool:
    """Steps that took far longer than the median for nothing that the program is known to do: longer by the profiler's
    own time, or, a few, by idle time in which the host was merely slow; not by device work, waits or loading."""
    steps = explained.steps
    median = np.median(steps.duration[steps.steady])
    slow: Bool = steps.duration > OUTLIER_RATIO * median
    if explained.device is None or not slow.any():
        return np.zeros(len(slow), bool)
    idle = idle_by_cause(explained, explained.gaps, explained.device)
    few = slow[steps.steady].mean() <= FEW_HICCUPS
    causes = NAMELESS if few else (IdleCause.PROFILER,)
    nameless = np.sum([idle[cause] for cause in causes], axis=0)
    beyond: Bool = nameless - np.median(nameless[steps.steady]) >= NAMELESS_SHARE * (steps.duration - median)
    return slow & beyond


def _host_windows(timed: Timed, typical: Bool) -> tuple[IntervalSet, IntervalSet]:
    """Host time of the tape's steps, each with what follows it up to the next; a step's host range is cut to the
    length of its window, because the recorder's own start-up and stop are not the step's. And the same from the first
    launch of each step on: a host that is ahead may take longer for a step than the device, which runs all of it."""
    steps = timed.steps
    begin = np.maximum(steps.host_start, steps.host_end - steps.duration)
    until = np.append(np.maximum(steps.host_start[1:], steps.host_end[:-1]), steps.host_end[-1])
    calls = timed.launch[(steps.of_op == len(steps) - 1) & (timed.launch >= 0)]
    launched = timed.trace.api_calls.start[calls]
    if len(calls) and launched.min() < begin[-1]:
        begin[-1] = steps.host_start[-1]
        until[-1] = min(until[-1], max(int(launched.max()) + 1, int(begin[-1] + steps.duration[-1])))
    first = np.maximum(np.minimum(begin, _first_launches(timed)), steps.host_start)
    return union(begin[typical], until[typical]), union(first[typical], until[typical])


def _first_launches(timed: Timed) -> I64:
    """When the host launched the first op of each step."""
    launched = (timed.launch >= 0) & (timed.steps.of_op >= 0)
    result = np.full(len(timed.steps), np.iinfo(np.int64).max)
    for here in blocks(len(launched)):
        step, call = (column[here][launched[here]] for column in (timed.steps.of_op, timed.launch))
        np.minimum.at(result, step, timed.trace.api_calls.start[call])
    return result


def _cut_at(rated: Rated) -> int | None:
    """Where the only step begins, if that is where its device work does: what the host did before is not part of it.
    Of several steps the next one's lead takes the place of the first one's."""
    ops, steps = rated.trace.device_ops, rated.steps
    first = np.flatnonzero(steps.of_op == 0)[:1]
    if len(steps) > 1 or not len(first) or ops.start[first[0]] != steps.start[0]:
        return None
    return int(steps.start[0]) if steps.start[0] > steps.host_start[0] else None


def _from(kept: IntervalSet, begin: int) -> IntervalSet:
    last = int(kept.end[-1])
    return intersect(kept, union(np.array([min(begin, last - 1)]), np.array([last])))


def _latency_from(rated: Rated, chosen: I64, begin: int | None) -> I64:
    """Launch latency of ops in a step that begins here: of what was launched before only what is left of it."""
    latency = rated.starts.latency[chosen].astype(np.int64)
    if begin is None:
        return latency
    left = np.maximum(rated.trace.device_ops.start[chosen] - begin, 0)
    return np.where(rated.launch_time[chosen] < begin, np.minimum(latency, left), latency)


def _alone(linked: Linked, chosen: I64) -> I64:
    """Duration of each op, for compute beside a collective that of its like (same name) without one, ns."""
    ops = linked.trace.device_ops
    duration = (ops.end - ops.start)[chosen]
    collective = union(ops.start[linked.is_communication], ops.end[linked.is_communication])
    beside = measure(collective, ops.start[chosen], ops.end[chosen]) * 2 > duration
    slowed = beside & ~linked.is_communication[chosen]
    result = duration.copy()
    for name in distinct(ops.name[chosen[slowed]]).tolist():
        like = ops.name[chosen] == name
        free = like & ~beside
        if free.any():
            result[like & slowed] = np.minimum(duration[like & slowed], int(np.median(duration[free])))
    return result


@dataclass(frozen=True, eq=False)
class _HostTime:
    """Host time before each event and, last, after all of them, ns."""

    dispatch: I64
    work: I64
    loading: I64
    reading: I64
    sending: I64
    profiling: I64


def _begins_step(step: I32, event: I64) -> I64:
    """The first event of each step but the first."""
    events = np.sort(event[np.diff(step, prepend=step[:1]) > 0])
    result: I64 = distinct(events)
    return result


def _tail(host: _HostTime, begins: I64) -> Tail:
    """Host time after the last event, ns: its dispatch and work no longer than between two steps of the tape, because
    there the recorder ends."""
    dispatch, work = int(host.dispatch[-1]), int(host.work[-1])
    if len(begins):
        dispatch = min(dispatch, int(np.median(host.dispatch[begins])))
        work = min(work, int(np.median(host.work[begins])))
    return Tail(dispatch, work, int(host.loading[-1]), int(host.profiling[-1]))


def _host_time(timed: Started, rows: I64, kept: IntervalSet) -> _HostTime:
    calls = timed.trace.api_calls
    start = np.append(min(kept.start[0], calls.start[rows[0]]), calls.start[rows])
    end = np.append(calls.start[rows], kept.end[-1])
    states = {state: intersect(covered, kept) for state, covered in timed.timeline.states.items()}
    profiling = measure(intersect(timed.timeline.profiler, kept), start, end)
    loading = measure(states[HostState.INPUT], start, end)
    work = sum(measure(states[s], start, end) for s in (HostState.WORK, HostState.ALLOCATE, HostState.COMMUNICATION))
    waited = np.append(0, waited_time(timed, rows) + blocked_time(timed, rows))
    work = np.maximum(work - profiling, 0)
    dispatch = np.maximum(measure(kept, start, end) - loading - work - profiling - waited, 0)
    brings = np.append(timed.call_brings_input[rows], False)
    loading, work = np.where(brings, loading + work, loading), np.where(brings, 0, work)
    reading = np.clip(measure(_reading(timed), start, end) - waited, 0, dispatch)
    sending = np.minimum(measure(_sending(timed), start, end), dispatch - reading)
    return _HostTime(dispatch, work, loading, reading, sending, profiling)


def _waits(timed: Timed, rows: I64, chosen: I64) -> tuple[Bool, I64]:
    """Which of these calls wait for device work; and, where one returned while work launched before it still ran, as a
    wait for an event does, the place among the `chosen` ops of the one that it waited for, -1 for the others. One that
    waited for nothing, or for no chosen op, does not wait."""
    calls = timed.trace.api_calls
    waits, result = timed.blocks[rows].copy(), np.full(len(rows), -1, np.int64)
    early = waits & (timed.api_kind[rows] == ApiKind.SYNC)
    early &= timed.drained_at(calls.start[rows]) > calls.end[rows] + RETURN_LATENCY_NS
    if not early.any():
        return waits, result
    place = np.full(len(timed.trace.device_ops), -1, np.int64)
    place[chosen] = np.arange(len(chosen))
    found, op = waited_for(timed, rows[early])
    result[np.searchsorted(rows, found)] = place[op]
    return waits & (~early | (result >= 0)), result


def _sending(linked: Linked) -> IntervalSet:
    """Host time in calls of collectives."""
    ranges = linked.trace.host_ranges
    rows = texts_where(linked.trace.strings, CALLS.match)[ranges.name]
    return union(ranges.start[rows], ranges.end[rows])


def waited_time(joined: Joined, rows: I64) -> I64:
    """How long each of these calls (ascending) waited for the device, ns: until what was launched before it ended."""
    calls, ops = joined.trace.api_calls, joined.trace.device_ops
    target = joined.drained_at(calls.start[rows] + 1)
    copying = np.flatnonzero(joined.is_copy & (joined.launch >= 0))
    place = look_up(rows, joined.launch[copying])
    own = np.zeros(len(rows), np.int64)
    own[place[place >= 0]] = ops.end[copying[place >= 0]]
    target = np.maximum(target, own)
    waited = np.clip(np.minimum(target, calls.end[rows]) - calls.start[rows], 0, None)
    return np.where(joined.blocks[rows], waited, 0)


def _reading(joined: Joined) -> IntervalSet:
    """Host time in operators that only read a value, and in calls that wait and launch nothing."""
    calls, waiting = joined.trace.api_calls, joined.blocks.copy()
    waiting[joined.launch[joined.launch >= 0]] = False
    return join(read_ranges(joined), union(calls.start[waiting], calls.end[waiting]))
