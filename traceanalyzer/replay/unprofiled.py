"""The step without the profiler, taken apart: the budget and the causes of idle time of the replayed schedule.

The work on the device is what was recorded, because no recorder stretches it. What the device idles is what the replay
without the profiler leaves; each stretch of it is charged with what the host did meanwhile. A cause is then held
against the replay without it: what gains nothing when it is removed does not hold the device up, and its idle time goes
to the causes that do.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from traceanalyzer.analysis.algebra.intervals import IntervalSet, complement, measure, subtract, union
from traceanalyzer.analysis.causes.gaps import REFILL_LAUNCHES, IdleCause, could_be_ahead, keeps_waiting
from traceanalyzer.analysis.tables.budget import Budget, Idle
from traceanalyzer.analysis.time.launch_queue import QUEUED_LATENCY_NS
from traceanalyzer.base.figures import ms
from traceanalyzer.replay.replayed_path import HostClock
from traceanalyzer.replay.scenarios import INPUT_READY, LAUNCHES_FREE, NO_HOST_SYNCS, NO_HOST_WORK
from traceanalyzer.replay.simulate import repetitions, run
from traceanalyzer.replay.stretches import Pass
from traceanalyzer.replay.tape import Tape
from traceanalyzer.replay.whatif import Replay
from traceanalyzer.trace import F64, I64, Bool

REMOVED = {
    IdleCause.INPUT: INPUT_READY,
    IdleCause.HOST: NO_HOST_WORK,
    IdleCause.SYNC: NO_HOST_SYNCS,
    IdleCause.LAUNCH: LAUNCHES_FREE,
}
"""What removes each cause that can be removed."""

NOTHING = 0.05
"""A cause without which less than this share of its idle time is gone is none."""

Causes = dict[IdleCause, float]
"""Idle time by cause, ms."""


class _Work(NamedTuple):
    """What a device did within a window."""

    compute: IntervalSet
    communication: IntervalSet
    copies: IntervalSet
    busy: IntervalSet


def partition(replay: Replay, recorded: Budget, device: int) -> tuple[Budget, Idle]:
    """Budget and causes of idle time of the step without the profiler, on a device; they sum to `replay.base_ms`.

    `recorded` is the budget of the recorded step: its computation is this step's, too.
    """
    tape, times = replay.typical[0], run(replay.typical, repetitions(replay.typical))[0]
    window = (times.done[-2], times.done[-1])
    work = _work(tape, times, device)
    charged = _charged(tape, times, complement(window, work.busy), device)
    busy = Budget(
        compute=recorded.compute,
        exposed_communication=_per_step(tape, subtract(work.communication, work.compute), window),
        exposed_copy=recorded.exposed_copy
        if not tape.communication.any()
        else _per_step(tape, subtract(subtract(work.copies, work.compute), work.communication), window),
        idle=0.0,
    )
    budget = fitted_to(busy, replay.base_ms)
    return budget, idle_of(held_against(replay, charged), budget.idle)


def with_recorded_causes(budget: Budget, idle: Idle, step_ms: float) -> tuple[Budget, Idle]:
    """Budget and causes of idle time of a step of this length without the profiler, where nothing can be replayed:
    work as recorded, causes of idle time in the proportions of the recording, the profiler's own left out."""
    fitted = fitted_to(budget, step_ms)
    causes: Causes = {cause: getattr(idle, cause.label) for cause in IdleCause}
    causes[IdleCause.PROFILER] = 0.0
    return fitted, idle_of(causes, fitted.idle)


def fitted_to(busy: Budget, step_ms: float) -> Budget:
    """A step of this length with this work on the device and idle time for the rest; where the work alone is longer
    (its clock was higher than in the recording), it is shortened."""
    parts = (busy.compute, busy.exposed_communication, busy.exposed_copy)
    total = sum(parts)
    scale = min(step_ms / total, 1.0) if total else 1.0
    compute, communication, copy = (part * scale for part in parts)
    return Budget(compute, communication, copy, max(step_ms - compute - communication - copy, 0.0))


def idle_of(charged: Causes, idle_ms: float) -> Idle:
    """The causes in the proportions that were found, so that they sum to the idle time."""
    total = sum(charged.values())
    if total <= 0:
        charged, total = {IdleCause.OTHER: 1.0}, 1.0
    return Idle(**{cause.label: idle_ms * charged.get(cause, 0.0) / total for cause in IdleCause})


def held_against(replay: Replay, charged: Causes) -> Causes:
    """The causes, held against the replay without each: one whose removal gains (nearly) nothing of what it is charged
    with holds nothing up, and its time goes to the cause whose removal gains most.

    Slow launches are charged to the waits that exposed them as far as the step is shorter without these.
    """
    gain = {cause: replay.gain_ms(scenario) / replay.scale for cause, scenario in REMOVED.items()}
    result = dict(charged)
    exposed = min(result[IdleCause.LAUNCH], max(gain[IdleCause.SYNC] - result[IdleCause.SYNC], 0.0))
    result[IdleCause.LAUNCH] -= exposed
    result[IdleCause.SYNC] += exposed
    idle = [cause for cause in REMOVED if gain[cause] < NOTHING * result[cause]]
    most = max(REMOVED, key=lambda cause: gain[cause])
    if most not in idle:
        for cause in idle:
            result[most] += result[cause]
            result[cause] = 0.0
    return result


