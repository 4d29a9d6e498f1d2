"""The step without the profiler, taken apart: the budget and the idle time of the replayed schedule.

The device works as recorded, because no recorder stretches that. What it idles is what the replay
without the profiler leaves of the recorded gaps, and what the replay alone has (`idle_pieces`).
Where a stopwatch says that the step is longer than the recorded one, clocks or data differed: the
device's work is stretched, and no idle time is added."""

from dataclasses import replace

from traceanalyzer.analysis.algebra import complement
from traceanalyzer.analysis.causes.idle_cause import IdleCause
from traceanalyzer.analysis.tables.step_figures import Budget, Idle, Waiting
from traceanalyzer.base import dataclass, ms, ratio
from traceanalyzer.replay.idle_pieces import IdlePieces, idle_pieces, recorded_pieces, without_gaps
from traceanalyzer.replay.scenarios import INPUT_READY, LAUNCHES_FREE, NO_HOST_SYNCS, NO_HOST_WORK
from traceanalyzer.replay.simulate import repetitions, run
from traceanalyzer.replay.waiting import DeviceWork, Waited, waited_for_ranks, work_of
from traceanalyzer.replay.whatif import Replay

TRANSFER = "transfer"
REMOVED = {
    IdleCause.INPUT: INPUT_READY,
    IdleCause.HOST: NO_HOST_WORK,
    IdleCause.SYNC: NO_HOST_SYNCS,
    IdleCause.LAUNCH: LAUNCHES_FREE,
}
"""What removes each cause that can be removed."""


@dataclass(frozen=True, eq=False)
class StepWithoutProfiler:
    """The step without the profiler on a device: `budget` sums to it, `idle` to the budget's idle
    time."""

    budget: Budget
    idle: IdlePieces
    waiting: Waiting | None = None
    """What of the exposed communication is waiting for other ranks; None where one rank is
    replayed."""
    idle_waiting: Waiting | None = None
    """What of the idle time is: more than the recording has exposed communication."""


@dataclass(frozen=True)
class RecordedStep:
    """The mean recorded step, ms."""

    budget: Budget
    idle: Idle

    @property
    def step_ms(self) -> float:
        """Its length."""
        return _busy_ms(self.budget) + self.budget.idle


def replayed_step(replay: Replay, recorded: RecordedStep, device: int) -> StepWithoutProfiler:
    """The step without the profiler as it is replayed, on a device; it is `replay.base_ms` long.

    Its computation is the recorded step's, and it has no more communication exposed. What a replay
    exposes beyond that is hidden by computation that is not on the tape, or is idle time where
    ranks meet at another pace than they recorded."""
    tapes = replay.typical
    passes = run(tapes, repetitions(tapes))
    tape = tapes[0]
    times = passes[0]
    window = (times.done[-2], times.done[-1])
    work = work_of(tape, times, device).within(window)
    idle = idle_pieces(tape, times, complement(window, work.busy), device)
    waited = waited_for_ranks(tapes, passes, work.exposed_communication) if len(tapes) > 1 else {}
    on_tape = _work_ms(work, tape.steps)
    known = recorded.budget
    beyond_ms = max(on_tape.exposed_communication - known.exposed_communication, 0.0)
    as_idle = _as_idle(waited, beyond_ms, known.compute - on_tape.compute)
    idle = idle.followed_by(without_gaps(_own_part(as_idle, idle, recorded.idle)))
    idle = idle.followed_by(without_gaps({IdleCause.COMMUNICATION: sum(as_idle.values())}))
    replayed = Budget(
        known.compute,
        on_tape.exposed_communication - beyond_ms,
        on_tape.exposed_copy if tape.communication.any() else known.exposed_copy,
        float(idle.ms.sum()),
    )
    budget = fitted_to(replayed, replay.base_ms, _most_idle_ms(idle, recorded, replay.base_ms))
    idle = idle.filled_to(budget.idle, recorded_pieces(tape.source.causes))
    alone = StepWithoutProfiler(budget, idle)
    return alone if len(tapes) < 2 else _with_waiting(alone, replayed, waited, as_idle)


def _with_waiting(
    step: StepWithoutProfiler, replayed: Budget, waited: Waited, as_idle: Waited
) -> StepWithoutProfiler:
    """The step, fitted to its length, with the replayed waiting in its communication and in its idle
    time."""
    longer = ratio(step.budget.exposed_communication, replayed.exposed_communication)
    longer_idle = ratio(step.budget.idle, replayed.idle)
    in_idle = _waiting(as_idle, longer_idle) if sum(as_idle.values()) > 0 else None
    return replace(step, waiting=_waiting(waited, longer), idle_waiting=in_idle)


