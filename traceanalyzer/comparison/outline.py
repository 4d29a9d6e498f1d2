"""What a comparison says to people: its sections, the same words and figures wherever they are
drawn."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from traceanalyzer.base import ELLIPSIS, dataclass, metric, plural, signed_share
from traceanalyzer.comparison.judge import SETTLE
from traceanalyzer.comparison.model import Change, Comparison, Difference, Predicted, Side
from traceanalyzer.comparison.noise import RUN_NOISE_SHARE
from traceanalyzer.comparison.side_by_side.by_rank import RankChange
from traceanalyzer.comparison.side_by_side.by_row import SHOWN
from traceanalyzer.report.document import (
    Drawing,
    Facts,
    Item,
    Items,
    Paragraph,
    Part,
    Section,
    Table,
    Verdict,
    Weight,
)
from traceanalyzer.report.format import figure, number, shorten
from traceanalyzer.report.html.charts import Chart
from traceanalyzer.report.html.frame import chart_place
from traceanalyzer.report.html.markup import Markup
from traceanalyzer.report.html.pictures.plot import Plot
from traceanalyzer.report.html.pictures.summary import waterfall
from traceanalyzer.report.outline.opening import TIMING_LOG

ANSWER = "Summary"
TITLE = "Comparison"
UNLIKE = "Not like for like"
CHANGES = "Where the difference comes from"
NOTES = "Notes"
METRICS = "Metrics"
FINDINGS = "Findings"
RECOMMENDATIONS = "Recommendations"
NOTHING_NEXT = "No known remedy is predicted to help B further."
"""Titles of the sections that a first screen has."""
WATERFALL = "From A to B"
BASES = {True: "without the profiler", False: "as recorded"}
"""What a comparison's parts are of, by whether both steps without the profiler are known."""
BY_ROW = {"ops": "By operator", "modules": "By module", "kernels": "By kernel"}
SHOWN_SHARE = 0.005  # changes below this share of the longer step are shown together
SHOWN_CHANGES = 15
EXPLAINED = 3  # changes that are shown with what they are made of
SHOWN_DETAILS = 8
SHOWN_METRICS = (
    "throughput.samples_per_s",
    "throughput.tokens_per_s",
    "gpu_busy_share",
    "kernels_per_step",
    "launches_per_step",
    "launches.launch_mean_us",
    "launches.graph_launches",
    "launches.copy_calls",
    "syncs.calls",
    "host.dispatch_ms",
    "host.work_ms",
    "communication.total_ms",
    "communication.transfer_ms",
    "communication.waiting_ms",
    "communication.overlap_share",
    "roofline.tflop",
    "roofline.traffic_gb",
    "roofline.mfu",
    "memory.peak",
    "memory.reserved",
    "memory.growth_per_step",
    "compile.compile_s",
    "compile.graphs",
    "compile.graph_breaks",
    "compile.recompiles",
)
"""Figures besides the step time that show what the program does; `--format json` has all."""
LOW_OF_DIFFERENCE = (
    "lower end of the 95 % interval of the difference over steps (Welch, batch means)"
)
WHOLE = 0.005  # numbers of calls that are this near to a whole one are whole
NEGLIGIBLE = 0.005  # figures that differ by less are the same, for a reader


@dataclass(frozen=True)
class ChangeRow:
    """A change in the table of all."""

    change: str = metric("what changed: operators, kernels, or a cause of idle time")
    part: str = metric("part of the step's budget it belongs to")
    a_ms: float = metric("wall-clock time in A's mean step")
    b_ms: float = metric("wall-clock time in B's mean step")
    difference_ms: float = metric("B less A; these sum to the difference of the step times")
    low_ms: float | None = metric(LOW_OF_DIFFERENCE)
    high_ms: float | None = metric("upper end of it")
    verdict: str | None = metric("whether it is more than steps and runs vary")


@dataclass(frozen=True)
class DetailRow:
    """A part of a change."""

    what: str = metric("operator, shapes and kernel; of idle time the place it is charged to")
    calls: str = metric("device ops per step in A and B, or in all steps where those differ")
    a_ms: float = metric("wall-clock time in A's mean step")
    b_ms: float = metric("wall-clock time in B's mean step")
    difference_ms: float = metric("B less A")


@dataclass(frozen=True)
class IdleRow:
    """A part of a change of idle time."""

    what: str = metric("operator, call or wait that the idle time is charged to")
    gaps: str = metric("idle gaps per step in A and B, or in all steps where those differ")
    a_ms: float = metric("idle time in A's mean step")
    b_ms: float = metric("idle time in B's mean step")
    difference_ms: float = metric("B less A")


