"""All runs of one `try`: base, recording, trials in turns, combinations. Each run is kept in a file
as soon as it has ended, so that what is known is never lost and can be resumed."""

import dataclasses
import json
import shlex
import time
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from traceanalyzer.base import MS_PER_S, TraceAnalyzerError, dataclass
from traceanalyzer.trials.launch import launch
from traceanalyzer.trials.request import SEED, Request
from traceanalyzer.trials.result import RankResult, TrialRun, run_of
from traceanalyzer.trials.switch import Numerics, ProgramFacts, Switch
from traceanalyzer.trials.switches import switch_named

RUNS = ".runs.jsonl"  # hidden: a folder is asked for its recordings
ASKED = ".asked.json"  # the command that they are of
LEAST_PATIENCE_S = 60.0
PATIENCE_FACTOR = 4.0  # a run may take so many times as long as the base did
PASSED_SHARE = 0.5  # of the budget that a run which began within it may pass its end by
FIRST_PATIENCE_S = 3600.0  # nothing is known of the first run but the budget
OTHER_SEED = SEED + 1
Switches = Sequence[str]  # their ids


class NoBaseError(TraceAnalyzerError):
    """The unchanged program could not be timed; the message says why."""


@dataclass(frozen=True)
class Options:
    """What the user asks for."""

    command: tuple[str, ...]
    folder: Path
    budget_s: float
    step_on: str | None = None
    only: tuple[str, ...] = ()
    without: tuple[str, ...] = ()


