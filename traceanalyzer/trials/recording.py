"""Records the unchanged program and says what each switch promises, by the report's own advice."""

from collections.abc import Sequence
from pathlib import Path

from traceanalyzer.base import TraceAnalyzerError, dataclass
from traceanalyzer.collect.host import progress
from traceanalyzer.collect.plan import CapturePlan
from traceanalyzer.collect.run import injected_environment
from traceanalyzer.comparison.notebook import NotebookReport, shown_of
from traceanalyzer.trials.launch import OUTPUT, run_group
from traceanalyzer.trials.switch import ProgramFacts, Switch
from traceanalyzer.trials.switches import SWITCHES

RECORDING = "recording"
OPERATORS = "ops"  # table of the report with the names of operators
PHASES = "phases"  # table of the report with forward, backward, optimizer
OPTIMIZER = "optimizer"  # a phase's role
LIKELY_SHARE = 0.9
"""Step with a switch over the step now, where it is against what the verdict names and nothing is
promised of it: tried before what is promised to bring less."""
TELLING_SHARE = 0.85  # the same where the program is seen to do what costs


@dataclass(frozen=True)
class Promise:
    """What the report predicts of a remedy, ms a step."""

    step_ms: float
    low_ms: float | None
    high_ms: float | None
    remedy: str


@dataclass(frozen=True)
class Candidate:
    """A switch that the program supports; `promise` is None where nothing is predicted of it."""

    switch: Switch
    promise: Promise | None


@dataclass(frozen=True)
class NotTried:
    """A switch that is not tried, and why."""

    switch: Switch
    why: str


def record(
    command: Sequence[str], folder: Path, patience_s: float, step_on: str | None
) -> str | None:
    """Record the program until enough steps are recorded. What went wrong, or None."""
    capture = folder / RECORDING
    if any(capture.glob("trace.rank*")):
        return None
    capture.mkdir(parents=True, exist_ok=True)
    plan = CapturePlan(folder=str(capture.absolute()), step_on=step_on, leave=True)
    ended = run_group(command, injected_environment(plan), patience_s, folder / OUTPUT)
    progress.forget(capture)
    if any(capture.glob("trace.rank*")):
        return None
    return ended.reason or "it ended before enough steps were recorded"


def recorded_report(folder: Path) -> NotebookReport | None:
    """The report of the recording; None where there is none, or it cannot be read."""
    try:
        return shown_of([folder / RECORDING])
    except TraceAnalyzerError:
        return None


def recorded_operators(report: NotebookReport | None) -> frozenset[str]:
    """Names of the operators that the recording has."""
    rows = report.tables.get(OPERATORS, []) if report is not None else []
    return frozenset(str(getattr(row, "name", "")) for row in rows)


def recorded_remedies(report: NotebookReport | None) -> frozenset[str]:
    """Remedies that the report advises."""
    advised = report.recommendations if report is not None else ()
    return frozenset(one.remedy for one in advised if one.remedy is not None)


def candidates(
    facts: ProgramFacts,
    report: NotebookReport | None,
    only: Sequence[str] = (),
    without: Sequence[str] = (),
) -> tuple[list[Candidate], list[NotTried]]:
    """The switches to try, the most promising first, and those that are not."""
    found: list[Candidate] = []
    left: list[NotTried] = []
    for switch in SWITCHES:
        why = _why_not(switch, facts, only, without)
        if why is None:
            found.append(Candidate(switch, promise_of(switch, report)))
        else:
            left.append(NotTried(switch, why))
    return sorted(found, key=lambda candidate: _turn(candidate, report)), left


def _turn(candidate: Candidate, report: NotebookReport | None) -> tuple[float, float]:
    """What comes first has the smaller value: what is expected to bring more, then what takes less
    time to try. Of what is alike the order of the table stays."""
    extra_seconds = candidate.switch.extra_seconds if candidate.promise is None else 0.0
    return expected_share(candidate, report), extra_seconds


def _why_not(
    switch: Switch, facts: ProgramFacts, only: Sequence[str], without: Sequence[str]
) -> str | None:
    if only and switch.id not in only:
        return "not among --only"
    if switch.id in without:
        return "left out by --without"
    return switch.need(facts)


def promise_of(switch: Switch, report: NotebookReport | None) -> Promise | None:
    """The shortest step that the report predicts of one of the switch's remedies."""
    if report is None:
        return None
    out_of_reach_ms = _optimizer_idle_ms(report) if switch.of_model else 0.0
    told = [
        Promise(
            one.predicted_step_ms + out_of_reach_ms,
            None if one.low_ms is None else one.low_ms + out_of_reach_ms,
            None if one.high_ms is None else one.high_ms + out_of_reach_ms,
            one.remedy,
        )
        for one in report.recommendations
        if one.remedy in switch.remedies and one.predicted_step_ms is not None
    ]
    return min(told, key=lambda one: one.step_ms, default=None)


def _optimizer_idle_ms(report: NotebookReport) -> float:
    """Idle time of the step while the optimizer issues its work: a graph of the whole step would
    take it away, one of the model alone does not."""
    phases = report.tables.get(PHASES, [])
    idle = (getattr(row, "unprofiled_idle_ms", None) for row in phases if _is_optimizers(row))
    return sum(value for value in idle if value is not None)


def _is_optimizers(row: object) -> bool:
    return getattr(row, "role", "") == OPTIMIZER and getattr(row, "depth", 0) == 0


def expected_share(candidate: Candidate, report: NotebookReport | None) -> float:
    """Step with the switch over step now: as promised, or what is likely without a promise."""
    switch = candidate.switch
    unpromised = TELLING_SHARE if switch.telling else 1.0
    if report is None:
        return unpromised
    step_ms = report.summary.step_ms
    if candidate.promise is not None and step_ms:
        return min(candidate.promise.step_ms / step_ms, unpromised)
    advised = any(one.remedy in switch.remedies for one in report.recommendations)
    if advised or report.summary.bottleneck in switch.against:
        return min(LIKELY_SHARE, unpromised)
    return unpromised
