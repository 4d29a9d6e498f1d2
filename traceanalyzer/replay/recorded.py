"""The tape of a recording: host time, launches, waits and dependencies of steady steps without
hiccups."""

import numpy as np

from traceanalyzer.analysis.algebra import (
    IntervalSet,
    complement,
    contains,
    covered_before,
    intersect,
    isin_few,
    join,
    look_up,
    measure,
    scatter,
    texts_where,
    union,
)
from traceanalyzer.analysis.causes.causes import Causes
from traceanalyzer.analysis.causes.dependencies import Dependencies
from traceanalyzer.analysis.causes.gaps import idle_by_cause
from traceanalyzer.analysis.causes.idle_cause import IdleCause
from traceanalyzer.analysis.causes.start import waited_for
from traceanalyzer.analysis.causes.started import LaunchEdges
from traceanalyzer.analysis.joined.blocking import RETURN_LATENCY_NS, read_ranges
from traceanalyzer.analysis.joined.joined import Joined
from traceanalyzer.analysis.joined.linked import Linked
from traceanalyzer.analysis.joined.without_collectives import duration_without_collectives
from traceanalyzer.analysis.names.api import ApiKind
from traceanalyzer.analysis.names.collectives import CALLS
from traceanalyzer.analysis.roofline.rated import Rated
from traceanalyzer.analysis.time.host_timeline import HostState
from traceanalyzer.analysis.time.launch_queue import blocked_time
from traceanalyzer.analysis.time.timed import Timed
from traceanalyzer.replay.tape import Tail, Tape
from traceanalyzer.trace import I32, I64, Bool, distinct

LONG_HELD_NS = 100_000
"""An op that is queued starts within this, unless it waits for something on another stream."""
UNLAUNCHED_SHARE = 0.1  # a replay that leaves out more is off by more than may be quoted
PAUSES_TO_A_WAIT = 4
"""Python that leads from an operator to a wait takes no longer than so many usual pauses between
operators: 3.1 for `torch.cuda.synchronize` on two hosts, one of them half as fast, 1 for `item`."""
HELD_BY_OPS = 8  # those that ended before it among which that is looked for


MAX_STEPS = 16  # steps on a tape at most: more of the same say nothing new and cost time
OUTLIER_RATIO = 1.5
"""A step this much slower than the median may have met something that is not the program's (a host
hiccup) ..."""
FEW_HICCUPS = 0.2
"""... unless more than this share of the steps did: then it is how the program runs ..."""
NAMELESS = (IdleCause.LAUNCH, IdleCause.HOST, IdleCause.PROFILER, IdleCause.OTHER)
"""What a machine that is busy with something else looks like."""
NAMELESS_SHARE = 0.5  # ... or less than this share of its excess has no cause of its own


def make_tape(rated: Rated, typical: Bool | None = None) -> Tape | None:
    """The tape of the steady steps (those that `typical_steps` chooses, unless given); None where
    launches or device work were not recorded."""
    launch = rated.linked.launch
    launching = rated.joined.blocks.copy()
    chosen = np.flatnonzero(rated.timed.steady_ops & (launch >= 0))
    if not len(chosen) or waits_for_unlaunched(rated):
        return None
    typical = typical_steps(rated.causes) if typical is None else typical
    kept, windows = _host_windows(rated.timed, typical)
    chosen = chosen[typical[rated.timed.steps.of_op[chosen]]]
    # The events: calls that launch or wait in the host's time.
    launching[launch[chosen]] = True
    rows = np.flatnonzero(launching & contains(windows, rated.trace.api_calls.start))
    chosen = chosen[np.isin(launch[chosen], rows)]
    if not len(rows) or not len(chosen):
        return None
    chosen = chosen[np.lexsort((rated.trace.device_ops.start[chosen], launch[chosen]))]
    kept, latency = _cut(rated, chosen, kept)
    return _tape(
        rated, rows, chosen, _host_time(rated.started, rows, kept), int(typical.sum()), latency
    )


def waits_for_unlaunched(rated: Rated) -> bool:
    """Whether much of the steps is idle time that ends with work which no call launched, such as
    migrations of managed memory: what that waits for is not on a tape."""
    return rated.memo(unlaunched_share) > UNLAUNCHED_SHARE


def unlaunched_share(rated: Rated) -> float:
    """Share of the steps that is idle time of the host's which ends with work that no call
    launched."""
    gaps = rated.causes.gaps
    steps = rated.timed.steps
    ended = np.flatnonzero((gaps.next_op >= 0) & (gaps.cause == IdleCause.HOST))
    following = gaps.next_op[ended]
    ended = ended[(rated.linked.launch[following] < 0) & rated.timed.steady_ops[following]]
    lasted = int(steps.duration[steps.steady].sum())
    return float((gaps.end[ended] - gaps.start[ended]).sum()) / lasted if lasted else 0.0


