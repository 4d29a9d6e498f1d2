"""What a rank waits for in collectives: what the rank that comes last does more than it, since both last met.

A collective ends on all its ranks at once, so two ranks set out together from the last one that they share, and what
one comes later to the next is what it does longer. Where that is waiting in other collectives, it is followed to the
rank that comes last there, until one is found that works, or idles for a cause of its own.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from traceanalyzer.analysis.algebra import IntervalSet, clip, join, subtract, union
from traceanalyzer.replay.stretches import Pass
from traceanalyzer.replay.tape import Tape
from traceanalyzer.trace import I64, distinct


class Work(NamedTuple):
    """What a device did in the last repetition of a replay."""

    compute: IntervalSet
    communication: IntervalSet
    copies: IntervalSet
    busy: IntervalSet


def work_of(tape: Tape, times: Pass, device: int) -> Work:
    """The same of a device of the tape's rank."""
    start, end = np.array(times.came, np.int64), np.array(times.end, np.int64)
    runs = (tape.source.trace.device_ops.device[tape.row] == device) & (end > start)
    kinds = (runs & tape.compute, runs & tape.communication, runs & tape.copy, runs)
    return Work(*(union(start[kind], end[kind]) for kind in kinds))


class Waits(NamedTuple):
    """Waiting of a rank in shared collectives, in the last repetition of a replay."""

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
    """The times, those before the last repetition had `begun` one `period` later: there the same happens."""
    before = clip(of, (begun - period, begun))
    return join(subtract(of, before), IntervalSet(before.start + period, before.end + period))