class TrialSession:
    """Runs the program, one process at a time."""

    def __init__(self, options: Options, say: Callable[[str], None]) -> None:
        self.options = options
        self.say = say
        self.runs: list[TrialRun] = []
        self._known: dict[tuple[Any, ...], deque[TrialRun]] = defaultdict(deque)
        self._begun = time.monotonic()
        self._facts = ProgramFacts()
        self._first: TrialRun | None = None

    def begin(self) -> None:
        """Make the folder. Raises TraceAnalyzerError where it is that of an earlier session."""
        folder = self.options.folder
        if (folder / RUNS).exists():
            raise TraceAnalyzerError(
                f"{folder} is of an earlier try: go on with --resume {folder}, or give another"
            )
        folder.mkdir(parents=True, exist_ok=True)
        (folder / ASKED).write_text(json.dumps(self.options.command))

    def resume(self) -> None:
        """Take over the runs of an earlier session in the same folder. Raises OSError."""
        path = self.options.folder / RUNS
        for line in path.read_text().splitlines() if path.exists() else ():
            run = _loaded(line)
            if run is not None:
                self._known[_asked(run)].append(run)

    @property
    def seconds_left(self) -> float:
        """What is left of the budget."""
        return self.options.budget_s - (time.monotonic() - self._begun)

    @property
    def base_seconds(self) -> float:
        """How long a run of the unchanged program takes."""
        return self._first.seconds if self._first else 0.0

    @property
    def model_draws(self) -> bool:
        """Whether the program's models draw random numbers."""
        return self._facts.draws

    def affords(self, switches: Sequence[str], runs: int = 1) -> bool:
        """Whether so many more runs fit the budget; known ones cost nothing."""
        known = len(self._known[_asked(TrialRun(tuple(switches), SEED))])
        return max(runs - known, 0) * self._expected_seconds(switches) <= self.seconds_left

    def spent_s(self) -> dict[str, float]:
        """What the trials took, s: all of their processes, and the steps that were timed in them."""
        trials = [run for run in self.runs[1:] if run.ok]
        timed_ms = sum(run.steps * run.step_ms for run in trials)
        return {
            "trials": sum(run.seconds for run in trials),
            "timed_steps_of_trials": timed_ms / MS_PER_S,
        }

    def _expected_seconds(self, switches: Switches) -> float:
        """How long a run with these switches takes: as long as the longest with some of them did,
        a compilation."""
        known = (run.seconds for run in self.runs if run.ok and set(run.switches) <= set(switches))
        return max(known, default=self.base_seconds)

    def base(self) -> TrialRun:
        """The first run: of the unchanged program, its output in sight. Raises NoBaseError."""
        run = self._run(TrialRun((), SEED), FIRST_PATIENCE_S, shown=True, adaptive=True)
        if not run.ok:
            raise NoBaseError(f"the program could not be timed: {run.failed}")
        self._first = run
        return run

    def numerics(self, rows: Sequence[Switch]) -> list[Numerics]:
        """How far these switches may move the results of this program."""
        order = self._facts.rounds_as
        return [order if row.numerics == Numerics.ORDER else row.numerics for row in rows]

    def learn(self, facts: ProgramFacts) -> None:
        """What the program is made of: the values of switches depend on it."""
        self._facts = facts

    def run(
        self,
        switches: Switches = (),
        seed: int = SEED,
        nudge: float = 0.0,
        *,
        redrawn: bool = False,
        as_eager: bool = False,
    ) -> TrialRun:
        """One run with these switches, as many steps as the first one; its weights are moved before
        it by this share of themselves, its model draws other random numbers, or its compiled code
        those of uncompiled code."""
        rows = [switch_named(name) for name in switches]
        extra_s = sum(row.extra_seconds for row in rows)
        patience_s = max(LEAST_PATIENCE_S, PATIENCE_FACTOR * self.base_seconds) + extra_s
        most_s = max(self.seconds_left, PASSED_SHARE * self.options.budget_s)
        patience_s = min(patience_s, most_s)
        asked = TrialRun(tuple(switches), seed, nudge=nudge, redrawn=redrawn, as_eager=as_eager)
        return self._run(asked, patience_s)

    def _run(
        self,
        asked: TrialRun,
        patience_s: float,
        *,
        shown: bool = False,
        adaptive: bool = False,
    ) -> TrialRun:
        known = self._known[_asked(asked)]
        run = (
            known.popleft()
            if known
            else self._launched(asked, patience_s, shown=shown, adaptive=adaptive)
        )
        self.runs.append(run)
        return run

    def _launched(
        self,
        asked: TrialRun,
        patience_s: float,
        *,
        shown: bool,
        adaptive: bool,
    ) -> TrialRun:
        rows = [switch_named(name) for name in asked.switches]
        folder = self._new_folder()
        request = self._request(folder, rows, asked, adaptive=adaptive)
        environment = {name: value for row in rows for name, value in row.environment.items()}
        ended = launch(
            self.options.command, request, environment, patience_s=patience_s, shown=shown
        )
        run = run_of(folder, asked, ended.reason, ended.seconds)
        with (self.options.folder / RUNS).open("a") as file:
            file.write(json.dumps(dataclasses.asdict(run)) + "\n")
        return run

    def _new_folder(self) -> Path:
        """A folder for one run, which nothing has been written to: results of an earlier session
        would be taken for its own."""
        runs = self.options.folder / "runs"
        number = len(self.runs)
        while (runs / f"{number:03d}").exists():
            number += 1
        return runs / f"{number:03d}"

    def _request(
        self, folder: Path, rows: Sequence[Switch], asked: TrialRun, *, adaptive: bool
    ) -> Request:
        request = Request(
            folder=str(folder.absolute()),
            switches=tuple(row.id for row in rows),
            functions={row.id: row.apply for row in rows if row.apply},
            values={row.id: row.value(self._facts) for row in rows},
            seed=asked.seed,
            nudge=asked.nudge,
            redrawn=asked.redrawn,
            as_eager=asked.as_eager,
            step_on=self.options.step_on,
            most_seconds=self.options.budget_s / 20,
        )
        if adaptive or self._first is None:
            return request
        steps = self._first.steps
        return dataclasses.replace(request, timed_steps=steps, most_steps=steps)


def command_of(folder: Path, given: Sequence[str]) -> tuple[str, ...]:
    """The command of an earlier session in this folder, which need not be given again. Raises
    TraceAnalyzerError where there was none, or it was of another command."""
    if not folder.is_dir():
        raise TraceAnalyzerError(f"{folder}: no folder of an earlier try")
    try:
        earlier = tuple(json.loads((folder / ASKED).read_text()))
    except (OSError, ValueError):
        earlier = ()
    if earlier and given and tuple(given) != earlier:
        raise TraceAnalyzerError(f"{folder} is of another command: {shlex.join(earlier)}")
    return tuple(given) or earlier


def _asked(run: TrialRun) -> tuple[Any, ...]:
    """What a run was asked for: two of the same may take each other's place."""
    return run.switches, run.seed, run.nudge, run.redrawn, run.as_eager


def _loaded(line: str) -> TrialRun | None:
    """A run of an earlier session; None for a line that was cut."""
    try:
        values: dict[str, Any] = json.loads(line)
        values["ranks"] = [RankResult(**rank) for rank in values["ranks"]]
        return TrialRun(**values | {"switches": tuple(values["switches"])})
    except (ValueError, TypeError, KeyError):
        return None
