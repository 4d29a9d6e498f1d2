"""The order of the trials: each switch once, the most promising first; then what was faster again,
in turns with the unchanged program (A B B A), and on top of what has won."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from statistics import median_low

from traceanalyzer.base import dataclass
from traceanalyzer.trials.measured import (
    LEAST_GAIN,
    PLAIN_GAIN,
    StepsOfRuns,
    SwitchEffect,
    compare_runs,
    steps_of_runs,
)
from traceanalyzer.trials.result import TrialRun
from traceanalyzer.trials.rounding import nudge_of
from traceanalyzer.trials.same import Sameness, compare
from traceanalyzer.trials.session import OTHER_SEED, TrialSession
from traceanalyzer.trials.switch import Numerics, Switch
from traceanalyzer.trials.switches import excluded, switch_named

RUNS_A_ROUND = 3  # B B A: the A before it is there already
RUNS_TO_CONFIRM = 2  # B A after the A and the B that are known
LEAST_OF_COMBINATION = 0.01
BASE_EVERY = 5  # runs with switches, then one without: a machine gets slower, or fast again
BASE_BETWEEN = 1  # the same where runs without any differ plainly, or only one is known
SCREENED = 1  # rounds that one run with a switch counts as


Refine = Callable[[tuple[str, ...], float], tuple[str, ...]]


@dataclass(frozen=True)
class Trial:
    """What came of some switches together, against `without`."""

    switches: tuple[str, ...]
    without: tuple[str, ...] = ()
    found: SwitchEffect | None = None
    verdict: Sameness | None = None
    failed: str | None = None
    peak_bytes: int = 0
    runs: int = 1  # with the switches

    @property
    def promising(self) -> bool:
        """Whether it computes the same, and took less time."""
        right = self.verdict is not None and self.verdict.same
        return right and self.gain >= LEAST_GAIN

    @property
    def won(self) -> bool:
        """Whether it computes the same, and is faster by more than runs differ."""
        return self.promising and self.found is not None and self.found.faster

    @property
    def sure(self) -> bool:
        """Whether it was timed more than once, or is plainly faster."""
        return self.runs > 1 or (self.found is not None and self.found.plain)

    @property
    def showed_nothing(self) -> bool:
        """Whether it ran, and was neither faster nor plainly slower nor refused."""
        right = self.verdict is None or self.verdict.same
        unlike = self.promising or self.gain <= -PLAIN_GAIN
        return self.failed is None and right and not unlike

    @property
    def gain(self) -> float:
        """Share of the step that it saves; 0 where it was not timed."""
        return self.found.gain if self.found else 0.0


class Turns:
    """Tries switches against what runs without them."""

    def __init__(self, session: TrialSession, bases: list[TrialRun]) -> None:
        self._session = session
        self._bases = bases  # of the unchanged program, all that have run
        self._others: list[TrialRun] = []  # of it, under another seed
        self._redrawn: list[TrialRun] = []  # of it, its models drew other random numbers
        self._nudged: dict[float, TrialRun] = {}  # by the share that their weights were moved by
        self._known: dict[tuple[str, ...], list[TrialRun]] = {(): bases}
        self._since_base = 0
        self.confirmed: dict[tuple[str, ...], Trial] = {}  # what ran in turns with the base

    def screen(self, name: str) -> Trial:
        """One run with a switch, against all that ran without it."""
        switches = (name,)
        if self._since_base >= self._base_every():
            self._run(())
        run = self._run(switches)
        if not run.ok:
            return Trial(switches, failed=run.failed)
        sameness = compare_runs(
            self._runs(
                (),
            ),
            [run],
            SCREENED,
        )
        pays = sameness.gain >= LEAST_GAIN
        verdict = self._verdict(run, switches, asking=pays)
        if verdict.same or pays:
            # what its results depend on was asked of runs that tell the time, too
            sameness = compare_runs(self._runs(()), [run], SCREENED)
            return Trial(switches, (), sameness, verdict, peak_bytes=run.peak_bytes)
        return Trial(switches, (), sameness, peak_bytes=run.peak_bytes)

    def best_of(
        self, promising: Sequence[Trial], refined: Refine = lambda best, gain: best
    ) -> Trial | None:
        """The best combination of what was faster in one run, against the unchanged program.
        `refined` makes a better one of a combination and the share of the step that its first
        switch saves."""
        left = sorted(promising, key=lambda one: -one.gain)
        while left:
            leader, *others = left
            if self._session.affords(leader.switches, 2 * RUNS_TO_CONFIRM + len(others)):
                leader = self.against_base(leader.switches)
            if leader.promising:
                best = self.together([leader, *others])
                final = self.against_base(refined(best, leader.gain))
                if final.won and final.sure:
                    return final
            # the fastest run was an accident
            left = others
        return None

    def together(self, promising: Sequence[Trial]) -> tuple[str, ...]:
        """Switches that make the step shortest together, built greedily: the first of them, and
        each that makes it shorter yet."""
        best = promising[0].switches
        for trial in promising[1:]:
            (name,) = trial.switches
            if excluded(name, best):
                continue
            if not self._session.affords((*best, name), 1 + RUNS_TO_CONFIRM):
                break
            tried = self.in_turns((*best, name), best, once=True)
            if tried.won and tried.gain >= LEAST_OF_COMBINATION:
                best = tried.switches
        return best

    def is_right(self, name: str) -> bool:
        """Whether a switch that has run by itself computes what the unchanged program does. One
        that has not is possible with others alone, as more batches ahead with workers: it is
        right where it computes the same with the same data."""
        runs = self._known.get((name,))
        if runs is None:
            return switch_named(name).numerics in (Numerics.EXACT, Numerics.DRAWN)
        return self._verdict(runs[-1], (name,), asking=True).same

    def best_known(self) -> Trial | None:
        """The fastest that is sure of all that has run, where the search ends before its time."""
        found = (self._of_known(switches) for switches in self._known if switches)
        won = [trial for trial in found if trial.won and trial.sure]
        return max(won, key=lambda trial: trial.gain, default=None)

    def latest(self, switches: tuple[str, ...]) -> TrialRun:
        """The latest run with these switches."""
        return self._last(switches)

    def against_base(self, switches: tuple[str, ...]) -> Trial:
        """Switches that have run, against the unchanged program: in turns once, or by the runs that
        are known where there is no time for that."""
        known = self.confirmed.get(switches)
        if known is not None:
            return known
        if self._session.affords(switches, RUNS_TO_CONFIRM):
            self.confirmed[switches] = self.in_turns(switches, ())
            return self.confirmed[switches]
        return self._of_known(switches)

    def _of_known(self, switches: tuple[str, ...]) -> Trial:
        """Switches that have run, against the unchanged program, by what is known."""
        runs = self._known[switches]
        found = compare_runs(self._runs(()), runs, SCREENED)
        verdict = self._verdict(runs[-1], switches, asking=False)
        peak_bytes = runs[-1].peak_bytes
        return Trial(switches, (), found, verdict, peak_bytes=peak_bytes, runs=len(runs))

    def in_turns(
        self, switches: tuple[str, ...], without: tuple[str, ...], *, once: bool = False
    ) -> Trial:
        """These switches in as many rounds as the difference needs and the budget allows: one run
        where that is no faster than runs without them, or, if `once`, where it plainly is. A run of
        them that is known is the first."""
        before = self._last(without)
        first = self._last(switches)
        if not first.ok:
            return Trial(switches, without, failed=first.failed)
        verdict = self._verdict(first, switches, asking=True)
        found = compare_runs(self._runs(without), [first], SCREENED)
        trial = Trial(switches, without, found, verdict, peak_bytes=first.peak_bytes)
        # of many runs the fastest is an accident
        before_ms = median_low(run.step_ms for run in self._runs(without))
        is_no_faster = first.step_ms > before_ms * (1 - LEAST_GAIN)
        if not verdict.same or is_no_faster or (once and found.plain):
            return trial
        return self._repeated(trial, before, first)

    def _repeated(self, trial: Trial, before: TrialRun, first: TrialRun) -> Trial:
        """The trial in rounds that begin with these two runs: A B B A, and B B A again."""
        runs = [first, self._run(trial.switches), self._run(trial.without)]
        rounds = 1
        found = _effect([before, *runs], trial, rounds)
        while not found.plain and self._session.affords(trial.switches, RUNS_A_ROUND):
            runs += [self._run(trial.switches), self._run(trial.switches)]
            runs.append(self._run(trial.without))
            rounds += 1
            found = _effect([before, *runs], trial, rounds)
        with_it = [run for run in runs if run.ok and run.switches == trial.switches]
        return replace(trial, found=found, runs=len(with_it))

    def unchanged(self) -> StepsOfRuns:
        """The step of the unchanged program, of all its runs: what every answer is against."""
        return steps_of_runs(self._runs(()))

    def against_all(self, trial: Trial) -> Trial:
        """A switch that ran once, against all runs without it: most of them ran after it."""
        if trial.without or trial.found is None or trial.runs > 1:
            return trial
        runs = self._known[trial.switches][:1]
        return replace(trial, found=compare_runs(self._runs(()), runs, SCREENED))

    def _base_every(self) -> int:
        """After how many runs with switches the unchanged program runs again."""
        times = [run.step_ms for run in self._runs(())]
        differs = max(times) - min(times) >= PLAIN_GAIN * min(times)
        return BASE_BETWEEN if len(times) == 1 or differs else BASE_EVERY

    def _runs(self, switches: tuple[str, ...]) -> list[TrialRun]:
        """All runs with these switches that tell the time: without any, those with other weights or
        under another seed, too."""
        if switches:
            return self._known[switches]
        nudged = [run for run in self._nudged.values() if run.ok]
        return [*self._bases, *nudged, *self._redrawn, *self._others]

    def _last(self, switches: tuple[str, ...]) -> TrialRun:
        """The latest run with these switches, made where there is none."""
        known = self._known.get(switches)
        return known[-1] if known else self._run(switches)

    def _run(self, switches: tuple[str, ...]) -> TrialRun:
        run = self._session.run(switches)
        self._since_base = 0 if not switches else self._since_base + 1
        if run.ok:
            self._known.setdefault(switches, []).append(run)
        return run

    def _verdict(self, run: TrialRun, switches: Sequence[str], *, asking: bool) -> Sameness:
        """Whether the run computed what the unchanged program does. `asking`: where it did not by
        what is known, further runs of the unchanged program say what its results depend on."""
        rows = [switch_named(name) for name in switches]
        verdict = self._compared(run, rows)
        if not asking:
            return verdict
        if not verdict.same and self._can_draw_as_eager(rows):
            run = self._session.run(switches, as_eager=True)
            if not run.ok:
                return verdict
            verdict = self._compared(run, rows)
        for ask in (self._ask_again, self._ask_redrawn, self._ask_nudged, self._ask_other_seed):
            if verdict.same:
                break
            if ask(rows):
                verdict = self._compared(run, rows)
        return verdict

    def _can_draw_as_eager(self, rows: Sequence[Switch]) -> bool:
        """Whether compiled code is all that draws otherwise: it can be told not to."""
        drawing = [row for row in rows if row.draws]
        compiles = all(row.compiles for row in drawing)
        return self._session.model_draws and bool(drawing) and compiles

    def _ask_again(self, rows: Sequence[Switch]) -> bool:
        """The unchanged program once more: what do its results differ by by themselves? Returns
        whether it ran."""
        if len(self._bases) > 1:
            return False
        return self._run(()).ok

    def _ask_redrawn(self, rows: Sequence[Switch]) -> bool:
        """With other random numbers in its models, as a compiled dropout has them."""
        draws = any(row.draws for row in rows) and not self._can_draw_as_eager(rows)
        if self._redrawn or not self._session.model_draws or not draws:
            return False
        run = self._session.run((), redrawn=True)
        self._redrawn += [run] if run.ok else []
        return run.ok

    def _ask_nudged(self, rows: Sequence[Switch]) -> bool:
        """With weights moved by a rounding."""
        nudge = nudge_of(self._session.numerics(rows))
        if not nudge or nudge in self._nudged:
            return False
        self._nudged[nudge] = self._session.run((), nudge=nudge)
        return self._nudged[nudge].ok

    def _ask_other_seed(self, rows: Sequence[Switch]) -> bool:
        """With all random numbers drawn otherwise."""
        if self._others or all(row.numerics != Numerics.DRAWN for row in rows):
            return False
        run = self._session.run((), OTHER_SEED)
        self._others += [run] if run.ok else []
        return run.ok

    def _compared(self, run: TrialRun, rows: Sequence[Switch]) -> Sameness:
        """The run compared with all runs of the unchanged program so far."""
        kinds = self._session.numerics(rows)
        nudged = self._nudged.get(nudge_of(kinds))
        usable = nudged if nudged is not None and nudged.ok else None
        others = self._others if Numerics.DRAWN in kinds else []
        draws = any(row.draws for row in rows) and not self._can_draw_as_eager(rows)
        redrawn = self._redrawn if draws else []
        return compare(run, self._bases, kinds, [*others, *redrawn], usable)


def _effect(runs: Sequence[TrialRun], trial: Trial, rounds: int) -> SwitchEffect:
    """What the trial's switches bring, from runs with and without them."""
    plain = [run for run in runs if run.ok and run.switches == trial.without]
    with_it = [run for run in runs if run.ok and run.switches == trial.switches]
    return compare_runs(plain, with_it, rounds)
