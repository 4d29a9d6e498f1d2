"""What a comparison says to people, before it is drawn: the same words and figures in the terminal and in Markdown."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Any

from traceanalyzer.comparison.noise import RUN_NOISE_SHARE
from traceanalyzer.figures import metric
from traceanalyzer.frozen import dataclass
from traceanalyzer.report.format import figure, number

if TYPE_CHECKING:
    from traceanalyzer.comparison.model import Change, Comparison, Difference, MetricDifference, Side

SHOWN_SHARE = 0.005
"""Changes below this share of the longer step are shown together."""
SHOWN_CHANGES = 15
EXPLAINED = 3
"""Changes that are shown with what they are made of."""
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
    "communication.overlap_share",
    "roofline.tflop",
    "roofline.traffic_gb",
    "roofline.mfu",
    "memory.peak",
    "memory.reserved",
    "memory.growth_per_step",
)
"""Figures beside the step time that say what the program does; `--format json` has all."""
WHOLE = 0.005
"""Numbers of calls that are this near to a whole one are whole."""
NEGLIGIBLE = 0.005
"""Figures that differ by less are the same, for a reader."""


@dataclass(frozen=True)
class ChangeRow:
    """A change in the table of all."""

    change: str = metric("what changed: operators, kernels, or a cause of idle time")
    part: str = metric("part of the step's budget it belongs to")
    a_ms: float = metric("wall-clock time in A's mean step", "ms")
    b_ms: float = metric("wall-clock time in B's mean step", "ms")
    difference_ms: float = metric("B less A; these sum to the difference of the step times", "ms")
    interval: str | None = metric("95 % interval of the difference over steps (Welch, batch means), ms")
    verdict: str | None = metric("whether it is more than steps and runs vary")


@dataclass(frozen=True)
class DetailRow:
    """A part of a change."""

    what: str = metric("operator, shapes and kernel; of idle time the place it is charged to")
    calls: str = metric("device ops per step in A and B, or in all steps where those differ")
    a_ms: float = metric("wall-clock time in A's mean step", "ms")
    b_ms: float = metric("wall-clock time in B's mean step", "ms")
    difference_ms: float = metric("B less A", "ms")


@dataclass(frozen=True)
class IdleRow:
    """A part of a change of idle time."""

    what: str = metric("operator, call or wait that the idle time is charged to")
    gaps: str = metric("idle gaps per step in A and B, or in all steps where those differ")
    a_ms: float = metric("idle time in A's mean step", "ms")
    b_ms: float = metric("idle time in B's mean step", "ms")
    difference_ms: float = metric("B less A", "ms")


@dataclass(frozen=True)
class BudgetRow:
    """A part of the step's budget, or a cause of idle time."""

    part: str = metric("part of the step's budget, or `idle.` and the cause (a part of `idle`)")
    a_ms: float = metric("wall-clock time in A's mean step", "ms")
    b_ms: float = metric("wall-clock time in B's mean step", "ms")
    difference_ms: float = metric("B less A", "ms")
    interval: str | None = metric("95 % interval of the difference over steps (Welch, batch means), ms")
    verdict: str | None = metric("whether it is more than steps and runs vary")


@dataclass(frozen=True)
class FigureRow:
    """A figure of both sides as text, each in its own unit."""

    figure: str = metric("figure of the report (`metrics` in its JSON)")
    a: str = metric("in A")
    b: str = metric("in B")
    difference: str = metric("B less A")


@dataclass(frozen=True)
class ConditionRow:
    """A condition of both sides."""

    condition: str = metric("in what the two differ other than in time")
    a: str = metric("in A")
    b: str = metric("in B")
    effect: str = metric("what that does to the comparison")


@dataclass(frozen=True)
class Section:
    """A stretch of the page: sentences, then a table."""

    title: str
    lines: list[str] = field(default_factory=list)
    rows: list[Any] = field(default_factory=list)
    folded: bool = False
    """Whether it is for who wants to know more."""
    first: bool = False
    """Whether it is part of the answer on the first screen."""


def sections(comparison: Comparison) -> list[Section]:
    """The page from top to bottom; sections without anything to say are left out."""
    shown = changes_shown(comparison)
    explained = [c for c in shown if c.significant is not False and len(c.details) > 1][:EXPLAINED]
    page = [
        Section("Comparison", _answer(comparison), first=True),
        Section("Not like for like", rows=_conditions(comparison, incomparable=True), first=True),
        Section("Where the difference comes from", rows=_changes(comparison, shown), first=True),
        *(Section(change.title, _left_out(change), _details(comparison, change), folded=True) for change in explained),
        Section(
            "The step's budget", rows=[BudgetRow(p.name.replace("_", " "), *_figures_of(p)) for p in comparison.budget]
        ),
        Section("GPU memory at the peak, by line", rows=list(comparison.memory[:SHOWN_CHANGES])),
        Section("Other figures", rows=_figures(comparison)),
        Section("Conditions that differ", rows=_conditions(comparison, incomparable=False)),
        Section("Notes", comparison.notes),
    ]
    return [section for section in page if section.lines or section.rows]


def change_rows(comparison: Comparison) -> list[ChangeRow]:
    """Every change, for a spreadsheet."""
    return [ChangeRow(c.title, c.part, *_figures_of(c)) for c in comparison.changes]


