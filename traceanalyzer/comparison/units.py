"""Recordings without steps, brought to the same amount of work: by what repeats in both, else by counts of kernels."""

import dataclasses
from typing import NamedTuple

from traceanalyzer.comparison.evidence import paired, speed_of
from traceanalyzer.report.model import Report
from traceanalyzer.report.outline.breakdown import recorded_ms

WITHOUT_STEPS = ("none", "recording")
"""Sources of steps that are none."""
EVENLY = 0.05
"""Counts whose quartiles differ by more are of different work, not of more of it."""
SAME_WORK = 0.005
"""Counts that differ by less are of as much work."""


class Unit(NamedTuple):
    """What times are of; the text is empty where they are of a step on one side alone."""

    per: str = "per step"
    of_a: float = 1.0
    """How many of it A's recording holds."""
    of_b: float = 1.0

    @property
    def each(self) -> str:
        """What counts are of, after them."""
        return {"per step": " a step", "per repeat": " a repeat"}.get(self.per, "")


def unit_of(a: Report, b: Report) -> Unit:
    """What both can be compared by; steps where either has them."""
    without = [report.metrics.step_source in WITHOUT_STEPS for report in (a, b)]
    if not all(without):
        return Unit("") if any(without) else Unit()
    x, y = a.metrics.repeats, b.metrics.repeats
    whole = recorded_ms(a), recorded_ms(b)
    if x and y and whole[0] and whole[1] and (x.name, x.ops) == (y.name, y.ops):
        return Unit("per repeat", whole[0] / x.mean_ms, whole[1] / y.mean_ms)
    pairs = paired(a.step_parts, b.step_parts, lambda p: (p.op, p.shapes, p.kernel) if p.part == "compute" else None)
    sums = [[(sum(p.calls for p in side), sum(p.ms for p in side)) for side in pair] for pair in pairs]
    counts = speed_of([(y[0] / x[0], min(x[1], y[1])) for x, y in sums if x[0] and y[0]])
    if counts is None or counts.high - counts.low > EVENLY * counts.factor or abs(counts.factor - 1.0) < SAME_WORK:
        return Unit("for the recording")
    return Unit("for as much work", 1.0, counts.factor)


def of_one(report: Report, units: float) -> Report:
    """The report with the times and counts of one unit, where it holds so many."""
    if units == 1.0:
        return report
    metrics = report.metrics
    known = {name: getattr(metrics, name) for name in ("budget_ms", "idle_ms")}
    scaled = {name: type(of)(*(ms / units for ms in dataclasses.astuple(of))) for name, of in known.items() if of}
    single = ("unprofiled_step_time_ms", "launches_per_step", "kernels_per_step")
    scaled |= {name: getattr(metrics, name) / units for name in single if getattr(metrics, name) is not None}
    parts = [
        dataclasses.replace(p, calls=p.calls / units, ms=p.ms / units, batch_ms=[ms / units for ms in p.batch_ms])
        for p in report.step_parts
    ]
    return dataclasses.replace(report, metrics=dataclasses.replace(metrics, **scaled), step_parts=parts)