def _tape(
    rated: Rated, rows: I64, chosen: I64, host: dict[str, I64], steps: int, latency: I64
) -> Tape:
    ops = rated.trace.device_ops
    starts = rated.started.starts
    step = rated.timed.steps.of_op[chosen]
    held, dependencies = _held_by_others(rated.started, chosen)
    waits, waits_for = _waits(rated.timed, rows, chosen)
    event = np.searchsorted(rows, rated.linked.launch[chosen])
    begins = distinct(event[np.diff(step, prepend=step[:1]) > 0])
    tail = Tail(*(int(host[name][-1]) for name in Tail._fields))
    if len(begins):  # no longer than between two steps of the tape, because there the recorder ends
        usual = {name: int(np.median(host[name][begins])) for name in ("dispatch", "work")}
        tail = tail._replace(
            **{name: min(getattr(tail, name), most) for name, most in usual.items()}
        )
    return Tape(
        **{name: before[:-1] for name, before in host.items()},
        steps=steps,
        waits=waits,
        waits_for=waits_for,
        reads=contains(read_ranges(rated.linked), rated.trace.api_calls.start[rows]),
        call=rows,
        tail=tail,
        event=event,
        stream=starts.stream[chosen],
        duration=(ops.end - ops.start)[chosen],
        alone=duration_without_collectives(rated.linked, chosen),
        latency=latency,
        gap=starts.pause[chosen].astype(np.int64) + held,
        dependencies=dependencies,
        communication=rated.linked.is_communication[chosen],
        copy=rated.linked.is_copy[chosen],
        meeting=np.full(len(chosen), -1, np.int64),
        row=chosen,
        source=rated,
    )


def _held_by_others(started: LaunchEdges, chosen: I64) -> tuple[I64, Dependencies]:
    """What each op was held beyond its usual pause, ns, and what it waits for on other streams: one
    that was held for long waited for the op of another stream that ended last before it, not for so
    much time."""
    ops = started.trace.device_ops
    stream = started.starts.stream[chosen]
    held = started.starts.held[chosen].astype(np.int64)
    known = started.starts.dependencies.among(chosen)
    start = ops.start[chosen]
    end = ops.end[chosen]
    also_awaited = known.also_awaited.copy()
    ended = np.argsort(end, kind="stable")
    last = np.searchsorted(end[ended], start, side="right")
    for i in np.flatnonzero((held >= LONG_HELD_NS) & (also_awaited < 0)).tolist():
        candidates = ended[max(last[i] - HELD_BY_OPS, 0) : last[i]][::-1]
        usable = candidates[(candidates < i) & (stream[candidates] != stream[i])]
        usable = usable[end[usable] > start[i] - held[i]]
        if len(usable):
            also_awaited[i] = usable[0]
            held[i] = 0
    return held, Dependencies(known.awaited, known.delay, also_awaited)


def _host_windows(timed: Timed, typical: Bool) -> tuple[IntervalSet, IntervalSet]:
    """Host time of the tape's steps, each with what follows it up to the next; a step's host range
    is cut to the length of its window, because the recorder's own start-up and stop are not the
    step's. And the same from the first launch of each step on: a host that is ahead may take longer
    for a step than the device, which runs all of it."""
    steps = timed.steps
    called = timed.trace.api_calls.start
    begin = np.maximum(steps.host_start, steps.host_end - steps.duration)
    if steps.unlike:  # a server's iterations: each begins with the wait for the one before
        after_typical = np.append(False, typical[:-1])
        begin = np.where(after_typical, steps.host_start, begin)
    until = steps.host_end.copy()
    until[:-1] = np.maximum(steps.host_start[1:], steps.host_end[:-1])
    launched = called[
        timed.linked.launch[(steps.of_op == len(steps) - 1) & (timed.linked.launch >= 0)]
    ]
    if len(launched) and launched.min() < begin[-1]:
        lasted = max(int(steps.duration[-1]), 1)
        launched_until = int(launched.max()) + 1
        until[-1] = min(until[-1], max(launched_until, steps.host_start[-1] + lasted))
        begin[-1] = max(steps.host_start[-1], until[-1] - lasted)

    def launches(step: I32, call: I32) -> tuple[I32, I64]:
        known = (call >= 0) & (step >= 0)
        return step[known], called[call[known]]

    first = np.full(len(steps), np.iinfo(np.int64).max)
    first = np.minimum(
        begin, scatter(np.minimum, first, launches, steps.of_op, timed.linked.launch)
    )
    first = np.maximum(first, steps.host_start)
    kept = _with_loading(timed, begin[typical], until[typical], typical)
    return kept, union(first[typical], until[typical])


