"""What a rank waits for in collectives: what the rank that comes last does meanwhile, followed from rank to rank.

A rank that waits in a collective waits for the one that comes last to it. Where that one waits in another collective
itself, whoever comes last there is followed, until a rank is found that works, or idles for a cause of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from traceanalyzer.analysis.algebra.intervals import EMPTY, IntervalSet, clip, intersect, join, subtract, union
from traceanalyzer.replay.stretches import Pass
from traceanalyzer.replay.tape import Tape
from traceanalyzer.trace import I64
from traceanalyzer.trace.distinct import distinct


class Work(NamedTuple):
    """What a device did in the last repetition of a replay."""

    compute: IntervalSet
    communication: IntervalSet
    copies: IntervalSet
    busy: IntervalSet


def work_of(tape: Tape, times: Pass, device: int) -> Work:
    """The same of a device of the tape's rank."""
    here = tape.source.trace.device_ops.device[tape.row] == device
    start, end = np.array(times.came, np.int64), np.array(times.end, np.int64)
    runs = here & (end > start)
    kinds = (tape.compute, tape.communication, tape.copy)
    compute, communication, copies = (union(start[runs & kind], end[runs & kind]) for kind in kinds)
    return Work(compute, communication, copies, union(start[runs], end[runs]))


class Waits(NamedTuple):
    """Waiting of a rank in shared collectives, each with the rank that it waited for."""

    start: I64
    end: I64
    rank: I64


def waits_of(tapes: Sequence[Tape], passes: Sequence[Pass]) -> list[Waits]:
    """Of each rank, in the last repetition."""
    shared = max(int(tape.meeting.max(initial=-1)) for tape in tapes) + 1
    came = np.full((shared, len(tapes)), np.iinfo(np.int64).min)
    for rank, (tape, times) in enumerate(zip(tapes, passes, strict=True)):
        meets = tape.meeting >= 0
        came[tape.meeting[meets], rank] = np.array(times.came, np.int64)[meets]
    last = came.argmax(axis=1) if shared else np.empty(0, np.int64)
    found = []
    for rank, tape in enumerate(tapes):
        here = distinct(tape.meeting[tape.meeting >= 0]).astype(np.int64)
        here = here[last[here] != rank]
        found.append(Waits(came[here, rank], came[here, last[here]], last[here]))
    return found


def followed(
    waits: Sequence[Waits], works: Sequence[Work], begun: Sequence[int], period: int, waiting: IntervalSet
) -> Iterator[tuple[int, IntervalSet]]:
    """The `waiting` of the first rank as parts of what others did: a rank, and when. What a rank did before its last
    repetition `begun` is what it does one `period` later."""
    parts = {0: waiting}
    for _ in range(2 * len(waits)):
        after: dict[int, IntervalSet] = {}
        for rank, piece in parts.items():
            own = _in_last_repetition(piece, begun[rank], period) if rank else piece
            waited = subtract(union(*waits[rank][:2]), works[rank].compute)
            yield rank, subtract(own, waited)
            left = intersect(own, waited)
            for other in distinct(waits[rank].rank).tolist():
                rows = waits[rank].rank == other
                mine = intersect(left, union(waits[rank].start[rows], waits[rank].end[rows]))
                after[other], left = join(after.get(other, EMPTY), mine), subtract(left, mine)
        parts = {rank: piece for rank, piece in after.items() if len(piece.start)}
        if not parts:
            return
    yield from parts.items()


def _in_last_repetition(of: IntervalSet, begun: int, period: int) -> IntervalSet:
    before = clip(of, (begun - period, begun))
    return join(subtract(of, before), IntervalSet(before.start + period, before.end + period))
