"""Compares two reports."""

from operator import attrgetter

from traceanalyzer.analysis.memory.measure import Site
from traceanalyzer.analysis.tables.step_parts import BUDGET, StepPart
from traceanalyzer.base import MEMORY, EmptyRecordingError
from traceanalyzer.comparison.by_row import batch_changes, rows_between
from traceanalyzer.comparison.changes import changes_between
from traceanalyzer.comparison.conditions import INPUT_SHAPES, RANK, conditions_between
from traceanalyzer.comparison.evidence import evidence_of, of_one, unit_of
from traceanalyzer.comparison.judge import reason, resolution, sentence, times_of, word_of
from traceanalyzer.comparison.metrics import figures_by_path, metrics_between, per_unit
from traceanalyzer.comparison.model import (
    Change,
    Comparison,
    Condition,
    Difference,
    PartDifference,
    Predicted,
    Side,
)
from traceanalyzer.comparison.work import WHOLE, Whole, Work, figures, parts_of_both
from traceanalyzer.diagnosis.finding import Recommendation
from traceanalyzer.report.format import figure
from traceanalyzer.report.memory.model import LineChange, line_changes
from traceanalyzer.report.model import TOP_ROWS, Report
from traceanalyzer.report.outline.breakdown import recorded_ms

ORDER = (*BUDGET, WHOLE)
LEAST_SHARE = 0.01  # changes below this share of the step are not worth a sentence


CLASS_OF_PART = {"exposed_communication": "communication", "exposed_copy": "transfer"}
"""Parts of the budget whose findings have one class; of idle time it is the cause, and compute has
several."""


def compare_reports(a: Report, b: Report, names: tuple[str, str] = ("A", "B")) -> Comparison:
    """What changed from A to B. Raises EmptyRecordingError where one of them has neither steps nor
    device work."""
    unit = unit_of(a, b)
    a = of_one(a, unit.of_a)
    b = of_one(b, unit.of_b)
    sides = _side(a, names[0]), _side(b, names[1])
    parts = parts_of_both(a, b)
    x, y = map(Work.of, parts)
    whole = Whole(
        (x.batch_ms, y.batch_ms),
        (a.metrics.launches_per_step, b.metrics.launches_per_step),
        unit.each,
    )
    step = Difference(**figures(x, y, whole))
    changes = changes_between(*parts, whole)
    conditions = conditions_between(a, b)
    each = per_unit(a, b)
    evidence = evidence_of(a, b, parts, step.a_ms)
    times = times_of(a, b, step, evidence)
    could_see = resolution(b, times, step, evidence)
    other = [c.name for c in conditions if c.incomparable]
    unlike = any(name != INPUT_SHAPES for name in other)
    word = word_of(times, step, evidence, could_see, unlike=unlike)
    why = "" if unlike else reason(word, times, evidence, could_see, unit.per)
    answer = sentence(word, times, step, unit.per, unlike=unlike)
    causes = _largest(step, changes, conditions), _of_waiting(a, b, step), _of_memory(a, b)
    first = f"Not like for like: other {', other '.join(other)}." if other else ""
    told = [first, each.sentence if each else "", answer, why, *causes]
    return Comparison(
        a=sides[0],
        b=sides[1],
        verdict=word,
        basis=times.basis,
        per=unit.per,
        could_see=could_see,
        host_factor=evidence.host and evidence.host.factor,
        gpu_factor=evidence.gpu and evidence.gpu.factor,
        headline=" ".join(filter(None, told)),
        step=step,
        conditions=conditions,
        changes=changes,
        budget=_budget(*parts, whole),
        metrics=metrics_between(a, b),
        notes=_notes(a, b, step),
        memory=_memory(a.tables.get("memory", []), b.tables.get("memory", [])),
        batches=batch_changes(a.tables.get("iterations", []), b.tables.get("iterations", [])),
        rows=rows_between(a, b, step.a_ms),
        predicted=predicted_for(a, b, sides, changes),
        per_unit=each,
    )


def _memory(a: list[Site], b: list[Site]) -> list[LineChange]:
    """Lines of both tables; of a line that one of them has not, only where that table ends with
    less than it takes."""
    if not a or not b:
        return []
    least_a, least_b = (other[-1].bytes if len(other) >= TOP_ROWS else 0 for other in (b, a))
    both = [line for line in line_changes(a, b) if line.bytes or line.other_bytes > least_b]
    return [line for line in both if line.other_bytes or line.bytes > least_a]


