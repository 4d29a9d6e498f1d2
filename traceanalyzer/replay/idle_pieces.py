"""What a device waits for in a replayed step: recorded gaps that are left of, and what the replay
alone has.

A recorded gap keeps its cause, whatever the replay makes of its length. What is longer than
recorded, and gaps before ops that ended none, are named by what the replay's device waits for: the
parts of the host's work until it launched the op, its waits, the queue."""

from dataclasses import replace

import numpy as np

from traceanalyzer.analysis.algebra import IntervalSet, at, where_changed
from traceanalyzer.analysis.causes.causes import Causes
from traceanalyzer.analysis.causes.draining import (
    REFILL_LAUNCHES,
    could_be_ahead,
    keeps_waiting,
    only_searches,
)
from traceanalyzer.analysis.causes.gaps import Gaps
from traceanalyzer.analysis.causes.idle_cause import IdleCause
from traceanalyzer.analysis.tables.syncs import steady_lengths
from traceanalyzer.analysis.time.launch_queue import QUEUED_LATENCY_NS
from traceanalyzer.base import NS_PER_MS, dataclass
from traceanalyzer.replay.replayed_path import HostClock
from traceanalyzer.replay.stretches import ReplayTimes
from traceanalyzer.replay.tape import Tape
from traceanalyzer.trace import F64, I64, U8, Bool, Table, column

IdleTimes = dict[IdleCause, float]
"""Idle time by cause, ms a step."""
NO_GAP = -1
MOST_STRETCHED = 1.5
"""Replayed idle time is scaled so far to a step that is longer. A replay that is faithful is off by
less, unless it lacks gaps, such as those before work that no call launched."""


@dataclass(frozen=True, eq=False)
class IdlePieces(Table):
    """Idle time of a device in a mean step, in pieces of one cause and place."""

    ms: F64 = column(np.float64)
    cause: U8 = column(np.uint8, fill=IdleCause.OTHER)
    gap: I64 = column(np.int64)  # row of the recorded gaps that it is left of, -1: none
    op: I64 = column(np.int64)  # row of the device op that ends it, -1: none

    def by_cause(self) -> IdleTimes:
        """Its time by cause."""
        total = np.bincount(self.cause, self.ms, len(IdleCause))
        return {cause: float(total[cause]) for cause in IdleCause}

    def scaled_to(self, idle_ms: float) -> "IdlePieces":
        """The pieces in proportion, so that they sum to this; one of unknown cause where there is
        none."""
        total = float(self.ms.sum())
        if total > 0:
            return replace(self, ms=self.ms * (idle_ms / total))
        return without_gaps({IdleCause.OTHER: idle_ms})

    def filled_to(self, idle_ms: float, recorded: "IdlePieces") -> "IdlePieces":
        """The pieces scaled to this, none beyond `MOST_STRETCHED`. What is then missing is idle time
        that the replay does not have: of the `recorded` gaps, as far as they are not among these
        pieces."""
        total = float(self.ms.sum())
        missing_ms = idle_ms - MOST_STRETCHED * total
        if missing_ms <= 0:
            return self.scaled_to(idle_ms)
        of_gap = np.zeros(int(recorded.gap.max(initial=NO_GAP)) + 1)
        known = self.gap < len(of_gap)
        known &= self.gap >= 0
        np.add.at(of_gap, self.gap[known], self.ms[known])
        left = replace(recorded, ms=np.maximum(recorded.ms - of_gap[recorded.gap], 0.0))
        if not left.ms.sum() > 0:
            return self.scaled_to(idle_ms)
        return self.scaled_to(idle_ms - missing_ms).followed_by(left.scaled_to(missing_ms))

    def followed_by(self, other: "IdlePieces") -> "IdlePieces":
        """These pieces and those."""
        names = ("ms", "cause", "gap", "op")
        return IdlePieces(
            **{n: np.concatenate((getattr(self, n), getattr(other, n))) for n in names}
        )


def without_gaps(times: IdleTimes) -> IdlePieces:
    """Idle time of which only the causes are known."""
    known = [cause for cause, time in times.items() if time > 0]
    none = np.full(len(known), NO_GAP, np.int64)
    return IdlePieces(
        ms=np.array([times[cause] for cause in known], np.float64),
        cause=np.array(known, np.uint8),
        gap=none,
        op=none,
    )