@dataclass(frozen=True)
class BudgetRow:
    """A part of the step's budget, or a cause of idle time."""

    part: str = metric("part of the step's budget, or `idle.` and the cause (a part of `idle`)")
    a_ms: float = metric("wall-clock time in A's mean step")
    b_ms: float = metric("wall-clock time in B's mean step")
    difference_ms: float = metric("B less A")
    low_ms: float | None = metric(LOW_OF_DIFFERENCE)
    high_ms: float | None = metric("upper end of it")
    verdict: str | None = metric("whether it is more than steps and runs vary")


@dataclass(frozen=True)
class FigureRow:
    """A figure of both sides as text, each in its own unit."""

    figure: str = metric("figure of the report (`metrics` in its JSON)")
    a: str = metric("in A")
    b: str = metric("in B")
    difference: str = metric("B less A")

    @classmethod
    def of(cls, name: str, a: float | None, b: float | None, unit: str) -> "FigureRow":
        """That of two values, None where a side has none."""
        difference = None if a is None or b is None else b - a
        sign = "+" if difference is not None and difference > 0 else ""
        told = sign + figure(difference, unit)
        if unit == "share":  # 13.6 of 100, not 13.6 % more
            told = told.replace("%", " points")
        return cls(name, figure(a, unit), figure(b, unit), told)


@dataclass(frozen=True)
class ConditionRow:
    """A condition of both sides."""

    condition: str = metric("in what the two differ other than in time")
    a: str = metric("in A")
    b: str = metric("in B")
    effect: str = metric("what that does to the comparison")


LONGEST_NAME = 32  # characters of a path: each side has a line, with two causes in 80 columns


def sections(comparison: Comparison) -> list[Section]:
    """The page from top to bottom; sections without anything to say are left out."""
    shown = changes_shown(comparison)
    explained = [c for c in shown if c.significant is not False and len(c.details) > 1][:EXPLAINED]
    parts = comparison.judged.budget
    budget = [BudgetRow(p.name.replace("_", " "), *_figures_of(p)) for p in parts]
    waterfall = Drawing(partial(_waterfall_chart, comparison))
    summary = [
        Section(ANSWER, [_answer(comparison)]),
        _rows(UNLIKE, _conditions(comparison, incomparable=True)),
        Section(NOTES, comparison.notes, weight=Weight.TABLE, is_minor=True),
    ]
    metrics = [
        Section(METRICS, [Facts.of(*_steps(comparison))], weight=Weight.METRICS),
        _rows("The step's budget", budget, Weight.HEALTH),
        *(
            _rows(title, comparison.rows.get(name, [])[:SHOWN], Weight.TABLE)
            for name, title in BY_ROW.items()
        ),
        _rows("By rank", _ranks(comparison), Weight.HEALTH),
        _rows("What training came to", comparison.outcomes, Weight.TABLE),
        _rows("Iterations at like batches", comparison.batches, Weight.TABLE),
        _rows("GPU memory at the peak, by line", comparison.memory[:SHOWN_CHANGES], Weight.TABLE),
        _rows("Other figures", _figures(comparison), Weight.TABLE),
        _rows("Conditions that differ", _conditions(comparison, incomparable=False), Weight.CHART),
    ]
    findings = [
        Section(FINDINGS, [], weight=Weight.ANSWER),
        Section(CHANGES, [waterfall, Table(_changes(comparison, shown))], is_minor=True),
        *(_explained(comparison, change) for change in explained),
    ]
    page = [*summary, *metrics, *findings, _recommended(comparison)]
    return [section for section in page if section.parts or section.title == FINDINGS]


def _steps(comparison: Comparison) -> list[tuple[str, str]]:
    """The step of both, with and without the profiler, and for each sample."""
    a = comparison.a
    b = comparison.b
    per = comparison.per_unit
    facts = [("as recorded", _from_to(a.step_ms, b.step_ms))]
    if a.unprofiled_step_ms and b.unprofiled_step_ms:
        without = _from_to(a.unprofiled_step_ms, b.unprofiled_step_ms)
        facts.insert(0, ("without the profiler", without))
    if per is not None:
        facts.insert(0, (f"per {per.unit}", _from_to(per.a_ms, per.b_ms)))
    return facts


def _from_to(a_ms: float, b_ms: float) -> str:
    share = (b_ms - a_ms) / a_ms if a_ms else 0.0
    return f"{figure(a_ms, 'ms')} → {figure(b_ms, 'ms')} ({signed_share(share)})"


def _recommended(comparison: Comparison) -> Section:
    """How to be sure, where the recordings are not, and what to change next, in B."""
    unsure = comparison.verdict.startswith(("likely", "not"))
    following = [
        Item(one.action, [(f"{one.gain}; id: {one.id}", "green")])
        for one in comparison.recommendations
    ]
    parts: list[Part | None] = [Paragraph(SETTLE)] if unsure else []
    parts += [Paragraph("What to change next, in B:"), Items(following)] if following else []
    return Section(RECOMMENDATIONS, parts or [NOTHING_NEXT], weight=Weight.ADVICE)


