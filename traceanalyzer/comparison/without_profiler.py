"""The parts of a step as long as they are without the profiler.

The estimate of a report changes how long the parts of its step are, never what they are made of: a
part of the budget, or a cause of idle time, is stretched as a whole, and its rows with it."""

import dataclasses

from traceanalyzer.analysis.tables.step_figures import Budget, Idle
from traceanalyzer.analysis.tables.step_parts import StepPart
from traceanalyzer.comparison.work import StepWork
from traceanalyzer.report.model import Report

Key = tuple[str, str | None]
"""A part of the budget, and of idle time its cause."""


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
    return dataclasses.replace(part, ms=part.ms * factor, batch_ms=batches)


def _of_the_estimate(key: Key, ms: float, parts: list[StepPart]) -> StepPart:
    """Time that the recorded step does not have: no place of it is known, nor how it varies."""
    part, cause = key
    batches = [ms] * max((len(p.batch_ms) for p in parts), default=0)
    return StepPart(part, cause or part, None, None, None, None, 0.0, ms, batches)
