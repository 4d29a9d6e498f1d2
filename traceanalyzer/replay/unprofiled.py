"""The step without the profiler, taken apart: the budget and the causes of idle time of the
replayed schedule.

The device works as recorded, because no recorder stretches that. What it idles is what the replay
without the profiler leaves; each stretch of it is charged with what the host did meanwhile. A cause
is then held against the replay without it: what gains nothing when it is removed holds nothing up,
and its idle time goes to the causes that do."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from traceanalyzer.analysis.algebra import (
    IntervalSet,
    clip,
    complement,
    intersect,
    join,
    subtract,
    union,
)
from traceanalyzer.analysis.causes.gaps import (
    REFILL_LAUNCHES,
    could_be_ahead,
    keeps_waiting,
    only_searches,
)
from traceanalyzer.analysis.causes.idle_cause import IdleCause
from traceanalyzer.analysis.tables.budget import Budget, Idle, Waiting
from traceanalyzer.analysis.time.launch_queue import QUEUED_LATENCY_NS
from traceanalyzer.base import ms
from traceanalyzer.replay.replayed_path import HostClock
from traceanalyzer.replay.scenarios import INPUT_READY, LAUNCHES_FREE, NO_HOST_SYNCS, NO_HOST_WORK
from traceanalyzer.replay.simulate import repetitions, run
from traceanalyzer.replay.stretches import Pass
from traceanalyzer.replay.tape import Tape
from traceanalyzer.replay.whatif import Replay
from traceanalyzer.trace import I64, Bool, distinct

REMOVED = {
    IdleCause.INPUT: INPUT_READY,
    IdleCause.HOST: NO_HOST_WORK,
    IdleCause.SYNC: NO_HOST_SYNCS,
    IdleCause.LAUNCH: LAUNCHES_FREE,
}
"""What removes each cause that can be removed."""
NOTHING = 0.05  # a cause without which less than this share of its idle time is gone is none
DEVICE_PARTS = ("compute", "transfer", "copy")
"""What the device of a rank does that another one waits for, while it does not idle."""
WAITING = "waiting"
DEEPEST = 3
"""Ranks that are followed one after the other: what is behind more of them is hardly anything."""

Causes = dict[IdleCause, float]  # idle time by cause, ms
Waited = dict[Any, float]
"""What a rank waits for others by what they do, ms: causes of their idle time, and
`DEVICE_PARTS`."""


def partition(replay: Replay, recorded: Budget, device: int) -> tuple[Budget, Idle, Waiting | None]:
    """Budget and causes of idle time of the step without the profiler, on a device; they sum to
    `replay.base_ms`. And what of its exposed communication is waiting for other ranks, by what
    these do; None where one rank is replayed.

    `recorded` is the budget of the recorded step: its computation is this step's, too, and it has
    no less communication exposed: where ranks meet at another pace than they recorded, the rest is
    idle time for the same causes."""
    tapes = replay.typical
    passes = run(tapes, repetitions(tapes))
    tape = tapes[0]
    times = passes[0]
    window = (passes[0].done[-2], passes[0].done[-1])
    work = work_of(tape, times, device)
    charged = _charged(tape, times, complement(window, work.busy), device)
    exposed = clip(subtract(work.communication, work.compute), window)
    waited = _waited(tapes, passes, exposed) if len(tapes) > 1 else {}
    exposed_ms = ms(exposed.total / tape.steps)
    copied_ms = recorded.exposed_copy
    beyond = max(exposed_ms - recorded.exposed_communication, 0.0)
    _as_idle(charged, waited, beyond)
    if tape.communication.any():
        copies = subtract(subtract(work.copies, work.compute), work.communication)
        copied_ms = ms(clip(copies, window).total / tape.steps)
    busy = Budget(recorded.compute, exposed_ms - beyond, copied_ms, 0.0)
    budget = fitted_to(busy, replay.base_ms)
    own, others = _both_held_against(replay, charged, waited)
    if tape.source.timed.memo(only_searches):
        own[IdleCause.HOST] += own[IdleCause.SYNC]
        own[IdleCause.SYNC] = 0.0
    scale = (
        budget.exposed_communication / busy.exposed_communication
        if busy.exposed_communication
        else 1.0
    )
    parts = {str(getattr(part, "label", part)): spent * scale for part, spent in others.items()}
    return budget, idle_of(own, budget.idle), Waiting(**parts) if len(tapes) > 1 else None


def _as_idle(charged: Causes, waited: Waited, time: float) -> None:
    """Counts so much of the communication as idle time (in place): of the waiting, by its
    causes."""
    waits = sum(waited.values())
    share = min(time / waits, 1.0) if waits else 0.0
    for part, spent in waited.items():
        charged[part if isinstance(part, IdleCause) else IdleCause.COMMUNICATION] += share * spent
        waited[part] = (1.0 - share) * spent
    charged[IdleCause.COMMUNICATION] += time - share * waits


def _waited(tapes: Sequence[Tape], passes: Sequence[Pass], exposed: IntervalSet) -> Waited:
    """What the ranks that the first one waits for do more than it, ms a step; its own transfers are
    left out."""
    run_ = _Run(tapes, passes)
    whole = run_.followed(0, (0,))
    waiting = ms(
        intersect(exposed, union(run_.waits[0].start, run_.waits[0].end)).total / tapes[0].steps
    )
    total = sum(whole.values())
    return {part: waiting * time / total if total else 0.0 for part, time in whole.items()}


class _Run:
    """The last repetition of ranks that were replayed together."""

    def __init__(self, tapes: Sequence[Tape], passes: Sequence[Pass]) -> None:
        self.tapes = tapes
        self.passes = passes
        self.period = passes[0].done[-1] - passes[0].done[-2]
        self.waits = waits_of(tapes, passes, self.period)
        self.devices = [tape.source.timed.device or 0 for tape in tapes]
        self.works = [work_of(*one) for one in zip(tapes, passes, self.devices, strict=True)]

    def followed(self, rank: int, trail: tuple[int, ...]) -> Waited:
        """What others do more than a rank while it waits for them, ms a step."""
        found: Waited = dict.fromkeys((*DEVICE_PARTS, *IdleCause), 0.0)
        waits = self.waits[rank]
        for other in distinct(waits.rank).tolist():
            mine = waits.rank == other
            own = self._spent(rank, union(waits.since[mine], waits.start[mine]))
            theirs = self._spent(other, union(waits.since[mine], waits.end[mine]))
            more = {part: max(time - own[part], 0.0) for part, time in theirs.items()}
            waited = more.pop(WAITING)
            if waited and other not in trail and len(trail) < DEEPEST:
                behind = self.followed(other, (*trail, other))
                scale = waited / (sum(behind.values()) or 1.0)
                more = {part: time + scale * behind[part] for part, time in more.items()}
            scale = ms((waits.end - waits.start)[mine].sum() / self.tapes[rank].steps) / (
                sum(more.values()) or 1.0
            )
            found = {part: time + scale * more[part] for part, time in found.items()}
        return found

    def _spent(self, rank: int, when: IntervalSet) -> Waited:
        """What a rank did in these times, ms a step."""
        tape = self.tapes[rank]
        work = self.works[rank]
        times = self.passes[rank]
        left = in_last_repetition(when, times.done[-2], self.period)
        result: Waited = {}
        waiting = union(self.waits[rank].start, self.waits[rank].end)
        sets = (work.compute, subtract(work.communication, waiting), work.copies, waiting)
        for part, busy in zip((*DEVICE_PARTS, WAITING), sets, strict=True):
            result[part] = ms(intersect(left, busy).total / tape.steps)
            left = subtract(left, busy)
        idle = (
            _charged(tape, times, left, self.devices[rank])
            if len(left.start)
            else dict.fromkeys(IdleCause, 0.0)
        )
        return {**result, **idle}


def _both_held_against(replay: Replay, own: Causes, waited: Waited) -> tuple[Causes, Waited]:
    """The causes of a rank's idle time, and of what it waits for others, held against the replay
    together."""
    before = {cause: own[cause] + waited.get(cause, 0.0) for cause in IdleCause}
    after = held_against(replay, before)
    kept = {
        cause: min(after[cause] / before[cause], 1.0) if before[cause] else 0.0
        for cause in IdleCause
    }
    gained = {cause: max(after[cause] - before[cause], 0.0) for cause in IdleCause}

    def checked(part: Waited) -> Causes:
        share = sum(part[cause] * (1.0 - kept[cause]) for cause in IdleCause) / (
            sum(gained.values()) or 1.0
        )
        return {cause: part[cause] * kept[cause] + share * gained[cause] for cause in IdleCause}

    return checked(own), {**waited, **(checked(waited) if waited else {})}


def with_recorded_causes(budget: Budget, idle: Idle, step_ms: float) -> tuple[Budget, Idle]:
    """Budget and causes of idle time of a step of this length without the profiler, where nothing
    can be replayed: work as recorded, causes of idle time in the proportions of the recording, the
    profiler's own left out."""
    fitted = fitted_to(budget, step_ms)
    causes: Causes = {
        cause: getattr(idle, cause.label) for cause in IdleCause if cause != IdleCause.PROFILER
    }
    return fitted, idle_of(causes, fitted.idle)


