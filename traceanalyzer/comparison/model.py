"""A comparison as one value; its renderers read this and nothing else. Differences are B minus A,
so less is faster."""

from dataclasses import field
from typing import Literal

from traceanalyzer.base import dataclass, digits, metric, signed_share
from traceanalyzer.comparison.noise import RUN_NOISE_SHARE
from traceanalyzer.comparison.side_by_side.by_rank import RanksChange
from traceanalyzer.comparison.side_by_side.by_row import BatchChange, Outcome, RowChange
from traceanalyzer.comparison.side_by_side.recorders import RecordedApart
from traceanalyzer.report.memory.model import LineChange

Word = Literal["faster", "likely_faster", "no_change", "likely_slower", "slower", "not_comparable"]
Basis = Literal["unprofiled", "recorded"]
SHOWN_CHANGES = 8  # in the `repr`, which has a screen


def signed_ms(value: float) -> str:
    """A difference of times, with its sign."""
    sign = "+" if value > 0 else ""
    return f"{sign}{digits(value)} ms"


@dataclass(frozen=True)
class Side:
    """One of the two, in short."""

    name: str = metric("where it was read from")
    kind: str = metric("what recorded it: kineto, nsys or timing_log")
    step_ms: float = metric("mean step time")
    steps: int = metric("steady-state steps measured")
    bottleneck: str = metric("bottleneck of the report")
    verdict: str = metric("the same in the words of `analyze`, with the one named beside it")
    unprofiled_step_ms: float | None = metric(
        "step time without the profiler; null where it is not known"
    )
    unprofiled_source: str | None = metric("whether that is `measured` or `estimated`")

    @property
    def timed_ms(self) -> float:
        """The step time without the profiler, if a stopwatch says it, ms; else 0."""
        return (self.unprofiled_step_ms or 0.0) * (self.unprofiled_source == "measured")


@dataclass(frozen=True)
class Difference:
    """A figure of both sides, with what steps and runs let one say of it."""

    a_ms: float = metric("wall-clock time of A's mean step")
    b_ms: float = metric("wall-clock time of B's mean step")
    difference_ms: float = metric("B less A")
    low_ms: float | None = metric(
        "lower end of the 95 % interval of the difference; null with a single step"
    )
    high_ms: float | None = metric("upper end of it; null with a single step")
    significant: bool | None = metric(
        "whether it is more than steps and runs vary; null where that is unknown"
    )


@dataclass(frozen=True)
class Detail:
    """A part of a change: one operator, its shapes and kernel, or one place of idle time."""

    what: str = metric("operator, shapes and kernel; of idle time the place it is charged to")
    a_calls: float = metric("device ops (gaps) a step in A")
    b_calls: float = metric("device ops (gaps) a step in B")
    a_ms: float = metric("wall-clock time in A's mean step")
    b_ms: float = metric("wall-clock time in B's mean step")
    difference_ms: float = metric("B less A")


@dataclass(frozen=True)
class Change(Difference):
    """What one thing contributes to the difference of the step times. Over all changes these sum to
    it."""

    part: str = metric("part of the budget: compute, exposed_communication, exposed_copy or idle")
    cls: str = metric("class of work; of idle time its cause")
    kind: str = metric(
        "slower, faster, more_calls, fewer_calls, other_kernels, other_types, other_shapes, replaced, gone, added, "
        "more_idle, less_idle or unchanged; of copies also more_bytes, fewer_bytes, and where bytes are not known "
        "more_time, less_time"
    )
    title: str = metric("what it is, in words")
    details: list[Detail] = metric("what it is made of, largest difference first")


@dataclass(frozen=True)
class PartDifference(Difference):
    """A part of the budget, or a cause of idle time (a part of `idle`)."""

    name: str = metric("part of the budget, or `idle.` and the cause")


@dataclass(frozen=True)
class MetricDifference:
    """A figure of the report that is not a part of the step time."""

    name: str = metric("its path in the report's `metrics`")
    unit: str = metric("unit")
    a: float | None = metric("in A; null where the recording cannot support it")
    b: float | None = metric("in B")
    difference: float | None = metric("B less A")


@dataclass(frozen=True)
class Condition:
    """Something in which the two differ other than in time."""

    name: str = metric("what")
    a: str = metric("in A")
    b: str = metric("in B")
    effect: str = metric("what that does to the comparison, if anything")
    incomparable: bool = metric("whether times of the two cannot be compared because of it")


@dataclass(frozen=True)
class Predicted:
    """What A's report predicted for the change that B has."""

    id: str = metric("finding of A that the change is against")
    action: str = metric("what A's report advised")
    step_ms: float = metric("step time without the profiler that it predicted")
    low_ms: float | None = metric("lower end of the prediction's range; null where it has none")
    high_ms: float | None = metric("upper end of it")
    measured_ms: float = metric("step time without the profiler that B measured")
    remedy: str | None = metric("the change of the program by name; null where it has none")

    @property
    def name(self) -> str:
        """What a report calls the advice."""
        return self.remedy or self.id


