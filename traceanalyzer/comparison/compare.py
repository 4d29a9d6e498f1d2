"""Compares two reports."""

from dataclasses import replace
from operator import attrgetter

from traceanalyzer.analysis.memory.measure import Site
from traceanalyzer.base import MEMORY, digits, signed_share
from traceanalyzer.comparison.changes import changes_between, step_change
from traceanalyzer.comparison.conditions import (
    INPUT_SHAPES,
    RANK,
    are_unlike,
    conditions_between,
    other_shapes,
)
from traceanalyzer.comparison.evidence import evidence_of
from traceanalyzer.comparison.judge import Judged, judge
from traceanalyzer.comparison.metrics import has_equal_amounts, metrics_between, per_unit
from traceanalyzer.comparison.model import (
    Change,
    Comparison,
    Condition,
    Difference,
    NextAdvice,
    Predicted,
    Side,
    StepChange,
    Word,
    signed_ms,
)
from traceanalyzer.comparison.side_by_side.by_rank import ranks_between
from traceanalyzer.comparison.side_by_side.by_row import (
    batch_changes,
    outcomes_between,
    rows_between,
)
from traceanalyzer.comparison.side_by_side.recorders import (
    are_of_two_tools,
    idle_as_one,
    recorded_apart,
    timed_by_log,
)
from traceanalyzer.comparison.unit import Unit, of_one, side_of, unit_of
from traceanalyzer.comparison.without_profiler import change_without_profiler
from traceanalyzer.comparison.work import (
    both_steps,
    parts_of_both,
)
from traceanalyzer.diagnosis.finding import Recommendation
from traceanalyzer.report.figures.step_times import recorded_ms
from traceanalyzer.report.format import figure
from traceanalyzer.report.memory.model import LineChange, line_changes
from traceanalyzer.report.model import TOP_ROWS, Report
from traceanalyzer.report.outline import gains

SIGN_AGAINST = {"faster": 1, "likely_faster": 1, "slower": -1, "likely_slower": -1}
"""The sign of the differences that speak against a verdict."""
LEAST_SHARE = 0.01  # changes below this share of the step are not worth a sentence
CLASS_OF_PART = {"exposed_communication": "communication", "exposed_copy": "transfer"}
"""Parts of the budget whose findings have one class; of idle time it is the cause, and compute has
several."""


def compare_reports(a: Report, b: Report, names: tuple[str, str] = ("A", "B")) -> Comparison:
    """What changed from A to B. Raises EmptyRecordingError where one of them has neither steps nor
    device work."""
    unit = unit_of(a, b)
    two_tools = are_of_two_tools(a, b)
    if two_tools:
        a = timed_by_log(a)
        b = timed_by_log(b)
    a = of_one(a, unit.of_a)
    b = of_one(b, unit.of_b)
    sides = (side_of(a, names[0]), side_of(b, names[1]))
    known = parts_of_both(a, b, (sides[0].step_ms, sides[1].step_ms))
    parts = (idle_as_one(known[0]), idle_as_one(known[1])) if two_tools else known
    total = both_steps(a, b, parts, unit.each)
    recorded = step_change(parts, total)
    conditions = conditions_between(a, b)
    ranks = ranks_between(a, b)
    evidence = evidence_of(a, b, parts, recorded.step.a_ms, ranks)
    judged = judge(a, b, recorded.step, evidence, unit.per, unlike=are_unlike(conditions))
    comparison = Comparison(
        a=sides[0],
        b=sides[1],
        verdict=judged.word,
        basis=judged.times.basis,
        per=unit.per,
        could_see=judged.could_see,
        host_factor=evidence.host.factor if evidence.host else None,
        gpu_factor=evidence.gpu.factor if evidence.gpu else None,
        headline="",
        step=recorded.step,
        conditions=conditions,
        changes=recorded.changes,
        budget=recorded.budget,
        metrics=metrics_between(a, b),
        per_unit=per_unit(a, b),
        outcomes=outcomes_between(a, b),
        batches=batch_changes(a.tables.get("iterations", []), b.tables.get("iterations", [])),
        rows=rows_between(a, b, recorded.step.a_ms),
        predicted=predicted_for(a, b, sides, changes_between(*known, total)),
        notes=_notes(a, b, recorded.step),
        ranks=None if ranks is None else ranks.under(judged.word),
        memory=_memory(a.tables.get("memory", []), b.tables.get("memory", [])),
        recorded_apart=recorded_apart(a, b),
        recommendations=_following(b),
    )
    if comparison.basis == "unprofiled" and unit == Unit():
        unprofiled = change_without_profiler(a, b, known, recorded.budget, two_tools=two_tools)
        comparison = replace(comparison, unprofiled=unprofiled)
    return replace(comparison, headline=_headline(a, b, comparison, judged))


def step_comparison(a: Report, b: Report, names: tuple[str, str]) -> Comparison | None:
    """What changed from A to B in the step; None of two servers of which only the load is known."""
    of_servers = a.metrics.serving is not None and b.metrics.serving is not None
    if of_servers and not (recorded_ms(a) or recorded_ms(b)):
        return None
    return compare_reports(a, b, names)


def _headline(a: Report, b: Report, found: Comparison, judged: Judged) -> str:
    """The answer in a few sentences: time per sample where a step has other numbers of them, what
    keeps the two from being compared, the verdict, where the difference comes from."""
    by_batch = found.per_unit.sentence if found.per_unit else _by_batch(a, b, found, judged)
    sentences = (
        by_batch,
        _unlike(found.conditions),
        _of_step_alone(judged.sentence) if by_batch else judged.sentence,
        judged.reason,
        _lost_loss(a, b),
        *(outcome.sentence for outcome in found.outcomes if outcome.worse),
        _largest(found.judged, judged.word, found.conditions),
        found.ranks.sentence if found.ranks else "",
        _of_waiting(a, b, found.step),
        _of_memory(a, b),
    )
    return " ".join(filter(None, sentences))