def fitted_to(busy: Budget, step_ms: float) -> Budget:
    """A step of this length with this work on the device and idle time for the rest; where the work
    alone is longer (its clock was higher than in the recording), it is shortened."""
    parts = (busy.compute, busy.exposed_communication, busy.exposed_copy)
    scale = min(step_ms / sum(parts), 1.0) if sum(parts) else 1.0
    compute, communication, copy = (part * scale for part in parts)
    return Budget(compute, communication, copy, max(step_ms - compute - communication - copy, 0.0))


def idle_of(charged: Causes, idle_ms: float) -> Idle:
    """The causes in the proportions that were found, so that they sum to the idle time."""
    total = sum(charged.values())
    if total <= 0:
        charged = {IdleCause.OTHER: 1.0}
        total = 1.0
    return Idle(**{cause.label: idle_ms * charged.get(cause, 0.0) / total for cause in IdleCause})


def held_against(replay: Replay, charged: Causes) -> Causes:
    """The causes, held against the replay without each: one whose removal gains (nearly) nothing of
    what it is charged with holds nothing up, and its time goes to the cause whose removal gains
    most. Slow launches are charged to the waits that exposed them as far as the step is shorter
    without these."""
    gain = {cause: replay.gain_ms(scenario) / replay.scale for cause, scenario in REMOVED.items()}
    result = dict(charged)
    exposed = min(result[IdleCause.LAUNCH], max(gain[IdleCause.SYNC] - result[IdleCause.SYNC], 0.0))
    result[IdleCause.LAUNCH] -= exposed
    result[IdleCause.SYNC] += exposed
    idle = [cause for cause in REMOVED if gain[cause] < NOTHING * result[cause]]
    most = max(REMOVED, key=gain.__getitem__)
    if most not in idle:
        for cause in idle:
            result[most] += result[cause]
            result[cause] = 0.0
    return result


