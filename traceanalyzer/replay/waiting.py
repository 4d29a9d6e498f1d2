"""What a rank of a replayed run waits for others, followed to the ranks that others wait for."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from traceanalyzer.analysis.algebra import (
    IntervalSet,
    clip,
    intersect,
    join,
    subtract,
    union,
)
from traceanalyzer.analysis.causes.idle_cause import IdleCause
from traceanalyzer.base import ms
from traceanalyzer.replay.idle_pieces import idle_pieces
from traceanalyzer.replay.stretches import ReplayTimes
from traceanalyzer.replay.tape import Tape
from traceanalyzer.trace import I64, distinct

NEVER = np.iinfo(np.int64).min
"""When a rank came to a meeting that it takes no part in."""
DEVICE_PARTS = ("compute", "transfer", "copy")
"""What the device of a rank does that another one waits for, while it does not idle."""
WAITING = "waiting"
DEEPEST = 3
"""Ranks that are followed one after the other: what is behind more of them is hardly anything."""

Waited = dict[Any, float]
"""What a rank waits for others by what they do, ms: causes of their idle time, and
`DEVICE_PARTS`."""


def waited_for_ranks(
    tapes: Sequence[Tape], passes: Sequence[ReplayTimes], exposed: IntervalSet
) -> Waited:
    """What the ranks that the first one waits for do more than it, ms a step; its own transfers are
    left out."""
    replayed = _Run(tapes, passes)
    times = replayed.followed(0, (0,))
    own = replayed.waits[0]
    waiting_ms = ms(intersect(exposed, union(own.start, own.end)).total / tapes[0].steps)
    total = sum(times.values())
    return {part: waiting_ms * time / total if total else 0.0 for part, time in times.items()}


class _Run:
    """The last repetition of ranks that were replayed together."""

    def __init__(self, tapes: Sequence[Tape], passes: Sequence[ReplayTimes]) -> None:
        self.tapes = tapes
        self.passes = passes
        self.period = passes[0].done[-1] - passes[0].done[-2]
        self.waits = rank_waits(tapes, passes, self.period)
        self.devices = [tape.source.timed.device or 0 for tape in tapes]
        self.works = [work_of(*one) for one in zip(tapes, passes, self.devices, strict=True)]

    def followed(self, rank: int, trail: tuple[int, ...]) -> Waited:
        """What others do more than a rank while it waits for them, ms a step."""
        found: Waited = dict.fromkeys((*DEVICE_PARTS, *IdleCause), 0.0)
        waits = self.waits[rank]
        for other in distinct(waits.rank).tolist():
            for_other = waits.rank == other
            own = self._spent(rank, union(waits.since[for_other], waits.start[for_other]))
            theirs = self._spent(other, union(waits.since[for_other], waits.end[for_other]))
            more = {part: max(time - own[part], 0.0) for part, time in theirs.items()}
            waited = more.pop(WAITING)
            if waited and other not in trail and len(trail) < DEEPEST:
                behind = self.followed(other, (*trail, other))
                scale = waited / (sum(behind.values()) or 1.0)
                more = {part: time + scale * behind[part] for part, time in more.items()}
            waited_ns = (waits.end - waits.start)[for_other].sum()
            waited_ms = ms(waited_ns / self.tapes[rank].steps)
            scale = waited_ms / (sum(more.values()) or 1.0)
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
            idle_pieces(tape, times, left, self.devices[rank]).by_cause()
            if len(left.start)
            else dict.fromkeys(IdleCause, 0.0)
        )
        return {**result, **idle}


class DeviceWork(NamedTuple):
    """What a device did in the last repetition of a replay."""

    compute: IntervalSet
    communication: IntervalSet
    copies: IntervalSet
    busy: IntervalSet

    def within(self, window: tuple[int, int]) -> "DeviceWork":
        """What of it was done within a window."""
        return DeviceWork(*(clip(part, window) for part in self))

    @property
    def exposed_communication(self) -> IntervalSet:
        """Communication beside which no computation ran."""
        return subtract(self.communication, self.compute)

    @property
    def exposed_copies(self) -> IntervalSet:
        """Copies beside which neither computation nor communication ran."""
        return subtract(subtract(self.copies, self.compute), self.communication)


def work_of(tape: Tape, times: ReplayTimes, device: int) -> DeviceWork:
    """The work on a device of the tape's rank."""
    start = np.array(times.ready, np.int64)
    end = np.array(times.end, np.int64)
    runs = (tape.source.trace.device_ops.device[tape.row] == device) & (end > start)
    kinds = (runs & tape.compute, runs & tape.communication, runs & tape.copy, runs)
    return DeviceWork(*(union(start[kind], end[kind]) for kind in kinds))


class RankWaits(NamedTuple):
    """Waiting of a rank in shared collectives, in the last repetition of a replay. These end on all
    ranks at once, so what a rank comes later to one than another is what it does longer since they
    last met."""

    since: I64  # when it and the rank that it waited for had last met
    start: I64
    end: I64
    rank: I64  # the rank that it waited for


def rank_waits(
    tapes: Sequence[Tape], passes: Sequence[ReplayTimes], period: int
) -> list[RankWaits]:
    """The waits of each rank."""
    shared = max(int(tape.meeting.max(initial=-1)) for tape in tapes) + 1
    came, ended = np.full((2, shared, len(tapes)), NEVER)
    for rank, (tape, times) in enumerate(zip(tapes, passes, strict=True)):
        ops = np.flatnonzero(tape.meeting >= 0)
        came[tape.meeting[ops], rank] = np.array(times.ready, np.int64)[ops]
        ended[tape.meeting[ops], rank] = np.array(times.end, np.int64)[ops]
    last = came.argmax(axis=1) if shared else np.empty(0, np.int64)
    return [_waits(came, ended, last, rank, period) for rank in range(len(tapes))]


def _waits(came: I64, ended: I64, last: I64, rank: int, period: int) -> RankWaits:
    takes_part = came > NEVER
    waiting = np.flatnonzero(takes_part[:, rank] & (last != rank))
    since = np.empty(len(waiting), np.int64)
    for other in distinct(last[waiting]).tolist():
        both = takes_part[:, rank] & takes_part[:, other]
        ends = np.sort(ended[both, rank])
        met = np.append(ends, ends[-1] - period)
        for_other = last[waiting] == other
        before = np.searchsorted(ends, came[waiting[for_other], rank], side="right") - 1
        since[for_other] = met[before]
    return RankWaits(since, came[waiting, rank], came[waiting, last[waiting]], last[waiting])


def in_last_repetition(times: IntervalSet, begun: int, period: int) -> IntervalSet:
    """The times, those before the last repetition had `begun` one `period` later: there the same
    happens."""
    before = clip(times, (begun - period, begun))
    return join(subtract(times, before), IntervalSet(before.start + period, before.end + period))