def _work(tape: Tape, times: Pass, device: int) -> _Work:
    here = tape.source.trace.device_ops.device[tape.row] == device
    start, end = np.array(times.came, np.int64), np.array(times.end, np.int64)
    runs = here & (end > start)
    kinds = (tape.compute, tape.communication, tape.copy)
    compute, communication, copies = (union(start[runs & kind], end[runs & kind]) for kind in kinds)
    return _Work(compute, communication, copies, union(start[runs], end[runs]))


def _per_step(tape: Tape, intervals: IntervalSet, window: tuple[int, int]) -> float:
    return ms(measure(intervals, np.array(window[:1]), np.array(window[1:])).sum() / tape.steps)


def _charged(tape: Tape, times: Pass, gaps: IntervalSet, device: int) -> Causes:
    """Idle time of a step by what the host did until it launched the op that ended it, ms."""
    came, called = np.array(times.came, np.int64), np.array(times.called, np.int64)
    rows = np.flatnonzero(tape.source.trace.device_ops.device[tape.row] == device)
    rows = rows[np.argsort(came[rows], kind="stable")]
    position = np.searchsorted(came[rows], gaps.end)
    next_op = np.append(rows, -1)[position]
    launched = np.where(next_op >= 0, called[tape.event[next_op]], gaps.end)
    recorded = np.where(next_op >= 0, _recorded_cause(tape)[next_op], IdleCause.LAUNCH)
    arrival = np.clip(launched, gaps.start, gaps.end)
    spent = HostClock(tape, times).spent(gaps.start, arrival)
    left = gaps.end - gaps.start - sum(spent.values(), np.zeros(len(gaps.start)))
    late = launched > gaps.start
    waits_for_others = recorded == IdleCause.COMMUNICATION
    brief = gaps.end - gaps.start < QUEUED_LATENCY_NS
    dispatched = (late | brief) & ~((next_op >= 0) & _waited_for_unknown(tape)[next_op])
    by_cause: dict[IdleCause, F64] = {cause: np.zeros(len(gaps.start)) for cause in IdleCause}
    by_cause[IdleCause.INPUT] = spent["loading"]
    by_cause[IdleCause.COMMUNICATION] = np.where(waits_for_others, spent["work"], 0.0)
    by_cause[IdleCause.HOST] = np.where(waits_for_others, 0.0, spent["work"])
    after_wait = recorded == IdleCause.SYNC
    if tape.source.timed.memo(keeps_waiting) or tape.source.timed.memo(could_be_ahead):
        after_wait |= (next_op >= 0) & _after_wait(tape, times)[next_op]
    slow = spent["rest"] + np.where(dispatched, left, 0.0)
    by_cause[IdleCause.SYNC] = spent["reading"] + np.where(after_wait, slow, 0.0)
    by_cause[IdleCause.LAUNCH] = np.where(after_wait, 0.0, slow)
    queued = np.where(dispatched, 0.0, left)
    for cause in IdleCause:
        by_cause[cause] += np.where(recorded == cause, queued, 0.0)
    return {cause: ms(times_ns.sum() / tape.steps) for cause, times_ns in by_cause.items()}


def _after_wait(tape: Tape, times: Pass) -> Bool:
    """For each op whether the host was held until the device had nothing left, and has launched little since."""
    held = np.flatnonzero(tape.waits & (np.array(times.returned) > np.array(times.called)))
    position = np.searchsorted(held, tape.event, side="left") - 1
    last = np.append(held, -1)[position]
    launched = np.arange(len(tape.event)) - np.searchsorted(tape.event, last, side="right")
    return (position >= 0) & (launched < REFILL_LAUNCHES)


def _waited_for_unknown(tape: Tape) -> Bool:
    """Which ops ended a gap in the recording although they had been launched: they waited for what is not in it."""
    gaps, result = tape.source.causes.gaps, np.zeros(len(tape.source.trace.device_ops) + 1, bool)
    result[gaps.next_op] = (gaps.cause == IdleCause.OTHER) & (gaps.queued == 1)
    return result[tape.row]


def _recorded_cause(tape: Tape) -> I64:
    """For each op the cause of the gap that it ended in the recording, OTHER where it ended none."""
    gaps = tape.source.causes.gaps
    cause = np.full(len(tape.source.trace.device_ops) + 1, int(IdleCause.OTHER), np.int64)
    cause[gaps.next_op] = gaps.cause
    return cause[tape.row]
