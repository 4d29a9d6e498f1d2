"""The whole of `traceanalyzer try`, in order: base, recording, trials, combinations, answer."""

import json
import os
import time
from collections.abc import Callable
from pathlib import Path

from traceanalyzer.comparison.notebook import NotebookReport
from traceanalyzer.trials import words
from traceanalyzer.trials.answer import Answer, Row, row_on_top, switch_row, to_json
from traceanalyzer.trials.measured import StepsOfRuns, steps_of_runs
from traceanalyzer.trials.recording import (
    Candidate,
    NotTried,
    candidates,
    record,
    recorded_operators,
    recorded_remedies,
    recorded_report,
)
from traceanalyzer.trials.refine import Refinement
from traceanalyzer.trials.result import TrialRun
from traceanalyzer.trials.session import NoBaseError, Options, TrialSession
from traceanalyzer.trials.switch import ProgramFacts
from traceanalyzer.trials.switches import SWITCHES, switch_named
from traceanalyzer.trials.turns import RUNS_TO_CONFIRM, Trial, Turns

ANSWER = "try.json"
NO_PROMISE = "without a GPU nothing is promised: switches are tried in the order of the table"
RUNS_TO_REFINE = 3  # for which time is kept where a switch has other values
MOST_KEPT = 3  # switches that are put together, for which time is kept
RECORDING_FACTOR = 3.0  # a recording may take so many times as long as a run
RECORDING_SECONDS = 120.0  # and so much longer: the profiler writes its file


