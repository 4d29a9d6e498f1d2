"""The step without the profiler, taken apart: the budget and the idle time of the replayed schedule.

The device works as recorded, because no recorder stretches that. What it idles is what the replay
without the profiler leaves of the recorded gaps, and what the replay alone has (`idle_pieces`).
Where a stopwatch says that the step is longer than the recorded one, clocks or data differed: the
device's work is stretched, and no idle time is added."""

from dataclasses import replace

from traceanalyzer.analysis.algebra import complement
from traceanalyzer.analysis.causes.idle_cause import IdleCause
from traceanalyzer.analysis.tables.step_figures import Budget, Idle, Waiting
from traceanalyzer.base import dataclass, ms
from traceanalyzer.replay.idle_pieces import IdlePieces, idle_pieces, without_gaps
from traceanalyzer.replay.scenarios import INPUT_READY, LAUNCHES_FREE, NO_HOST_SYNCS, NO_HOST_WORK
from traceanalyzer.replay.simulate import repetitions, run
from traceanalyzer.replay.waiting import DeviceWork, Waited, waited_for_ranks, work_of
from traceanalyzer.replay.whatif import Replay

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
    exposed = work.exposed_communication
    waited = waited_for_ranks(tapes, passes, exposed) if len(tapes) > 1 else {}
    on_tape = _work_ms(work, tape.steps)
    known = recorded.budget
    beyond_ms = max(on_tape.exposed_communication - known.exposed_communication, 0.0)
    idle = idle.followed_by(_as_idle(waited, beyond_ms, known.compute - on_tape.compute))
    replayed = Budget(
        known.compute,
        on_tape.exposed_communication - beyond_ms,
        on_tape.exposed_copy if tape.communication.any() else known.exposed_copy,
        float(idle.ms.sum()),
    )
    budget = fitted_to(replayed, replay.base_ms, _most_idle_ms(idle, recorded, replay.base_ms))
    waiting = _waiting(waited, replayed, budget) if len(tapes) > 1 else None
    return StepWithoutProfiler(budget, idle.scaled_to(budget.idle), waiting)


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


def _as_idle(waited: Waited, time_ms: float, hidden_ms: float) -> IdlePieces:
    """So much of the communication, but for what is hidden, as idle time: of the waiting, which
    becomes less by it (in place), by its causes."""
    waits = sum(waited.values())
    share = min(time_ms / waits, 1.0) if waits else 0.0
    idle = dict.fromkeys(IdleCause, 0.0)
    for part, spent in waited.items():
        idle[part if isinstance(part, IdleCause) else IdleCause.COMMUNICATION] += share * spent
        waited[part] = (1.0 - share) * spent
    idle[IdleCause.COMMUNICATION] += time_ms - share * waits
    left_ms = round(time_ms - max(hidden_ms, 0.0), 6)  # whole ns
    return without_gaps(idle).scaled_to(left_ms) if left_ms > 0 else without_gaps({})


def _waiting(waited: Waited, replayed: Budget, budget: Budget) -> Waiting:
    """The waiting within the exposed communication of the fitted step."""
    exposed = replayed.exposed_communication
    scale = budget.exposed_communication / exposed if exposed else 1.0
    return Waiting(
        **{str(getattr(part, "label", part)): time * scale for part, time in waited.items()}
    )