def step_as_recorded(recorded: RecordedStep, step_ms: float) -> StepWithoutProfiler:
    """A step of this length where nothing can be replayed: work as recorded, causes of idle time in
    the proportions of the recording, the profiler's own left out."""
    causes = {cause: getattr(recorded.idle, cause.label) for cause in IdleCause}
    causes[IdleCause.PROFILER] = 0.0
    idle = without_gaps(causes)
    work = replace(recorded.budget, idle=0.0)
    budget = fitted_to(work, step_ms, _most_idle_ms(idle, recorded, step_ms))
    return StepWithoutProfiler(budget, idle.scaled_to(budget.idle))


def fitted_to(step: Budget, step_ms: float, most_idle_ms: float) -> Budget:
    """A step of this length with the work of another: the rest of it is idle time, as far as there
    may be any. Beyond that computation and copies are stretched (clocks, data). Where the work
    alone is longer than the step, all of the other becomes shorter, its idle time too."""
    busy = _busy_ms(step)
    if busy >= step_ms:
        idle = min(step.idle, most_idle_ms)
        scale = step_ms / (busy + idle)
        return Budget(
            step.compute * scale,
            step.exposed_communication * scale,
            step.exposed_copy * scale,
            idle * scale,
        )
    idle = min(step_ms - busy, most_idle_ms)
    work = step.compute + step.exposed_copy
    if not work:
        return replace(step, idle=step_ms - busy)
    stretch = 1.0 + (step_ms - busy - idle) / work
    return Budget(
        step.compute * stretch, step.exposed_communication, step.exposed_copy * stretch, idle
    )


def _most_idle_ms(idle: IdlePieces, recorded: RecordedStep, step_ms: float) -> float:
    """Idle time that a step of this length may have: where it is longer than recorded, what was
    recorded, and what a loader's queue did not hide in the timed steps."""
    if step_ms < recorded.step_ms:
        return step_ms
    longer_input = idle.by_cause()[IdleCause.INPUT] - recorded.idle.input
    return recorded.budget.idle + max(longer_input, 0.0)


def _busy_ms(step: Budget) -> float:
    return step.compute + step.exposed_communication + step.exposed_copy


def _work_ms(work: DeviceWork, steps: int) -> Budget:
    """What the device did in a mean step of so many, without its idle time."""
    parts = (work.compute, work.exposed_communication, work.exposed_copies)
    compute, communication, copies = (ms(part.total / steps) for part in parts)
    return Budget(compute, communication, copies, 0.0)


def _as_idle(waited: Waited, time_ms: float, hidden_ms: float) -> Waited:
    """So much of the communication, but for what is hidden, as idle time: of the waiting, which
    becomes less by it (in place), by what the others do; what is no waiting is of their
    transfers."""
    waits = sum(waited.values())
    share = min(time_ms / waits, 1.0) if waits else 0.0
    idle = {part: share * spent for part, spent in waited.items()}
    for part in waited:
        waited[part] *= 1.0 - share
    idle[TRANSFER] = idle.get(TRANSFER, 0.0) + time_ms - share * waits
    left_ms = max(round(time_ms - max(hidden_ms, 0.0), 6), 0.0)  # whole ns
    return {part: spent * left_ms / time_ms if time_ms else 0.0 for part, spent in idle.items()}


def _own_part(waited: Waited, idle: IdlePieces, recorded: Idle) -> dict[IdleCause, float]:
    """What of this waiting is the rank's own idle time at another pace, ms: as much as it idled longer
    for the same cause where it was recorded. It is taken from the waiting, in place: what is left of
    that the rank never idled for by itself."""
    now = idle.by_cause()
    own = {}
    for cause in IdleCause:
        spare_ms = max(getattr(recorded, cause.label) - now[cause], 0.0)
        own[cause] = min(waited.get(cause, 0.0), spare_ms)
        if cause in waited:
            waited[cause] -= own[cause]
    return own


def _waiting(waited: Waited, longer: float | None) -> Waiting:
    """Waiting in a fitted step, where it is so many times as long."""
    scale = 1.0 if longer is None else longer
    return Waiting.of(
        {str(getattr(part, "label", part)): time * scale for part, time in waited.items()}
    )
