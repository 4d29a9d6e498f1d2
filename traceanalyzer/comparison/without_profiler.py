"""The parts of a step as long as they are without the profiler.

The estimate of a report changes how long the parts of its step are, never what they are made of: a
part of the budget, or a cause of idle time, is stretched as a whole, and its rows with it."""

from dataclasses import replace
from typing import TypeVar

from traceanalyzer.analysis.tables.step_figures import Budget, Idle
from traceanalyzer.analysis.tables.step_parts import StepPart
from traceanalyzer.comparison.changes import order_of_change, step_change
from traceanalyzer.comparison.model import Difference, PartDifference, StepChange
from traceanalyzer.comparison.side_by_side.recorders import idle_as_one
from traceanalyzer.comparison.unit import Unit
from traceanalyzer.comparison.work import StepWork, both_steps, whole_step
from traceanalyzer.report.model import Report

D = TypeVar("D", bound=Difference)
Key = tuple[str, str | None]
"""A part of the budget, and of idle time its cause."""


def change_without_profiler(
    a: Report,
    b: Report,
    parts: tuple[list[StepPart], list[StepPart]],
    recorded: list[PartDifference],
    *,
    two_tools: bool,
) -> StepChange | None:
    """The step without the profiler in the `parts` of the recorded one, whose budget is `recorded`.

    Of `two_tools` in those that both see, as a whole where one of them sees none; None where one
    recorder made both and a side does not know its parts."""
    of_a = parts_without_profiler(a, parts[0])
    of_b = parts_without_profiler(b, parts[1])
    if of_a is None or of_b is None:
        return _as_a_whole(a, b) if two_tools else None
    if not two_tools:
        return _no_surer(_of_both(a, b, of_a, of_b), recorded)
    found = _of_both(a, b, idle_as_one(of_a), idle_as_one(of_b))
    return _idle_unsure(found)


def _as_a_whole(a: Report, b: Report) -> StepChange:
    steps = (a.metrics.unprofiled_step_time_ms, b.metrics.unprofiled_step_time_ms)
    of_a, of_b = (whole_step(step or 0.0) for step in steps)
    return _of_both(a, b, of_a, of_b)


def _of_both(a: Report, b: Report, of_a: list[StepPart], of_b: list[StepPart]) -> StepChange:
    return step_change((of_a, of_b), both_steps(a, b, (of_a, of_b), Unit().each))


def _no_surer(found: StepChange, recorded: list[PartDifference]) -> StepChange:
    """Idle time is estimated from the recorded one: what is noise there is not sure here."""
    noise = {part.name for part in recorded if part.significant is False}
    changes = [
        replace(change, significant=False) if f"{change.part}.{change.cls}" in noise else change
        for change in found.changes
    ]
    budget = [
        replace(part, significant=False) if part.name in noise and "idle" in part.name else part
        for part in found.budget
    ]
    return StepChange(found.step, sorted(changes, key=order_of_change), budget)


def _idle_unsure(found: StepChange) -> StepChange:
    """Idle time, and with it the step, of two recorders: estimates of one program are apart by an
    unknown amount, and so is what the hosts of two processes take."""
    changes = [_unsure(c) if c.part == "idle" else c for c in found.changes]
    budget = [_unsure(p) if p.name == "idle" else p for p in found.budget]
    return StepChange(_unsure(found.step), changes, budget)


def _unsure(difference: D) -> D:
    return replace(difference, low_ms=None, high_ms=None, significant=None)


def parts_without_profiler(report: Report, parts: list[StepPart]) -> list[StepPart] | None:
    """The parts of the report's recorded step, together as long as its step without the profiler;
    None where the report does not say how long its parts are without it."""
    found = report.metrics.unprofiled
    if found is None or not report.step_parts:
        return None
    wanted = _times_ms(found.budget_ms, found.idle_ms)
    stretched = []
    for key, ms in wanted.items():
        same = [part for part in parts if _key_of(part) == key]
        recorded_ms = StepWork.of(same).ms
        if recorded_ms:
            stretched += [_stretched(part, ms / recorded_ms) for part in same]
        elif ms:
            stretched.append(_of_the_estimate(key, ms, parts))
    return stretched


def _times_ms(budget: Budget, idle: Idle) -> dict[Key, float]:
    device: dict[Key, float] = {
        (part, None): ms for part, ms in vars(budget).items() if part != "idle"
    }
    return {**device, **{("idle", cause): ms for cause, ms in vars(idle).items()}}


def _key_of(part: StepPart) -> Key:
    return part.part, part.cls if part.part == "idle" else None


def _stretched(part: StepPart, factor: float) -> StepPart:
    batches = [ms * factor for ms in part.batch_ms]
    return replace(part, ms=part.ms * factor, batch_ms=batches)


def _of_the_estimate(key: Key, ms: float, parts: list[StepPart]) -> StepPart:
    """Time that the recorded step does not have: no place of it is known, nor how it varies."""
    part, cause = key
    batches = [ms] * max((len(p.batch_ms) for p in parts), default=0)
    return StepPart(part, cause or part, None, None, None, None, 0.0, ms, batches)