def _charged(tape: Tape, times: Pass, gaps: IntervalSet, device: int) -> Causes:
    """Idle time of a step by what the host did until it launched the op that ended it, ms."""
    came = np.array(times.came, np.int64)
    called = np.array(times.called, np.int64)
    rows = np.flatnonzero(tape.source.trace.device_ops.device[tape.row] == device)
    rows = rows[np.argsort(came[rows], kind="stable")]
    next_op = np.append(rows, -1)[np.searchsorted(came[rows], gaps.end)]
    launched = np.where(next_op >= 0, called[tape.event[next_op]], gaps.end)
    cause, unknown = _as_recorded(tape)
    recorded = np.where(next_op >= 0, cause[next_op], IdleCause.LAUNCH)
    spent = HostClock(tape, times).spent(gaps.start, np.clip(launched, gaps.start, gaps.end))
    left = gaps.end - gaps.start - sum(spent.values(), np.zeros(len(gaps.start)))
    late = launched > gaps.start
    waits_for_others = recorded == IdleCause.COMMUNICATION
    brief = gaps.end - gaps.start < QUEUED_LATENCY_NS
    dispatched = (late | brief) & ~((next_op >= 0) & unknown[next_op])
    after_wait = recorded == IdleCause.SYNC
    if tape.source.timed.memo(keeps_waiting) or tape.source.timed.memo(could_be_ahead):
        after_wait |= (next_op >= 0) & _after_wait(tape, times)[next_op]
    slow = spent["rest"] + np.where(dispatched, left, 0.0)
    queued = np.where(dispatched, 0.0, left)
    by_cause = {
        IdleCause.INPUT: spent["loading"],
        IdleCause.COMMUNICATION: np.where(waits_for_others, spent["work"], 0.0),
        IdleCause.HOST: np.where(waits_for_others, 0.0, spent["work"]),
        IdleCause.SYNC: spent["reading"] + np.where(after_wait, slow, 0.0),
        IdleCause.LAUNCH: np.where(after_wait, 0.0, slow),
    }
    of_queue = {cause: np.where(recorded == cause, queued, 0.0) for cause in IdleCause}
    return {
        cause: ms((by_cause.get(cause, 0.0) + time).sum() / tape.steps)
        for cause, time in of_queue.items()
    }


