"""The ranks of a run on tapes that meet: a shared collective transfers once all its ranks have
arrived.

What a rank spent in a collective before the last one came is waiting; the transfer is what the rank
that came last spent in it, so the shortest time of all. Without the other ranks' recordings a
collective is replayed as it was recorded, waiting included, because nothing tells when the others
would come."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from traceanalyzer.analysis.algebra import measure, union
from traceanalyzer.analysis.causes.dependencies import Dependencies
from traceanalyzer.analysis.ranks.digested import digest_of
from traceanalyzer.analysis.ranks.last_to_arrive import last_to_arrive
from traceanalyzer.analysis.ranks.matches import Matches, match_collectives
from traceanalyzer.analysis.roofline.rated import Rated
from traceanalyzer.replay.recorded import make_tape, typical_steps
from traceanalyzer.replay.tape import Tail, Tape

OF_TIME = (
    "dispatch",
    "work",
    "loading",
    "reading",
    "sending",
    "profiling",
    "duration",
    "alone",
    "latency",
    "gap",
)
"""Columns of a tape that say how long something takes."""


def make_tapes(rated: Rated, peers: Sequence[Rated] = ()) -> tuple[Tape, ...]:
    """The tape of a recording, and of the other ranks of its run where they share collectives with
    it; empty where launches or device work were not recorded."""
    together = _together((rated, *peers)) if peers else ()
    if together:
        return together
    alone = make_tape(rated)
    return () if alone is None else (alone,)


def _together(every: Sequence[Rated]) -> tuple[Tape, ...]:
    """The tapes of the first rank and of those that the others wait for; empty where they share no
    collective with it, or steps of one are not those of another."""
    chosen = last_to_arrive([one.timed.memo(digest_of) for one in every], 0)
    ranks = [every[i] for i in chosen]
    causes = [one.causes for one in ranks]
    tapes = [make_tape(one, typical_steps(one.causes, *causes)) for one in ranks]
    known = list(filter(None, tapes))
    if len(known) < len(ranks) or len({tape.steps for tape in known}) > 1:
        return ()
    digests = [one.timed.memo(digest_of) for one in ranks]
    joined = join_tapes(known, match_collectives(digests))
    return joined if (joined[0].meeting >= 0).any() else ()


def join_tapes(tapes: Sequence[Tape], matches: Matches) -> tuple[Tape, ...]:
    """The tapes with the collectives that are on all their ranks' tapes as meetings."""
    position = np.full((len(matches), len(tapes)), -1, np.int64)
    for rank, (tape, calls) in enumerate(zip(tapes, matches.of_rank, strict=True)):
        of_row = np.full(len(tape.source.trace.device_ops) + 1, -1, np.int64)
        of_row[tape.row] = np.arange(len(tape.row))
        position[matches.collective[calls], rank] = of_row[matches.row[calls]]
    taking_part = np.diff(matches.first)
    position = position[((position >= 0).sum(axis=1) == taking_part) & (taking_part > 1)]
    durations = [tape.duration[column] for tape, column in zip(tapes, position.T, strict=True)]
    longest = np.iinfo(np.int64).max
    of_those_there = np.where(position >= 0, np.stack(durations, axis=1), longest)
    transfer = of_those_there.min(axis=1)
    joined = []
    for tape, column in zip(tapes, position.T, strict=True):
        meeting = tape.meeting.copy()
        duration = tape.duration.copy()
        meetings = np.flatnonzero(column >= 0)
        meeting[column[meetings]] = meetings
        duration[column[meetings]] = transfer[meetings]
        joined.append(replace(tape, meeting=meeting, duration=duration))
    return tuple(joined)


def without_meetings(tape: Tape) -> Tape:
    """Nobody waits for another rank: collectives only transfer."""
    return replace(tape, meeting=np.full_like(tape.meeting, -1))


def beside_transfers(tape: Tape) -> Tape:
    """Computation is as long as beside collectives that transfer: one that waits for a rank whose
    host is slowed by its recorder holds multiprocessors, too."""
    ops = tape.source.trace.device_ops
    shared = tape.meeting >= 0
    slowed = tape.compute & (tape.alone < tape.duration)
    if not shared.any() or not slowed.any():
        return tape
    start = ops.start[tape.row]
    end = ops.end[tape.row]
    calls = tape.communication
    waiting = union(start[shared], np.maximum(end - tape.duration, start)[shared])
    waited, beside = (
        measure(times, start, end) for times in (waiting, union(start[calls], end[calls]))
    )
    less = (tape.duration - tape.alone) * waited / np.maximum(beside, 1)
    return replace(
        tape, duration=np.where(slowed, tape.duration - less, tape.duration).astype(np.int64)
    )


def without_work(tape: Tape) -> Tape:
    """A rank that does nothing and meets nobody."""
    idle = {name: np.zeros_like(getattr(tape, name)) for name in OF_TIME}
    return replace(
        without_meetings(tape),
        tail=Tail(0, 0, 0, 0),
        dependencies=Dependencies.none(len(tape.row)),
        **idle,
    )