@dataclass(frozen=True)
class NextAdvice:
    """What to change next, as B's report says it."""

    id: str = metric("the change by name, for `explain`", text="own")
    gain: str = metric("B's step today, after it, and the range of that", text="sentence")
    action: str = metric("what to do", text="sentence")


@dataclass(frozen=True)
class PerUnit:
    """Time of the summary's step for each unit of work in it."""

    unit: str = metric("what a step works through: `sample` or `token`")
    a_units: float = metric("units of a step in A")
    b_units: float = metric("units of a step in B")
    a_ms: float = metric("time for each in A")
    b_ms: float = metric("time for each in B")

    @property
    def sentence(self) -> str:
        """The answer for a user who changed the batch size."""
        share = (self.b_ms - self.a_ms) / self.a_ms if self.a_ms else 0.0
        verdict = (
            "no significant change"
            if abs(share) < RUN_NOISE_SHARE
            else "slower"
            if share > 0
            else "faster"
        )
        times = f"{digits(self.a_ms, 4)} → {digits(self.b_ms, 4)} ms ({signed_share(share)})"
        return (
            f"Per {self.unit} {verdict}: {times}, at {self.a_units:,.6g} and "
            f"{self.b_units:,.6g} a step."
        )


@dataclass(frozen=True)
class StepChange:
    """A step of both sides, and what its difference is made of."""

    step: Difference = metric("the step of both")
    changes: list[Change] = metric(
        "what its difference is made of: significant ones first, each group by size; they sum to it"
    )
    budget: list[PartDifference] = metric("its parts, and the causes of its idle time")


@dataclass(frozen=True)
class Comparison:
    """What changed from A to B."""

    a: Side
    b: Side
    verdict: Word
    """Whether the step of `basis` is faster, with the speed of both hosts and GPUs taken out;
    `not_comparable` also where the recordings cannot tell."""
    basis: Basis
    # what times are of: `per step`; without steps `per repeat`, `for as much work` or `for the
    # recording`
    per: str
    could_see: (
        float  # the least change of the step that the recordings would have shown, as a share
    )
    host_factor: (
        float | None
    )  # time of B's host over A's for the same calls; None where it is not known
    gpu_factor: float | None  # time of B's GPU over A's for the same kernels
    headline: str
    step: Difference
    conditions: list[Condition]
    changes: list[
        Change
    ]  # significant ones first, each group by size; their differences sum to the step's
    budget: list[PartDifference]
    metrics: list[MetricDifference]
    notes: list[str] = field(default_factory=list)
    memory: list[LineChange] = field(default_factory=list)
    """GPU memory at the peak by line of the program, where both have a snapshot: as far as both
    reports list it."""
    batches: list[BatchChange] = field(default_factory=list)
    """Iterations of servers at the batches that both have, as far as both reports list them."""
    rows: dict[str, list[RowChange]] = field(default_factory=dict)
    """Operators, modules and kernels whose device time differs, as far as both reports list
    them."""
    predicted: Predicted | None = None
    """What A's report predicted for this change; None where it is unknown which of its predictions
    that is."""
    per_unit: PerUnit | None = None
    """Time for each sample or token, where both sides know how many a step has and these differ."""
    outcomes: list[Outcome] = field(default_factory=list)
    """Loss, gradient norm and peak memory, where both sides logged them in the same steps."""
    ranks: RanksChange | None = None
    """All ranks of both, where either side has several."""
    recorded_apart: RecordedApart | None = None
    """What compares and what does not, where the two were not recorded alike."""
    recommendations: list[NextAdvice] = field(default_factory=list)
    """What B's report recommends."""
    unprofiled: StepChange | None = None
    """The step without the profiler; `step`, `changes` and `budget` are of the recorded one. None
    where the verdict is of the recorded step, or a side does not say what its own is made of."""

    @property
    def judged(self) -> StepChange:
        """The step that the verdict is of, as far as it is known what that is made of."""
        return self.unprofiled or StepChange(self.step, self.changes, self.budget)

    def __repr__(self) -> str:
        """The answer and the largest changes: all of it is in the fields."""
        lines = [f"<Comparison: {self.verdict}>", self.headline]
        judged = self.judged
        which = "" if self.unprofiled else "recorded "
        lines.append(f"Where the {which}{judged.step.difference_ms:+.4g} ms {self.per} comes from:")
        shown = judged.changes[:SHOWN_CHANGES]
        lines += [f"  {change.difference_ms:+.4g} ms  {change.title}" for change in shown]
        left = len(judged.changes) - SHOWN_CHANGES
        if left > 0:
            lines.append(f"  {left} more in .changes")
        return "\n".join(lines)