def _side(report: Report, name: str) -> Side:
    time = recorded_ms(report)
    kinds = sorted({i.kind for i in report.inputs})
    if not time:
        raise EmptyRecordingError(f"{name}: neither steps nor GPU work to compare")
    steps = report.metrics.step_time_ms.count if report.metrics.step_time_ms else 0
    unprofiled = report.metrics.unprofiled_step_time_ms, report.metrics.unprofiled_source
    return Side(name, "+".join(kinds), time, steps, report.summary.bottleneck, *unprofiled)


def _budget(a: list[StepPart], b: list[StepPart], whole: Whole) -> list[PartDifference]:
    """Parts of the budget, and after `idle` its causes."""
    causes = [(p.part, p.cls) for p in (*a, *b) if p.part == "idle"]
    keys = dict.fromkeys([*((p.part, None) for p in (*a, *b)), *causes])
    rows = []
    for part, cls in sorted(keys, key=lambda key: (ORDER.index(key[0]), key[1] is not None)):
        x, y = (
            Work.of(p for p in side if p.part == part and cls in (None, p.cls)) for side in (a, b)
        )
        rows.append(
            PartDifference(**figures(x, y, whole), name=".".join(filter(None, (part, cls))))
        )
    return rows


def _largest(step: Difference, changes: list[Change], conditions: list[Condition]) -> str:
    """Where most of the difference comes from, and which ranks are compared."""
    largest = [
        c
        for c in changes
        if c.significant is not False and abs(c.difference_ms) >= LEAST_SHARE * step.a_ms
    ]
    text = (
        [f"Largest part: {largest[0].title}, {largest[0].difference_ms:+.3g} ms."]
        if largest
        else []
    )
    return " ".join([*text, *(f"A is {c.a}; B is {c.b}." for c in conditions if c.name == RANK)])


def _of_waiting(a: Report, b: Report, step: Difference) -> str:
    """What of the communication is waiting for other ranks, where both know and that differs."""
    before, after = (getattr(report.metrics.communication, "waiting_ms", None) for report in (a, b))
    if before is None or after is None or abs(after - before) < LEAST_SHARE * step.a_ms:
        return ""
    return f"Waiting for other ranks within communication: {before:.3g} → {after:.3g} ms per step."


def _of_memory(a: Report, b: Report) -> str:
    """How much GPU memory both take at most, and what each step adds, where these differ."""
    found = []
    for what, name in (("at the peak", "peak"), ("grows per step", "growth_per_step")):
        x, y = (getattr(report.metrics.memory, name, None) for report in (a, b))
        if x is not None and y is not None and abs(y - x) > LEAST_SHARE * max(abs(x), abs(y)):
            found.append(f"GPU memory {what}: {figure(x, MEMORY)} → {figure(y, MEMORY)}.")
    return " ".join(found)


def _notes(a: Report, b: Report, step: Difference) -> list[str]:
    notes = []
    if not (a.step_parts and b.step_parts):
        notes.append(
            "One of the two does not have its step by operator and kernel (a report saved by an earlier version, or a "
            "timing log): changes are as fine as both allow."
        )
    if step.significant is None:
        notes.append(
            "One of the two has a single step: no spread, so no interval; record at "
            "least three steps."
        )
    return notes


def predicted_for(
    a: Report, b: Report, sides: tuple[Side, Side], changes: list[Change]
) -> Predicted | None:
    """The prediction of A's report for the remedy that B shows; None where none follows from what
    became shorter.

    That is the remedy of the class whose time shrank most; a CUDA graph where B launches graphs and
    A did not. A step that became longer was not what any of them was about."""
    before = sides[0].unprofiled_step_ms or 0.0
    after = sides[1].timed_ms
    shrunk = [change for change in changes if change.significant and change.difference_ms < 0]
    if not shrunk or a.summary.basis != "unprofiled" or not 0.0 < after < before:
        return None
    largest = min(shrunk, key=attrgetter("difference_ms"))
    found = _advised(a, b, {**CLASS_OF_PART, "idle": largest.cls}.get(largest.part))
    if found is None or found.predicted_step_ms is None:
        return None
    return Predicted(
        found.id, found.action, found.predicted_step_ms, found.low_ms, found.high_ms, after
    )


def _advised(a: Report, b: Report, cls: str | None) -> Recommendation | None:
    """A's advice for one finding of this class."""
    before, after = (
        bool(getattr(figures_by_path(r).get("launches.graph_launches"), "value", 0)) for r in (a, b)
    )
    fitting = (r for r in a.recommendations if (r.remedy == "cuda_graph") == (after > before))
    alone = {finding.id for finding in a.findings}
    return next((r for r in fitting if r.id in alone and r.cls == cls), None)
