"""The answer of one `try`, as values: what each switch promised and brought, and what to write into
the program."""

from dataclasses import field, replace
from typing import Any

from traceanalyzer.base import dataclass
from traceanalyzer.trials.libraries import place_of, written_switch
from traceanalyzer.trials.measured import StepsOfRuns
from traceanalyzer.trials.recording import Candidate, NotTried, Promise
from traceanalyzer.trials.switch import ProgramFacts, Switch
from traceanalyzer.trials.turns import Trial

HELD_SHARE = 0.15  # a promise without a range is right within so much of what was measured
FASTER = "faster"
SLOWER = "slower"
NOTHING = "no difference"
REFUSED = "refused"
FAILED = "failed"
NOT_TRIED = "not tried"


@dataclass(frozen=True)
class Row:
    """One switch: its promise, and what came of it."""

    switch: str
    title: str
    outcome: str  # one of the words above
    why: str = ""  # of what was refused, failed or was not tried
    promised: Promise | None = None
    promise_held: bool | None = None  # None where nothing was promised, or nothing measured
    base: StepsOfRuns | None = None  # without it: all such runs, on top of others those in turns
    measured: StepsOfRuns | None = None
    changes_numerics: bool = False
    peak_bytes: int = 0
    write: str = ""  # what to write into the program
    where: str = ""  # file and line
    could_break: str = ""
    runs: int = 0  # with it
    on_top_of: tuple[str, ...] = ()  # switches that were put on in `base`, too

    @property
    def speedup(self) -> float | None:
        """Step without over step with it."""
        if self.base is None or self.measured is None:
            return None
        return self.base.ms / self.measured.ms


@dataclass(frozen=True)
class Answer:
    """All that was found."""

    command: str
    unit: str  # what a step is
    base: StepsOfRuns
    base_peak_bytes: int
    rows: list[Row]
    best: tuple[str, ...] = ()
    best_step: StepsOfRuns | None = None
    best_peak_bytes: int = 0
    best_runs: int = 0
    left: list[NotTried] = field(default_factory=list)
    seconds: float = 0.0
    spent_s: dict[str, float] = field(default_factory=dict)  # on what
    ended: str = ""  # why not everything was tried, empty where it was

    @property
    def speedup(self) -> float:
        """Step before over step after the best combination; 1 where nothing helps."""
        if self.best_step is None:
            return 1.0
        return self.base.ms / self.best_step.ms

    @property
    def speedup_range(self) -> tuple[float, float]:
        """The least and the most that it can be, by all runs without and with it."""
        if self.best_step is None:
            return 1.0, 1.0
        low = self.base.low_ms / self.best_step.high_ms
        return low, self.base.high_ms / self.best_step.low_ms

    @property
    def saved_share(self) -> float:
        """Share of the step that the best combination saves."""
        return 1.0 - 1.0 / self.speedup


def switch_row(
    candidate: Candidate,
    trial: Trial | None,
    facts: ProgramFacts,
    why: str = "",
    base: StepsOfRuns | None = None,
) -> Row:
    """The row of a switch that the program supports; without a trial `why` says why not. `base` is
    the unchanged program's step that all rows are against; None: that of the trial's own runs."""
    switch = candidate.switch
    if trial is None:
        return Row(switch.id, switch.title, NOT_TRIED, why, candidate.promise)
    found = trial.found
    return Row(
        switch=switch.id,
        title=switch.title,
        outcome=_outcome(trial),
        why=trial.failed or (trial.verdict.why if trial.verdict else ""),
        promised=candidate.promise,
        promise_held=_held(candidate.promise, trial),
        base=(base or found.base) if found else None,
        measured=found.trial if found else None,
        changes_numerics=trial.verdict is not None and trial.verdict.numerics,
        peak_bytes=trial.peak_bytes,
        write=written_switch(switch, facts),
        where=place_of(switch, facts),
        could_break=switch.could_break,
        runs=trial.runs,
    )


def row_on_top(switch: Switch, trial: Trial, facts: ProgramFacts) -> Row:
    """The row of a switch that was tried on top of others: nothing is promised of that."""
    row = switch_row(Candidate(switch, None), trial, facts)
    return replace(row, on_top_of=trial.without)


def _outcome(trial: Trial) -> str:
    if trial.failed is not None:
        return FAILED
    if trial.verdict is not None and not trial.verdict.same:
        return REFUSED
    if trial.won:
        return FASTER
    if trial.found is not None and trial.found.apart and trial.found.gain < 0:
        return SLOWER
    return NOTHING


def _held(promise: Promise | None, trial: Trial) -> bool | None:
    """Whether the step is where it was promised to be."""
    if promise is None or trial.found is None:
        return None
    ms = trial.found.trial.ms
    low = promise.low_ms if promise.low_ms is not None else promise.step_ms * (1 - HELD_SHARE)
    high = promise.high_ms if promise.high_ms is not None else promise.step_ms * (1 + HELD_SHARE)
    return low <= ms <= high


def to_json(answer: Answer) -> dict[str, Any]:
    """The answer as JSON values."""
    return {
        "command": answer.command,
        "unit": answer.unit,
        "base": _steps(answer.base),
        "base_peak_bytes": answer.base_peak_bytes,
        "best": list(answer.best),
        "best_step": _steps(answer.best_step),
        "best_base": _steps(answer.base if answer.best_step is not None else None),
        "best_peak_bytes": answer.best_peak_bytes,
        "best_runs": answer.best_runs,
        "speedup": answer.speedup,
        "speedup_range": list(answer.speedup_range),
        "switches": [_row(row) for row in answer.rows],
        "not_supported": {one.switch.id: one.why for one in answer.left},
        "seconds": answer.seconds,
        "spent_s": answer.spent_s,
        "ended": answer.ended,
    }


def _steps(steps: StepsOfRuns | None) -> dict[str, float] | None:
    return vars_of(steps) if steps is not None else None


def _row(row: Row) -> dict[str, Any]:
    promised = vars_of(row.promised) if row.promised is not None else None
    measured = {"base": _steps(row.base), "measured": _steps(row.measured)}
    lists = {"on_top_of": list(row.on_top_of)}
    return vars_of(row) | lists | measured | {"promised": promised, "speedup": row.speedup}


def vars_of(value: Any) -> dict[str, Any]:
    """The fields of a frozen value, by name."""
    return {name: getattr(value, name) for name in value.__dataclass_fields__}