def _after_wait(tape: Tape, times: Pass) -> Bool:
    """For each op whether the host was held until the device had nothing left, and has launched
    little since."""
    held = np.flatnonzero(tape.waits & (np.array(times.returned) > np.array(times.called)))
    position = np.searchsorted(held, tape.event, side="left") - 1
    last = np.append(held, -1)[position]
    launched = np.arange(len(tape.event)) - np.searchsorted(tape.event, last, side="right")
    return (position >= 0) & (launched < REFILL_LAUNCHES)


def _as_recorded(tape: Tape) -> tuple[I64, Bool]:
    """For each op the cause of the gap that it ended in the recording, OTHER where it ended none;
    and whether it had been launched before such a gap: it waited for what is not in the
    recording."""
    gaps = tape.source.causes.gaps
    count = len(tape.source.trace.device_ops) + 1
    cause = np.full(count, int(IdleCause.OTHER), np.int64)
    unknown = np.zeros(count, bool)
    cause[gaps.next_op] = gaps.cause
    unknown[gaps.next_op] = (gaps.cause == IdleCause.OTHER) & (gaps.queued == 1)
    return cause[tape.row], unknown[tape.row]


class Work(NamedTuple):
    """What a device did in the last repetition of a replay."""

    compute: IntervalSet
    communication: IntervalSet
    copies: IntervalSet
    busy: IntervalSet


def work_of(tape: Tape, times: Pass, device: int) -> Work:
    """The same of a device of the tape's rank."""
    start = np.array(times.came, np.int64)
    end = np.array(times.end, np.int64)
    runs = (tape.source.trace.device_ops.device[tape.row] == device) & (end > start)
    kinds = (runs & tape.compute, runs & tape.communication, runs & tape.copy, runs)
    return Work(*(union(start[kind], end[kind]) for kind in kinds))


class Waits(NamedTuple):
    """Waiting of a rank in shared collectives, in the last repetition of a replay. These end on all
    ranks at once, so what a rank comes later to one than another is what it does longer since they
    last met."""

    since: I64  # when it and the rank that it waited for had last met
    start: I64
    end: I64
    rank: I64  # the rank that it waited for


def waits_of(tapes: Sequence[Tape], passes: Sequence[Pass], period: int) -> list[Waits]:
    """Of each rank."""
    shared = max(int(tape.meeting.max(initial=-1)) for tape in tapes) + 1
    came, ended = np.full((2, shared, len(tapes)), np.iinfo(np.int64).min)
    for rank, (tape, times) in enumerate(zip(tapes, passes, strict=True)):
        ops = np.flatnonzero(tape.meeting >= 0)
        came[tape.meeting[ops], rank] = np.array(times.came, np.int64)[ops]
        ended[tape.meeting[ops], rank] = np.array(times.end, np.int64)[ops]
    last = came.argmax(axis=1) if shared else np.empty(0, np.int64)
    return [_waits(came, ended, last, rank, period) for rank in range(len(tapes))]


def _waits(came: I64, ended: I64, last: I64, rank: int, period: int) -> Waits:
    here = np.flatnonzero((came[:, rank] > np.iinfo(np.int64).min) & (last != rank))
    since = np.empty(len(here), np.int64)
    for other in distinct(last[here]).tolist():
        both = np.sort(ended[(came[:, [rank, other]] > np.iinfo(np.int64).min).all(axis=1), rank])
        met = np.append(both, both[-1] - period)
        mine = last[here] == other
        since[mine] = met[np.searchsorted(both, came[here[mine], rank], side="right") - 1]
    return Waits(since, came[here, rank], came[here, last[here]], last[here])


def in_last_repetition(of: IntervalSet, begun: int, period: int) -> IntervalSet:
    """The times, those before the last repetition had `begun` one `period` later: there the same
    happens."""
    before = clip(of, (begun - period, begun))
    return join(subtract(of, before), IntervalSet(before.start + period, before.end + period))