def _ranks(comparison: Comparison) -> Sequence[RankChange]:
    """The ranks that both have, those that became later or less late by most first."""
    rows = comparison.ranks.rows if comparison.ranks else []
    return sorted(rows, key=lambda row: -abs(row.late_difference_ms or 0.0))[:SHOWN]


def _rows(title: str, rows: Sequence[Any], weight: Weight = Weight.ANSWER) -> Section:
    return Section(title, [Table(rows)] if rows else [], weight=weight, is_minor=True)


def _explained(comparison: Comparison, change: Change) -> Section:
    """What a change is made of."""
    more = len(change.details) - SHOWN_DETAILS
    left_out = (
        f"The {SHOWN_DETAILS} largest parts; --format json has {more} more." if more > 0 else None
    )
    steps = (comparison.a.steps, comparison.b.steps)
    row = IdleRow if change.part == "idle" else DetailRow
    details = []
    for d in change.details[:SHOWN_DETAILS]:
        calls = _calls((d.a_calls, d.b_calls), steps)
        details.append(row(d.what, calls, d.a_ms, d.b_ms, d.difference_ms))
    return Section(
        change.title, [left_out, Table(details)], folded=True, weight=Weight.GROUP, is_minor=True
    )


def change_rows(comparison: Comparison) -> list[ChangeRow]:
    """Every change, for a spreadsheet."""
    return [ChangeRow(c.title, c.part, *_figures_of(c)) for c in comparison.judged.changes]


def changes_shown(comparison: Comparison) -> list[Change]:
    """The changes that are shown one by one."""
    judged = comparison.judged
    least = SHOWN_SHARE * max(judged.step.a_ms, judged.step.b_ms)
    return [c for c in judged.changes if abs(c.difference_ms) >= least][:SHOWN_CHANGES]


def _answer(comparison: Comparison) -> Verdict:
    sides = [
        _side(name, side, comparison.per)
        for name, side in (("A", comparison.a), ("B", comparison.b))
    ]
    step = comparison.step
    promise = comparison.predicted
    apart = comparison.recorded_apart
    two_tools = apart is not None and apart.is_other_tool
    more = [apart.sentence] if apart is not None and two_tools else []
    if step.low_ms is not None and not two_tools:
        more.append(
            f"Recorded steps differ by {signed_number(step.difference_ms)} ms (95% interval "
            f"{interval(step)})."
        )
    if promise is not None and not any(c.incomparable for c in comparison.conditions):
        more.append(_kept(promise))
    return Verdict(comparison.headline, [*sides, *more])


def _kept(promise: Predicted) -> str:
    """What was promised, what was measured, and whether the one holds the other."""
    predicted = f"A's report predicted {number(promise.step_ms)} ms"
    measured = f"measured {number(promise.measured_ms)}"
    if promise.low_ms is None or promise.high_ms is None:
        return f"{predicted} for {promise.name}; {measured}."
    inside = promise.low_ms <= promise.measured_ms <= promise.high_ms
    where = "within the range" if inside else "outside the range"
    between = f"({number(promise.low_ms)} to {number(promise.high_ms)})"
    return f"{predicted} {between} for {promise.name}; {measured}, {where}."


def _side(name: str, side: Side, per: str) -> str:
    least = 1 if per == "per step" else 2
    if side.steps >= least:
        steps = f"{side.steps} {plural('step', side.steps)}"
    else:
        steps = "the mean repeat" if per == "per repeat" else "the whole recording"
    return f"{name}: {_end_of_path(side.name)} ({side.kind}), {steps}, {side.verdict}"


def _end_of_path(path: str) -> str:
    """A path, of a long one the last folders and the name, which tell two apart."""
    if len(path) <= LONGEST_NAME:
        return path
    end = path[-LONGEST_NAME + len(ELLIPSIS) :]
    _, slash, folders = end.partition("/")
    return f"{ELLIPSIS}{slash}{folders}" if slash else shorten(path, LONGEST_NAME)


def largest_changes(comparison: Comparison, count: int) -> list[ChangeRow]:
    """The largest changes, sure or not, then the rest and the step: the rows sum to it."""
    by_size = sorted(changes_shown(comparison), key=lambda c: -abs(c.difference_ms))
    return _changes(comparison, by_size[:count])