def recorded_pieces(causes: Causes) -> IdlePieces:
    """The recorded gaps of a mean steady step, without the profiler's."""
    gaps = causes.gaps
    length = steady_lengths(causes.timed, gaps)
    rows = np.flatnonzero((length > 0) & (gaps.cause != IdleCause.PROFILER))
    steps = causes.timed.steps.steady_count
    return IdlePieces(
        length[rows] / NS_PER_MS / steps,
        gaps.cause[rows],
        rows.astype(np.int64),
        gaps.next_op[rows].astype(np.int64),
    )


def idle_pieces(tape: Tape, times: ReplayTimes, gaps: IntervalSet, device: int) -> IdlePieces:
    """The gaps of a device in the last repetition of a replay, by what it waits for."""
    op = _op_after(tape, times, gaps, device)
    recorded = _gap_before(tape, device)[op]
    of_gaps = tape.source.causes.gaps
    length = gaps.end - gaps.start
    kept = _kept(recorded, length, at(of_gaps.duration, recorded, 0))
    cause = at(of_gaps.cause, recorded, IdleCause.PROFILER)
    kept = np.where(cause == IdleCause.PROFILER, 0, kept)
    row = at(tape.row, op, NO_GAP).astype(np.int64)
    as_recorded = IdlePieces(kept / NS_PER_MS / tape.steps, cause, recorded, row)
    at_end = _behind_the_last(tape, device)
    kept_at_end = _kept_at_end(tape, times, gaps, op, at_end, length - kept)
    new = _of_the_replay_alone(tape, times, gaps, op, cause, length - kept - kept_at_end)
    pieces = as_recorded
    if at_end >= 0:
        behind = _pieces_of(as_recorded, kept_at_end / tape.steps, int(of_gaps.cause[at_end]))
        pieces = pieces.followed_by(replace(behind, gap=np.full(len(op), at_end)))
    for named, spent in new.items():
        pieces = pieces.followed_by(_pieces_of(as_recorded, spent / tape.steps, named))
    return pieces.take(np.flatnonzero(pieces.ms > 0))


def _pieces_of(pieces: IdlePieces, time_ns: F64, cause: int) -> IdlePieces:
    """Other idle time of one cause in the same places, ns a step."""
    same = np.full(len(pieces), cause, np.uint8)
    return replace(pieces, ms=time_ns / NS_PER_MS, cause=same)


def _op_after(tape: Tape, times: ReplayTimes, gaps: IntervalSet, device: int) -> I64:
    """For each gap the op (of the tape) that ends it; behind the last one, what is before the next
    repetition's first: that op."""
    came = np.array(times.ready, np.int64)
    ops = np.flatnonzero(tape.source.trace.device_ops.device[tape.row] == device)
    if not len(ops):
        return np.full(len(gaps.start), -1, np.int64)
    ops = ops[np.argsort(came[ops], kind="stable")]
    following = np.searchsorted(came[ops], gaps.end)
    return np.append(ops, ops[0])[following].astype(np.int64)


def _gap_before(tape: Tape, device: int) -> I64:
    """For each op of the tape the recorded gap in which it begins (it takes no time then) or that
    it ended, and last for a device of which no op is on the tape its longest one; -1: none."""
    gaps = tape.source.causes.gaps
    of_device = np.flatnonzero(gaps.device == device)
    longest = of_device[gaps.duration[of_device].argmax()] if len(of_device) else NO_GAP
    begins = tape.source.trace.device_ops.start[tape.row]
    last = np.searchsorted(gaps.start[of_device], begins, side="left") - 1
    gap = at(of_device, last, NO_GAP)
    is_before = (gap >= 0) & (begins <= at(gaps.end, gap, 0))
    main = at(_main_pieces(gaps, of_device), last, NO_GAP)
    return np.append(np.where(is_before, main, NO_GAP), longest)


def _main_pieces(gaps: Gaps, of_device: I64) -> I64:
    """For each of these gaps of a device itself or, where it is a piece of one that was cut, the
    longest of its pieces that is not the profiler's."""
    start = gaps.start[of_device]
    end = gaps.end[of_device]
    is_apart = np.append(True, start[1:] != end[:-1])
    number = np.cumsum(is_apart[: len(start)])
    own = gaps.cause[of_device] != IdleCause.PROFILER
    order = np.lexsort((end - start, own, number))
    last = np.searchsorted(number[order], number, side="right") - 1
    return of_device[order[last]]


