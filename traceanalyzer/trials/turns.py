"""The order of the trials: base and trial in turns (A B B A), the most promising first, then what
won together."""

from collections.abc import Sequence

from traceanalyzer.base import dataclass
from traceanalyzer.trials.measured import LEAST_GAIN, SwitchEffect, compare_runs
from traceanalyzer.trials.result import TrialRun
from traceanalyzer.trials.rounding import nudge_of
from traceanalyzer.trials.same import Sameness, compare
from traceanalyzer.trials.session import OTHER_SEED, TrialSession
from traceanalyzer.trials.switch import Numerics
from traceanalyzer.trials.switches import BY_ID

RUNS_A_ROUND = 3  # B B A: the A before it is there already
LEAST_OF_COMBINATION = 0.01


@dataclass(frozen=True)
class Trial:
    """What came of some switches together, against `without`."""

    switches: tuple[str, ...]
    without: tuple[str, ...] = ()
    found: SwitchEffect | None = None
    verdict: Sameness | None = None
    failed: str | None = None
    peak_bytes: int = 0

    @property
    def won(self) -> bool:
        """Whether it is faster, and computes the same."""
        right = self.verdict is not None and self.verdict.same
        return right and self.found is not None and self.found.faster


class Turns:
    """Tries switches against what runs without them."""

    def __init__(self, session: TrialSession, bases: list[TrialRun]) -> None:
        self._session = session
        self._bases = bases  # of the unchanged program, all that have run
        self._others: list[TrialRun] = []
        self._nudged: dict[float, TrialRun] = {}  # by the share that their weights were moved by
        self._known: dict[tuple[str, ...], list[TrialRun]] = {(): bases}

    def one(self, switches: tuple[str, ...], without: tuple[str, ...] = ()) -> Trial:
        """Try these switches, in as many rounds as the difference needs and the budget allows: one
        run where that is no faster than the fastest run without them."""
        known = self._known.get(without)
        before = known[-1] if known else self._run(without)
        if not before.ok:
            return Trial(switches, without, failed=before.failed)
        fastest_ms = min(run.step_ms for run in self._known[without])
        plain: list[TrialRun] = [before]
        trials: list[TrialRun] = []
        rounds = 0
        found: SwitchEffect | None = None
        while found is None or not found.plain:
            if found is not None and not self._session.affords(switches, RUNS_A_ROUND):
                break
            first = self._run(switches)
            trial = self._judged(first, switches, without)
            if not first.ok or trial.verdict is None or not trial.verdict.same:
                return trial
            trials.append(first)
            if rounds == 0 and first.step_ms > fastest_ms * (1 - LEAST_GAIN):
                return self._trial(trial, compare_runs(plain, trials, rounds=1))
            second = self._run(switches)
            after = self._run(without)
            if second.ok:
                trials.append(second)
            if after.ok:
                plain.append(after)
            rounds += 1
            found = compare_runs(plain, trials, rounds)
        return self._trial(self._judged(trials[-1], switches, without), found)

    def _trial(self, trial: Trial, found: SwitchEffect | None) -> Trial:
        return Trial(
            trial.switches, trial.without, found, trial.verdict, peak_bytes=trial.peak_bytes
        )

    def _run(self, switches: tuple[str, ...]) -> TrialRun:
        run = self._session.run(switches)
        if run.ok:
            self._known.setdefault(switches, []).append(run)
        return run

    def _judged(self, run: TrialRun, switches: tuple[str, ...], without: tuple[str, ...]) -> Trial:
        if not run.ok:
            return Trial(switches, without, failed=run.failed)
        kinds = [BY_ID[name].numerics for name in switches]
        verdict = self._compared(run, kinds)
        # what the program's results depend on is asked for only where it matters
        if not verdict.same and len(self._bases) == 1:
            self._run(())
            verdict = self._compared(run, kinds)
        nudge = nudge_of(kinds)
        if not verdict.same and nudge and nudge not in self._nudged:
            self._nudged[nudge] = self._session.run((), nudge=nudge)
            verdict = self._compared(run, kinds)
        if not verdict.same and Numerics.DRAWN in kinds and not self._others:
            other = self._session.run((), OTHER_SEED)
            self._others += [other] if other.ok else []
            verdict = self._compared(run, kinds)
        return Trial(switches, without, verdict=verdict, peak_bytes=run.peak_bytes)

    def _compared(self, run: TrialRun, kinds: Sequence[Numerics]) -> Sameness:
        """The run held against all that is known of the unchanged program by now."""
        nudged = self._nudged.get(nudge_of(kinds))
        usable = nudged if nudged is not None and nudged.ok else None
        return compare(run, self._bases, kinds, self._others, usable)

    def together(self, won: Sequence[Trial]) -> tuple[tuple[str, ...], list[Trial]]:
        """The best combination, built greedily from what won, and the trials that built it."""
        best: tuple[str, ...] = ()
        trials: list[Trial] = []
        order = sorted(won, key=lambda trial: -(trial.found.gain if trial.found else 0.0))
        for trial in order:
            (name,) = trial.switches
            if not best:
                best = (name,)
                continue
            if excluded(name, best) or not self._session.affords((), RUNS_A_ROUND + 1):
                continue
            tried = self.one((*best, name), best)
            trials.append(tried)
            if tried.won and tried.found and tried.found.gain >= LEAST_OF_COMBINATION:
                best = tried.switches
        return best, trials


def excluded(name: str, others: Sequence[str]) -> bool:
    """Whether a switch cannot be put on with one of the others."""
    row = BY_ID[name]
    return any(other in row.excludes or name in BY_ID[other].excludes for other in others)
