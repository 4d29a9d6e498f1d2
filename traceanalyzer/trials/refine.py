"""What is tried on top of a combination that has won: other values of its settings, and the
switches that showed nothing, or were not possible, while something else held the step up."""

from collections.abc import Callable, Sequence

from traceanalyzer.trials.measured import LEAST_GAIN
from traceanalyzer.trials.session import TrialSession
from traceanalyzer.trials.switch import ProgramFacts
from traceanalyzer.trials.switches import excluded, with_other_values
from traceanalyzer.trials.turns import RUNS_TO_CONFIRM, Trial, Turns

LARGE_GAIN = 0.25  # so much shorter a step is held up by something else than before
MOST_ON_TOP = 8  # switches that are tried on top: the likeliest
Names = tuple[str, ...]
Possible = Callable[[Names], Sequence[str]]
"""Switches that could be put on with these, the likeliest first."""


class Refinement:
    """Makes a combination better, one run a try, as long as the budget allows."""

    def __init__(
        self, session: TrialSession, turns: Turns, facts: ProgramFacts, possible: Possible
    ) -> None:
        self._session = session
        self._turns = turns
        self._facts = facts
        self._possible = possible
        self._seen: set[frozenset[str]] = set()
        self.trials: list[Trial] = []  # all that was tried, each against what it is on top of

    def refined(self, best: Names, gain: float) -> Names:
        """The best combination that was found from this one, which saves `gain` of the step."""
        best = self._with_best_values(best)
        if gain < LARGE_GAIN:
            return best
        for name in self._possible(best)[:MOST_ON_TOP]:
            if excluded(name, best) or not self._turns.is_right(name):
                continue
            together = (*best, name)
            if self._is_better(together, best):
                best = self._with_best_values(together)
        return best

    def _with_best_values(self, best: Names) -> Names:
        """Each setting moves to another value as long as that makes the step shorter."""
        for at in range(len(best)):
            moved = True
            while moved:
                moved = False
                for other in with_other_values(best[at], self._facts):
                    changed = (*best[:at], other, *best[at + 1 :])
                    if self._is_better(changed, best):
                        best = changed
                        moved = True
                        break
        return best

    def _is_better(self, changed: Names, best: Names) -> bool:
        is_new = frozenset(changed) not in self._seen
        if not is_new or not self._session.affords(changed, 1 + RUNS_TO_CONFIRM):
            return False
        self._seen |= {frozenset(best), frozenset(changed)}
        trial = self._turns.in_turns(changed, best)
        self.trials.append(trial)
        return trial.won and trial.gain >= LEAST_GAIN