def _changes(comparison: Comparison, shown: list[Change]) -> list[ChangeRow]:
    rows = [ChangeRow(c.title, c.part.replace("_", " "), *_figures_of(c)) for c in shown]
    judged = comparison.judged
    rest = [c for c in judged.changes if c not in shown]
    if rest:
        a = sum(c.a_ms for c in rest)
        b = sum(c.b_ms for c in rest)
        rows.append(
            ChangeRow(
                f"the rest ({len(rest)} smaller or unchanged)", "", a, b, b - a, None, None, None
            )
        )
    step = f"step {basis_of(comparison)}".rstrip()
    return [*rows, ChangeRow(step, "", *_figures_of(judged.step))]


def basis_of(comparison: Comparison) -> str:
    """What the parts of the difference are of, in words; empty where no profiler ran at all."""
    if {comparison.a.kind, comparison.b.kind} == {TIMING_LOG}:
        return ""
    return BASES[comparison.unprofiled is not None]


def _figures_of(
    value: Difference,
) -> tuple[float, float, float, float | None, float | None, str]:
    # Steps may show a difference that is no larger than that of two runs.
    shown = (
        value.low_ms is not None
        and value.high_ms is not None
        and not value.low_ms <= 0 <= value.high_ms
    )
    if value.significant is None:
        verdict = "spread unknown"
    elif value.significant:
        verdict = "changed"
    elif not shown:
        verdict = "within noise"
    elif abs(value.difference_ms) <= RUN_NOISE_SHARE * max(abs(value.a_ms), abs(value.b_ms)):
        verdict = f"below {RUN_NOISE_SHARE:.0%}"
    else:
        # the recorded steps, which it is estimated from, do not show it
        verdict = "noise as recorded"
    return (
        value.a_ms,
        value.b_ms,
        value.difference_ms,
        value.low_ms,
        value.high_ms,
        verdict,
    )


def interval(value: Difference) -> str | None:
    """The interval of a difference in words."""
    low = value.low_ms
    high = value.high_ms
    return None if low is None or high is None else f"{signed_number(low)} to {signed_number(high)}"


def signed_number(value: float) -> str:
    """A difference, with its sign."""
    return f"+{number(value)}" if value > 0 else number(value)


def _calls(per_step: tuple[float, float], steps: tuple[int, int]) -> str:
    """How often, as it was counted: `16 → 1`, or `1 → 55 in 4 steps` where not every step has as
    many."""
    if not all(steps):
        return " → ".join(number(calls) for calls in per_step)
    if all(abs(calls - round(calls)) < WHOLE for calls in per_step):
        return " → ".join(f"{round(calls):,}" for calls in per_step)
    a, b = (f"{round(calls * count):,}" for calls, count in zip(per_step, steps, strict=True))
    return (
        f"{a} → {b} in {steps[0]} steps"
        if steps[0] == steps[1]
        else f"{a} in {steps[0]} → {b} in {steps[1]} steps"
    )


def _figures(comparison: Comparison) -> list[FigureRow]:
    known = {m.name: m for m in comparison.metrics}
    shown = [known[name] for name in SHOWN_METRICS if name in known]
    differing = [m for m in shown if _differs(m.a, m.b)]
    if comparison.recorded_apart is not None:
        left_out = tuple(comparison.recorded_apart.left_out)
        differing = [
            m
            for m in differing
            if m.a is not None and m.b is not None and not m.name.startswith(left_out)
        ]
    return [FigureRow.of(m.name, m.a, m.b, m.unit) for m in differing]


def _differs(a: float | None, b: float | None) -> bool:
    if a is None or b is None:
        return True
    return abs(b - a) > NEGLIGIBLE * max(abs(a), abs(b))


def _conditions(comparison: Comparison, *, incomparable: bool) -> list[ConditionRow]:
    return [
        ConditionRow(c.name, c.a, c.b, c.effect)
        for c in comparison.conditions
        if c.incomparable == incomparable
    ]


def waterfall_of(comparison: Comparison) -> tuple[Plot, int]:
    """The parts of the difference from A's step to B's, and the height of the picture, px."""
    shown = changes_shown(comparison)
    parts = [(change.title, change.difference_ms) for change in shown]
    step = comparison.judged.step
    left = len(comparison.judged.changes) - len(shown)
    if left:
        rest = step.difference_ms - sum(ms for _, ms in parts)
        parts.append((f"the rest ({left} smaller or unchanged)", rest))
    a = comparison.a
    b = comparison.b
    return waterfall((f"A: {a.name}", step.a_ms), parts, (f"B: {b.name}", step.b_ms))


def _waterfall_chart(comparison: Comparison) -> Markup:
    plot, height = waterfall_of(comparison)
    caption = (
        "Each bar begins where the one above it ends: the parts sum to the whole difference "
        "of the steps."
    )
    return chart_place(Chart("waterfall", waterfall_title(comparison), caption, plot, height))


def waterfall_title(comparison: Comparison) -> str:
    """The title of the picture of the parts."""
    return ", ".join(filter(None, (WATERFALL, basis_of(comparison))))