def changes_shown(comparison: Comparison) -> list[Change]:
    """The changes that are shown one by one."""
    least = SHOWN_SHARE * max(comparison.step.a_ms, comparison.step.b_ms)
    return [c for c in comparison.changes if abs(c.difference_ms) >= least][:SHOWN_CHANGES]


def _sides(comparison: Comparison) -> tuple[tuple[str, Side], tuple[str, Side]]:
    return ("A", comparison.a), ("B", comparison.b)


def _side(name: str, side: Side) -> str:
    steps = f"mean of {side.steps} steps" if side.steps else "the whole recording"
    text = f"{name}: {side.name} ({side.kind}), {figure(side.step_ms, 'ms')}, {steps}, {side.bottleneck}"
    if side.unprofiled_step_ms is None:
        return text
    return f"{text}; {figure(side.unprofiled_step_ms, 'ms')} without the profiler ({side.unprofiled_source})"


def _sure(comparison: Comparison) -> list[str]:
    step = comparison.step
    if step.low_ms is None:
        return []
    return [f"Difference {signed(step.difference_ms)} ms, 95 % interval over steps {interval(step)} ms"]


def _answer(comparison: Comparison) -> list[str]:
    sides = [_side(name, side) for name, side in _sides(comparison)]
    return [comparison.headline, *sides, *_sure(comparison), *_predicted(comparison)]


def _predicted(comparison: Comparison) -> list[str]:
    told = comparison.predicted
    if told is None:
        return []
    around = (
        "" if told.low_ms is None or told.high_ms is None else f" ({number(told.low_ms)} to {number(told.high_ms)})"
    )
    return [
        f"A's report for {told.id}: predicted {number(told.step_ms)}{around}, measured {number(told.measured_ms)} ms "
        "per step without the profiler"
    ]


def _changes(comparison: Comparison, shown: list[Change]) -> list[ChangeRow]:
    rows = [ChangeRow(c.title, c.part.replace("_", " "), *_figures_of(c)) for c in shown]
    rest = [c for c in comparison.changes if c not in shown]
    if rest:
        a, b = sum(c.a_ms for c in rest), sum(c.b_ms for c in rest)
        rows.append(ChangeRow(f"the rest ({len(rest)} smaller or unchanged)", "", a, b, b - a, None, None))
    return [*rows, ChangeRow("step", "", *_figures_of(comparison.step))]


def _figures_of(value: Difference) -> tuple[float, float, float, str | None, str]:
    verdict = {True: "changed", False: _insignificant(value), None: "spread unknown"}[value.significant]
    return value.a_ms, value.b_ms, value.difference_ms, interval(value), verdict


def _insignificant(value: Difference) -> str:
    """Steps may tell a difference that is too small to be told from that of two runs."""
    if value.low_ms is None or value.high_ms is None or value.low_ms <= 0 <= value.high_ms:
        return "within noise"
    return f"below {RUN_NOISE_SHARE:.0%}"


def interval(value: Difference) -> str | None:
    """The interval of a difference in words."""
    if value.low_ms is None or value.high_ms is None:
        return None
    return f"{signed(value.low_ms)} to {signed(value.high_ms)}"


def signed(value: float) -> str:
    """A difference, with its sign."""
    return f"+{number(value)}" if value > 0 else number(value)


def _details(comparison: Comparison, change: Change) -> list[Any]:
    steps, row = (comparison.a.steps, comparison.b.steps), IdleRow if change.part == "idle" else DetailRow
    return [
        row(d.what, _calls((d.a_calls, d.b_calls), steps), d.a_ms, d.b_ms, d.difference_ms)
        for d in change.details[:SHOWN_DETAILS]
    ]


def _calls(per_step: tuple[float, float], steps: tuple[int, int]) -> str:
    """How often, as it was counted: `16 → 1`, or `1 → 55 in 4 steps` where not every step has as many."""
    if not all(steps):
        return " → ".join(number(calls) for calls in per_step)
    if all(abs(calls - round(calls)) < WHOLE for calls in per_step):
        return " → ".join(f"{round(calls):,}" for calls in per_step)
    a, b = (f"{round(calls * count):,}" for calls, count in zip(per_step, steps, strict=True))
    return f"{a} → {b} in {steps[0]} steps" if steps[0] == steps[1] else f"{a} in {steps[0]} → {b} in {steps[1]} steps"


def _left_out(change: Change) -> list[str]:
    more = len(change.details) - SHOWN_DETAILS
    return [f"The {SHOWN_DETAILS} largest parts; --format json has {more} more."] if more > 0 else []


def _figures(comparison: Comparison) -> list[FigureRow]:
    known = {m.name: m for m in comparison.metrics}
    return [_figure(known[name]) for name in SHOWN_METRICS if name in known and _differs(known[name])]


def _differs(m: MetricDifference) -> bool:
    if m.a is None or m.b is None or m.difference is None:
        return True
    return abs(m.difference) > NEGLIGIBLE * max(abs(m.a), abs(m.b))


def _figure(m: MetricDifference) -> FigureRow:
    sign = "+" if m.difference is not None and m.difference > 0 else ""
    return FigureRow(m.name, figure(m.a, m.unit), figure(m.b, m.unit), sign + figure(m.difference, m.unit))


def _conditions(comparison: Comparison, *, incomparable: bool) -> list[ConditionRow]:
    return [ConditionRow(c.name, c.a, c.b, c.effect) for c in comparison.conditions if c.incomparable == incomparable]
