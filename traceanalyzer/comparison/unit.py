"""What times of two reports are compared by: a step; without steps a repeat, as much work, or the
whole recording."""

import dataclasses
from typing import Any

from traceanalyzer.analysis.tables.step_parts import StepPart
from traceanalyzer.base import EmptyRecordingError, dataclass
from traceanalyzer.comparison.model import Side
from traceanalyzer.comparison.speed import Ratio, speed_of
from traceanalyzer.comparison.work import of_part, paired_work
from traceanalyzer.report.figures.step_times import recorded_ms
from traceanalyzer.report.model import Metrics, Report
from traceanalyzer.report.outline.opening import causes

WITHOUT_STEPS = ("none", "recording")  # sources of steps that are none
EVENLY = 0.05  # counts whose quartiles differ by more are of different work, not of more of it
SAME_WORK = 0.005  # counts that differ by less are of as much work
SPLIT_TIMES = ("budget_ms", "idle_ms")
SINGLE_FIGURES = ("unprofiled_step_time_ms", "launches_per_step", "kernels_per_step")
"""Figures of a report's metrics that grow with the number of units."""
EACH = {"per step": " a step", "per repeat": " a repeat"}


@dataclass(frozen=True)
class Unit:
    """What times are of; `per` is empty where they are of a step on one side alone."""

    per: str = "per step"
    of_a: float = 1.0  # how many of it A's recording holds
    of_b: float = 1.0

    @property
    def each(self) -> str:
        """What counts are of, after them."""
        return EACH.get(self.per, "")


def unit_of(a: Report, b: Report) -> Unit:
    """What both can be compared by; steps where either has them."""
    without = [report.metrics.step_source in WITHOUT_STEPS for report in (a, b)]
    if not all(without):
        return Unit(per="") if any(without) else Unit()
    repeats = _repeats(a, b)
    if repeats is not None:
        return repeats
    return _as_much_work(of_part(a.step_parts, "compute"), of_part(b.step_parts, "compute"))


def _repeats(a: Report, b: Report) -> Unit | None:
    """Repeats of one series of operations, where both sides repeat the same."""
    of_a = a.metrics.repeats
    of_b = b.metrics.repeats
    if not of_a or not of_b or (of_a.name, of_a.ops) != (of_b.name, of_b.ops):
        return None
    a_ms = recorded_ms(a)
    b_ms = recorded_ms(b)
    if not a_ms or not b_ms:
        return None
    return Unit("per repeat", of_a=a_ms / of_a.mean_ms, of_b=b_ms / of_b.mean_ms)


def _as_much_work(a: list[StepPart], b: list[StepPart]) -> Unit:
    """As many calls of everything, where B makes evenly more or fewer of all."""
    sums = paired_work(a, b, lambda p: (p.op, p.shapes, p.kernel))
    ratios = [
        Ratio(theirs.calls / mine.calls, weight=min(mine.ms, theirs.ms))
        for mine, theirs in sums
        if mine.calls and theirs.calls
    ]
    counts = speed_of(ratios)
    if counts is None or abs(counts.factor - 1.0) < SAME_WORK:
        return Unit("for the recording")
    if counts.high - counts.low > EVENLY * counts.factor:
        return Unit("for the recording")
    return Unit("for as much work", of_b=counts.factor)


def side_of(report: Report, name: str) -> Side:
    """A side in short. Raises EmptyRecordingError where it has neither steps nor device work."""
    time = recorded_ms(report)
    kinds = sorted({i.kind for i in report.inputs})
    if not time:
        raise EmptyRecordingError(f"{name}: neither steps nor GPU work to compare")
    steps = report.metrics.step_time_ms.count if report.metrics.step_time_ms else 0
    return Side(
        name=name,
        kind="+".join(kinds),
        step_ms=time,
        steps=steps,
        bottleneck=report.summary.bottleneck,
        verdict=causes(report),
        unprofiled_step_ms=report.metrics.unprofiled_step_time_ms,
        unprofiled_source=report.metrics.unprofiled_source,
    )


def of_one(report: Report, units: float) -> Report:
    """The report with the times and counts of one unit, where it holds so many."""
    if units == 1.0:
        return report
    scaled = _scaled(report.metrics, units)
    parts = [
        dataclasses.replace(
            part,
            calls=part.calls / units,
            ms=part.ms / units,
            batch_ms=[ms / units for ms in part.batch_ms],
        )
        for part in report.step_parts
    ]
    metrics = dataclasses.replace(report.metrics, **scaled)
    return dataclasses.replace(report, metrics=metrics, step_parts=parts)


def _scaled(metrics: Metrics, units: float) -> dict[str, Any]:
    """The figures of one unit, those that are known."""
    found: dict[str, Any] = {}
    for name in SPLIT_TIMES:
        times = getattr(metrics, name)
        if times:
            shares = {part: ms / units for part, ms in vars(times).items()}
            found[name] = dataclasses.replace(times, **shares)
    for name in SINGLE_FIGURES:
        value = getattr(metrics, name)
        if value is not None:
            found[name] = value / units
    return found