def _with_loading(timed: Timed, begin: I64, until: I64, typical: Bool) -> IntervalSet:
    """Host time of these steps from `begin` on. None of the loading before it is cut off, which no
    recorder makes or slows, but as much of what follows."""
    started = timed.steps.host_start[typical]
    loading = timed.timeline.states[HostState.INPUT]
    if not len(loading.start) or not len(started):
        return union(begin, until)
    others = complement((int(started.min()), int(until.max()) + 1), loading)
    if not len(others.start):
        return union(begin, until)
    passed = np.cumsum(others.end - others.start)
    cut = covered_before(others, started) + begin - started
    row = np.minimum(np.searchsorted(passed, cut), len(passed) - 1)
    moved = np.minimum(others.end[row] - (passed[row] - cut), until - 1)
    begin = np.where(begin > started, np.maximum(begin, moved), begin)
    return join(intersect(loading, union(started, begin)), union(begin, until))


def _cut(rated: Rated, chosen: I64, kept: IntervalSet) -> tuple[IntervalSet, I64]:
    """Host time and launch latencies: of an only step that begins where its device work does, what
    the host did before is not part of it. Of several steps the next one's lead takes the place of
    the first one's."""
    ops = rated.trace.device_ops
    steps = rated.timed.steps
    latency = rated.started.starts.latency[chosen].astype(np.int64)
    first = np.flatnonzero(steps.of_op == 0)[:1]
    begin = int(steps.start[0])
    last = int(kept.end[-1])
    if len(steps) > 1 or not len(first):
        return kept, latency
    if not ops.start[first[0]] == begin > steps.host_start[0]:
        return kept, latency
    since_begin = np.maximum(ops.start[chosen] - begin, 0)
    left = np.where(rated.linked.launch_time[chosen] < begin, since_begin, latency)
    of_step = union(np.array([min(begin, last - 1)]), np.array([last]))
    return intersect(kept, of_step), np.minimum(latency, left)


def _host_time(timed: LaunchEdges, rows: I64, kept: IntervalSet) -> dict[str, I64]:
    """Host time before each event and, last, after all of them, by what it is spent on, ns."""
    calls = timed.trace.api_calls
    begin = min(kept.start[0], calls.start[rows[0]])
    start = np.append(begin, calls.start[rows])
    end = np.append(calls.start[rows], kept.end[-1])

    def spent(covered: IntervalSet) -> I64:
        return measure(intersect(covered, kept), start, end)

    states = timed.timed.timeline.states
    profiling = spent(timed.timed.timeline.profiler)
    loading = spent(states[HostState.INPUT])
    work = spent(states[HostState.WORK])
    work = work + spent(states[HostState.ALLOCATE]) + spent(states[HostState.COMMUNICATION])
    work = work + spent(timed.joined.memo(after_waiting))
    waited = np.append(0, waited_time(timed.joined, rows) + blocked_time(timed.timed, rows))
    work = np.maximum(work - profiling, 0)
    dispatch = np.maximum(measure(kept, start, end) - loading - work - profiling - waited, 0)
    brings = np.append(timed.call_brings_input[rows], False)
    loading = np.where(brings, loading + work, loading)
    work = np.where(brings, 0, work)
    reading = np.clip(measure(_reading(timed.joined), start, end) - waited, 0, dispatch)
    sending = np.minimum(measure(timed.linked.memo(calling), start, end), dispatch - reading)
    return {
        "dispatch": dispatch,
        "work": work,
        "loading": loading,
        "reading": reading,
        "sending": sending,
        "profiling": profiling,
    }


def _waits(timed: Timed, rows: I64, chosen: I64) -> tuple[Bool, I64]:
    """Which of these calls wait for device work; and, where one returned while work launched before
    it still ran, as a wait for an event does, the place among the `chosen` ops of the one that it
    waited for, -1 for the others. One that waited for nothing, or for no chosen op, does not
    wait."""
    calls = timed.trace.api_calls
    waits = timed.joined.blocks[rows].copy()
    result = np.full(len(rows), -1, np.int64)
    early = waits & (timed.linked.api_kind[rows] == ApiKind.SYNC)
    early &= timed.linked.drained_at(calls.start[rows]) > calls.end[rows] + RETURN_LATENCY_NS
    if not early.any():
        return waits, result
    place = np.full(len(timed.trace.device_ops), -1, np.int64)
    place[chosen] = np.arange(len(chosen))
    found, op = waited_for(timed, rows[early])
    result[np.searchsorted(rows, found)] = place[op]
    return waits & (~early | (result >= 0)), result