class Search:
    """One `try`. `answer` can be asked for at any time: what is known by then."""

    def __init__(self, options: Options, say: Callable[[str], None], *, resume: bool) -> None:
        self._options = options
        self._say = say
        self._session = TrialSession(options, say)
        self._bases: list[TrialRun] = []
        self._facts = ProgramFacts()
        self._candidates: list[Candidate] = []
        self._left: list[NotTried] = []
        self._report: NotebookReport | None = None
        self._trials: dict[str, Trial] = {}
        self._on_top: list[Trial] = []
        self._turns: Turns | None = None
        self._skipped: dict[str, str] = {}
        self._best: tuple[str, ...] = ()
        self._final: Trial | None = None
        self._begun = time.monotonic()
        self._spent_s: dict[str, float] = {}  # before the first trial, on what
        if resume:
            self._session.resume()
        else:
            self._session.begin()

    def look(self) -> tuple[list[Candidate], list[NotTried]]:
        """Time and record the unchanged program: the switches to try, the most promising first.
        Raises NoBaseError."""
        session = self._session
        options = self._options
        base = session.base()
        self._say(f"base: {base.step_ms:.3f} ms a step ({base.unit}), {base.seconds:.0f} s")
        self._bases.append(base)
        patience_s = RECORDING_FACTOR * base.seconds + RECORDING_SECONDS
        begun = time.monotonic()
        trouble = record(options.command, options.folder, patience_s, options.step_on)
        if trouble is not None:
            self._say(f"not recorded, so nothing is promised: {trouble}")
        recorded = time.monotonic()
        report = recorded_report(options.folder) if trouble is None else None
        read = time.monotonic()
        self._spent_s = {
            "base": base.seconds,
            "recording": recorded - begun,
            "analysis": read - recorded,
        }
        self._facts = facts_of_run(base, report)
        session.learn(self._facts)
        self._report = report
        if report is not None:
            self._say(report.summary.headline if self._facts.gpu else NO_PROMISE)
            report.save(options.folder / "report.json")
        self._candidates, self._left = candidates(
            self._facts, report, options.only, options.without
        )
        return self._candidates, self._left

    def search(self) -> None:
        """Try each once, then what was faster together, and against the unchanged program."""
        turns = Turns(self._session, self._bases)
        self._turns = turns
        for candidate in self._candidates:
            name = candidate.switch.id
            # the likeliest is tried in any case
            if self._trials and not self._session.affords((name,), 1 + self._kept_runs()):
                self._skipped[name] = "no time left (--budget)"
                continue
            trial = turns.screen(name)
            self._trials[name] = trial
            self._say(f"{name}: {words.outcome_clause(switch_row(candidate, trial, self._facts))}")
        refinement = Refinement(
            self._session, turns, self._facts, lambda best: self._possible_with(turns.latest(best))
        )
        self._on_top = refinement.trials
        self._final = turns.best_of(self._promising(), refinement.refined)
        self._best = self._final.switches if self._final is not None else ()
        for switches, trial in turns.confirmed.items():
            if len(switches) == 1:
                self._trials[switches[0]] = trial

    def _possible_with(self, run: TrialRun) -> list[str]:
        """Switches that could be put on with those of a run: first what was not possible without
        them, then what showed nothing; not what failed, was refused or is slower."""
        facts = facts_of_run(run, self._report)
        options = self._options
        found, _ = candidates(facts, self._report, options.only, options.without)
        names = [one.switch.id for one in found]
        new = [name for name in names if name not in self._trials]
        showed_nothing = [
            name for name in names if name in self._trials and self._trials[name].showed_nothing
        ]
        return new + showed_nothing

    def _promising(self) -> list[Trial]:
        return [trial for trial in self._trials.values() if trial.promising]

    def _kept_runs(self) -> int:
        """Runs that time is kept for: to put together what was faster, and to confirm it."""
        promising = self._promising()
        if not promising:
            return 0
        names = [trial.switches[0] for trial in promising]
        has_values = any(switch_named(name).other_values is not None for name in names)
        to_refine = RUNS_TO_REFINE if has_values else 0
        return RUNS_TO_CONFIRM + min(len(promising), MOST_KEPT) - 1 + to_refine

    def answer(self, ended: str = "") -> Answer:
        """What is known. Raises NoBaseError where that is nothing."""
        if not self._bases:
            raise NoBaseError("the unchanged program was not timed")
        final = self._final.found if self._final is not None else None
        return Answer(
            command=" ".join(self._options.command),
            unit=self._bases[0].unit,
            base=self._base(),
            base_peak_bytes=self._bases[0].peak_bytes,
            rows=[self._row(candidate) for candidate in self._candidates] + self._rows_on_top(),
            best=self._best if final is not None else (),
            best_step=final.trial if final is not None else None,
            best_peak_bytes=self._final.peak_bytes if self._final is not None else 0,
            best_runs=self._final.runs if self._final is not None else 0,
            left=self._left,
            seconds=time.monotonic() - self._begun,
            spent_s=self._spent_s | self._session.spent_s(),
            ended=ended,
        )

    def _row(self, candidate: Candidate) -> Row:
        name = candidate.switch.id
        why = self._skipped.get(name, "ended before its turn")
        trial = self._trials.get(name)
        if trial is not None and self._turns is not None:
            trial = self._turns.against_all(trial)
        return switch_row(candidate, trial, self._facts, why, self._base())

    def _base(self) -> StepsOfRuns:
        """The step of the unchanged program, of all its runs."""
        return self._turns.unchanged() if self._turns is not None else steps_of_runs(self._bases)

    def _rows_on_top(self) -> list[Row]:
        """What was tried on top of a combination, each switch as a row of its own."""
        rows = []
        for trial in self._on_top:
            (name,) = set(trial.switches) - set(trial.without)
            rows.append(row_on_top(switch_named(name), trial, self._facts))
        return rows

    @property
    def knows_base(self) -> bool:
        """Whether the unchanged program was timed."""
        return bool(self._bases)

    def interrupted(self) -> None:
        """The search ends before its time: the best that is known is the answer."""
        if self._turns is not None and self._final is None:
            self._final = self._turns.best_known()
            self._best = self._final.switches if self._final is not None else ()


def facts_of_run(base: TrialRun, report: NotebookReport | None = None) -> ProgramFacts:
    """The facts that the base run and its recording told."""
    names = {name for switch in SWITCHES for name in switch.environment}
    names |= {"OMP_NUM_THREADS"}
    variables = {name: os.environ[name] for name in names if name in os.environ}
    return ProgramFacts(
        **dict(base.facts),
        variables=variables,
        operators=recorded_operators(report),
        remedies=recorded_remedies(report),
    )


def save(answer: Answer, folder: Path) -> Path:
    """Write `try.json`: the report of the recording with what the trials found, so that
    `compare` and `attach` read it as a report."""
    saved = folder / "report.json"
    report = json.loads(saved.read_text()) if saved.exists() else {}
    path = folder / ANSWER
    path.write_text(json.dumps(report | {"trials": to_json(answer)}, indent=1) + "\n")
    return path


def environment_of(folder: Path) -> str:
    """Where the program ran, in a line: GPU, versions."""
    try:
        found = json.loads((folder / "recording" / "environment.json").read_text())
    except (OSError, ValueError):
        return ""
    gpus = [str(gpu.get("name")) for gpu in found.get("gpus") or []]
    where = f"{len(gpus)}x {gpus[0]}" if gpus else str((found.get("cpu") or {}).get("model"))
    torch = (found.get("torch") or {}).get("version")
    return f"{where}, PyTorch {torch}, Python {found.get('python')}"