def _following(b: Report) -> list[NextAdvice]:
    """What to change next, by B's report."""
    return [
        NextAdvice(gains.id_of(one), gains.prediction(b, one), one.action)
        for one in gains.on_first_screen(b)
    ]


def _unlike(conditions: list[Condition]) -> str:
    """In what the two are of other kinds; empty where they are not."""
    names = [c.name for c in conditions if c.incomparable]
    return f"Not like for like: other {', other '.join(names)}." if names else ""


def _lost_loss(a: Report, b: Report) -> str:
    """That B's loss is no number any more; empty where A's is none either."""
    before = a.metrics.timing
    after = b.metrics.timing
    if after is None or after.loss_lost_at is None:
        return ""
    if before is not None and before.loss_lost_at is not None:
        return ""
    return f"B's loss is nan or infinite from step {after.loss_lost_at} on."


def _by_batch(a: Report, b: Report, found: Comparison, judged: Judged) -> str:
    """What a sample takes if the one factor between the sizes is the batch's; empty where shapes
    are alike, steps have as many samples, or the two are of other kinds, too."""
    is_known = any(condition.name == INPUT_SHAPES for condition in found.conditions)
    if not is_known or are_unlike(found.conditions) or has_equal_amounts(a, b):
        return ""
    shapes = other_shapes(a, b)
    if shapes is None:
        return ""
    if shapes.factor is None:
        return "Steps of other shapes: --samples A,B or --tokens A,B compares samples or tokens."
    times = judged.times
    change = times.b_ms / times.a_ms / shapes.factor - 1.0
    word = "faster" if change < 0.0 else "slower"
    return (
        f"If B's batch is {digits(shapes.factor, 4)} times A's, it is {word} per sample: {signed_share(change)} "
        f"(--samples {shapes.samples})."
    )


def _of_step_alone(sentence: str) -> str:
    """The verdict on steps that hold other amounts of work."""
    return f"The step alone: {sentence[:1].lower()}{sentence[1:]}"


def _largest(found: StepChange, verdict: Word, conditions: list[Condition]) -> str:
    """Where most of the difference comes from, and which ranks are compared. What makes a faster
    step longer, as a slower machine does, is not what made it faster."""
    least_ms = LEAST_SHARE * found.step.a_ms
    against = SIGN_AGAINST.get(verdict, 0)
    sentences = []
    for change in found.changes:
        is_large = abs(change.difference_ms) >= least_ms and change.difference_ms * against <= 0
        is_sure = change.significant or (change.significant is None and verdict != "no_change")
        if is_sure and is_large:
            sentences.append(f"Largest part: {change.title}, {signed_ms(change.difference_ms)}.")
            break
    sentences += [f"A is {c.a}; B is {c.b}." for c in conditions if c.name == RANK]
    return " ".join(sentences)


def _of_waiting(a: Report, b: Report, step: Difference) -> str:
    """What of the communication is waiting for other ranks, where both know and that differs."""
    before = getattr(a.metrics.communication, "waiting_ms", None)
    after = getattr(b.metrics.communication, "waiting_ms", None)
    if before is None or after is None or abs(after - before) < LEAST_SHARE * step.a_ms:
        return ""
    return f"Waiting for other ranks within communication: {digits(before)} → {digits(after)} ms per step."


def _of_memory(a: Report, b: Report) -> str:
    """How much GPU memory both take at most, and what each step adds, where these differ."""
    found = []
    for what, name in (("at the peak", "peak"), ("grows per step", "growth_per_step")):
        x = getattr(a.metrics.memory, name, None)
        y = getattr(b.metrics.memory, name, None)
        if x is None or y is None:
            continue
        if abs(y - x) > LEAST_SHARE * max(abs(x), abs(y)):
            found.append(f"GPU memory {what}: {figure(x, MEMORY)} → {figure(y, MEMORY)}.")
    return " ".join(found)


def _memory(a: list[Site], b: list[Site]) -> list[LineChange]:
    """Lines of both tables; of a line that one of them has not, only where that table ends with
    less than it takes."""
    if not a or not b:
        return []
    least_a = _least_listed(b)
    least_b = _least_listed(a)
    found = []
    for line in line_changes(a, b):
        in_b = line.bytes or line.other_bytes > least_b
        in_a = line.other_bytes or line.bytes > least_a
        if in_a and in_b:
            found.append(line)
    return found


def _least_listed(sites: list[Site]) -> int:
    """Bytes of which a line may be missing from a table."""
    return sites[-1].bytes if len(sites) >= TOP_ROWS else 0


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
    cls = largest.cls if largest.part == "idle" else CLASS_OF_PART.get(largest.part)
    advice = _advised(a, b, cls)
    if advice is None or advice.predicted_step_ms is None:
        return None
    return Predicted(
        id=advice.id,
        action=advice.action,
        step_ms=advice.predicted_step_ms,
        low_ms=advice.low_ms,
        high_ms=advice.high_ms,
        measured_ms=after,
        remedy=advice.remedy,
    )


def _advised(a: Report, b: Report, cls: str | None) -> Recommendation | None:
    """A's advice for one finding of this class."""
    is_graph_new = _launches_graphs(b) and not _launches_graphs(a)
    known = {finding.id for finding in a.findings}
    for advice in a.recommendations:
        is_graph = advice.remedy == "cuda_graph"
        if is_graph == is_graph_new and advice.id in known and advice.cls == cls:
            return advice
    return None


def _launches_graphs(report: Report) -> bool:
    launches = report.metrics.launches
    return launches is not None and bool(launches.graph_launches)