def calling(linked: Linked) -> IntervalSet:
    """Host time in calls of collectives."""
    ranges = linked.trace.host_ranges
    rows = texts_where(linked.trace.strings, CALLS.match)[ranges.name]
    return union(ranges.start[rows], ranges.end[rows])


def waited_time(joined: Joined, rows: I64) -> I64:
    """How long each of these calls (ascending) waited for the device, ns: until what was launched
    before it ended."""
    calls = joined.trace.api_calls
    ops = joined.trace.device_ops
    target = joined.linked.drained_at(calls.start[rows] + 1)
    copying = np.flatnonzero(joined.linked.is_copy & (joined.linked.launch >= 0))
    place = look_up(rows, joined.linked.launch[copying])
    own = np.zeros(len(rows), np.int64)
    own[place[place >= 0]] = ops.end[copying[place >= 0]]
    waited = np.minimum(np.maximum(target, own), calls.end[rows]) - calls.start[rows]
    return np.where(joined.blocks[rows], np.clip(waited, 0, None), 0)


def after_waiting(joined: Joined) -> IntervalSet:
    """Host time in calls that allocate or free memory once the device work that they waited for has
    ended."""
    calls = joined.trace.api_calls
    kinds = (ApiKind.ALLOCATE, ApiKind.FREE)
    rows = np.flatnonzero(joined.blocks & isin_few(joined.linked.api_kind, kinds))
    return union(calls.start[rows] + waited_time(joined, rows), calls.end[rows])


def _reading(joined: Joined) -> IntervalSet:
    """Host time in operators that only read a value, calls that only wait, and what Python takes to
    get there."""
    calls = joined.trace.api_calls
    waiting = joined.blocks.copy()
    waiting[joined.linked.launch[joined.linked.launch >= 0]] = False
    found = join(read_ranges(joined.linked), union(calls.start[waiting], calls.end[waiting]))
    tree = joined.linked.tree
    if not tree.has_operators:
        return found
    outer = tree.outermost_operators
    outermost = union(tree.start[outer], tree.end[outer])
    others = join(outermost, union(calls.start, calls.end))
    before = np.append(0, others.end)[np.searchsorted(others.start, found.start)]
    pauses = others.start[1:] - others.end[:-1]
    longest = PAUSES_TO_A_WAIT * int(np.median(pauses)) if len(pauses) else 0
    return union(found.start - np.clip(found.start - before, 0, longest), found.end)


def typical_steps(*recordings: Causes) -> Bool:
    """For each step of the first of a run's ranks whether the tape holds it: on every rank steady
    and no hiccup, and of a long recording the steps in its middle."""
    typical = _usual(recordings[0])
    for other in recordings[1:]:
        usual = {
            name
            for name, here in zip(other.timed.steps.names, _usual(other).tolist(), strict=True)
            if here
        }
        typical &= np.array([name in usual for name in recordings[0].timed.steps.names])
    chosen = np.flatnonzero(typical)
    surplus = max(len(chosen) - MAX_STEPS, 0)
    typical[chosen[: surplus // 2]] = False
    typical[chosen[len(chosen) - (surplus - surplus // 2) :]] = False
    return typical


def _usual(explained: Causes) -> Bool:
    usual = ~hiccups(explained)
    usual[: explained.timed.steps.warmup] = False
    return usual


def hiccups(explained: Causes) -> Bool:
    """Steps that took far longer than the median for nothing that the program is known to do:
    longer by the profiler's own time, or, a few, by idle time in which the host was merely slow;
    not by device work, waits or loading."""
    steps = explained.timed.steps
    median = np.median(steps.duration[steps.steady])
    slow: Bool = steps.duration > OUTLIER_RATIO * median
    if explained.timed.device is None or not slow.any():
        return np.zeros(len(slow), bool)
    idle = idle_by_cause(explained.timed, explained.gaps, explained.timed.device)
    causes = NAMELESS if slow[steps.steady].mean() <= FEW_HICCUPS else (IdleCause.PROFILER,)
    nameless = np.sum([idle[cause] for cause in causes], axis=0)
    beyond: Bool = nameless - np.median(nameless[steps.steady]) >= NAMELESS_SHARE * (
        steps.duration - median
    )
    return slow & beyond