def _behind_the_last(tape: Tape, device: int) -> int:
    """The recorded gap of known cause behind the last op of the device in the steps; -1: none."""
    gaps = tape.source.causes.gaps
    steps_end = int(tape.source.timed.steps.end[-1])
    known = (gaps.cause != IdleCause.OTHER) & (gaps.cause != IdleCause.PROFILER)
    behind = ((gaps.next_op < 0) | (gaps.end >= steps_end)) & (gaps.start < steps_end)
    rows = np.flatnonzero(behind & (gaps.device == device) & (gaps.step >= 0) & known)
    return int(rows[gaps.duration[rows].argmax()]) if len(rows) else NO_GAP


def _kept_at_end(
    tape: Tape, times: ReplayTimes, gaps: IntervalSet, op: I64, at_end: int, left: I64
) -> I64:
    """How much of what is `left` of each gap was recorded behind the device's last op: of the gap
    before the next repetition, ns."""
    if at_end < 0:
        return np.zeros(len(op), np.int64)
    recorded_gaps = tape.source.causes.gaps
    until = min(int(recorded_gaps.end[at_end]), int(tape.source.timed.steps.end[-1]))
    recorded = until - int(recorded_gaps.start[at_end])
    return np.where(_before_next(times, gaps, op), np.minimum(left, recorded), 0)


def _before_next(times: ReplayTimes, gaps: IntervalSet, op: I64) -> Bool:
    """Which gaps the next repetition's first op ends."""
    return (op >= 0) & (at(np.array(times.ready, np.int64), op, 0) < gaps.end)


def _kept(gap: I64, length: I64, recorded: I64) -> I64:
    """How much of each gap has been recorded, ns; of several that one recorded gap became, the
    first ones come first."""
    order = np.argsort(gap, kind="stable")
    before = np.cumsum(length[order]) - length[order]
    begins = where_changed(gap[order])
    before -= before[begins][np.cumsum(begins) - 1]
    kept = np.zeros(len(gap), np.int64)
    kept[order] = np.clip(recorded[order] - before, 0, length[order])
    return kept


def _of_the_replay_alone(
    tape: Tape, times: ReplayTimes, gaps: IntervalSet, op: I64, cause: U8, new: I64
) -> dict[IdleCause, F64]:
    """For each gap what of it was not recorded, ns, by what the host does until it launches the op:
    the parts of that are as large as in the whole gap."""
    called = np.array(times.called, np.int64)
    launch_at = at(called, at(tape.event, op, 0), 0)
    issued_at = np.where(_before_next(times, gaps, op) | (op < 0), gaps.end, launch_at)
    launched = np.clip(issued_at, gaps.start, gaps.end)
    spent = HostClock(tape, times).spent(gaps.start, launched)
    length = np.maximum(gaps.end - gaps.start, 1)
    share = new / length
    waiting = length - sum(spent.values(), np.zeros(len(length)))
    late = launched > gaps.start
    issued = late | (length < QUEUED_LATENCY_NS)
    after_wait = cause == IdleCause.SYNC
    if tape.source.timed.memo(keeps_waiting) or tape.source.timed.memo(could_be_ahead):
        after_wait |= late & _after_wait(tape, times)[op]
    for_others = cause == IdleCause.COMMUNICATION
    slow = spent["rest"] + np.where(issued, waiting, 0.0)
    times_of = {
        IdleCause.INPUT: share * spent["loading"],
        IdleCause.COMMUNICATION: share * np.where(for_others, spent["work"], 0.0),
        IdleCause.HOST: share * np.where(for_others, 0.0, spent["work"]),
        IdleCause.SYNC: share * (spent["reading"] + np.where(after_wait, slow, 0.0)),
        IdleCause.LAUNCH: share * np.where(after_wait, 0.0, slow),
        IdleCause.OTHER: share * np.where(issued, 0.0, waiting),
    }
    if tape.source.timed.memo(only_searches):
        times_of[IdleCause.HOST] += times_of.pop(IdleCause.SYNC)
    return times_of


def _after_wait(tape: Tape, times: ReplayTimes) -> Bool:
    """For each op, and last for none, whether the host was held until the device had nothing left,
    and has launched little since."""
    waited = np.array(times.returned) > np.array(times.called)
    held = np.flatnonzero(tape.waits & waited)
    position = np.searchsorted(held, tape.event, side="left") - 1
    last = np.append(held, -1)[position]
    launched = np.arange(len(tape.event)) - np.searchsorted(tape.event, last, side="right")
    return np.append((position >= 0) & (launched < REFILL_LAUNCHES), False)
