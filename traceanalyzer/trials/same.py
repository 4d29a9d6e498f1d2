"""Whether a run with a switch computed what the unchanged program computes.

Held against each other are the losses, step by step, the clipped gradient norms, the sizes of the
first outputs and how far the weights have moved. Two runs of the unchanged program under the same
seed say how far these differ by themselves; on top of that a switch is allowed what its kind
explains. A switch that draws random numbers in another order is allowed what another seed does."""

import math
from collections.abc import Iterator, Sequence
from itertools import combinations

from traceanalyzer.base import dataclass
from traceanalyzer.trials.result import RankResult, TrialRun
from traceanalyzer.trials.rounding import can_be_compared, without_decided
from traceanalyzer.trials.switch import Numerics

OWN_FACTOR = 3.0  # the base's own difference may be passed by so much: it is known from few runs
LOSS = {
    Numerics.EXACT: 1e-5,
    Numerics.ORDER: 2e-3,
    Numerics.TF32: 5e-3,
    Numerics.HALF: 3e-2,
    Numerics.DRAWN: 2e-3,
}
"""Relative difference of a loss, a gradient norm or an output that the kind of switch explains:
fp32 rounds at 6e-8, TF32 at 5e-4, bf16 at 4e-3, and twenty steps of training let each grow."""
UPDATE = {
    Numerics.EXACT: 1e-3,
    Numerics.ORDER: 5e-2,
    Numerics.TF32: 1e-1,
    Numerics.HALF: 3e-1,
    Numerics.DRAWN: 5e-2,
}
"""Relative difference of how far the weights moved that it explains; Adam turns the sign of a tiny
gradient into a whole step."""
STEPS_OF_ALLOWANCE = 10  # for so many steps the allowances are; of later ones in proportion
SMALL_LOSS_SHARE = 0.05
"""A loss that has come down to this share of its first value is held against that: what is almost
nothing differs by any factor."""


@dataclass(frozen=True)
class LargestDifference:
    """The largest relative difference found, what it is of, and at which step (from 1)."""

    share: float
    what: str
    step: int

    @property
    def weight(self) -> float:
        """What it counts: rounding grows from step to step."""
        return self.share / max(1.0, self.step / STEPS_OF_ALLOWANCE)

    def described(self) -> str:
        """In a clause, as "loss at step 20 differs by 3.1 %"."""
        if math.isinf(self.share):
            return f"{self.what} at step {self.step} is not finite"
        return f"{self.what} at step {self.step} differs by {self.share:.2%}".replace("%", " %")


@dataclass(frozen=True)
class Sameness:
    """Whether a result is the same; `why` says what differs, empty where nothing does."""

    same: bool
    numerics: bool  # differs by more than the base's own runs, as the precision explains
    why: str = ""


def compare(
    trial: TrialRun,
    bases: Sequence[TrialRun],
    kinds: Sequence[Numerics],
    others: Sequence[TrialRun] = (),
    nudged: TrialRun | None = None,
) -> Sameness:
    """Whether the trial's results are those of the base runs. `kinds` are its switches' own;
    `others` are base runs that drew other random numbers, for switches that do; `nudged` is a base
    run whose weights were moved by a rounding."""
    loss_allowed = max((LOSS[kind] for kind in kinds), default=LOSS[Numerics.EXACT])
    update_allowed = max((UPDATE[kind] for kind in kinds), default=UPDATE[Numerics.EXACT])
    if nudged is not None:
        shares = loss_allowed / OWN_FACTOR, update_allowed / OWN_FACTOR
        trial = without_decided(trial, bases[0], nudged, *shares)
        others = [without_decided(other, bases[0], nudged, *shares) for other in others]
        bases = [without_decided(base, bases[0], nudged, *shares) for base in bases]
        if not can_be_compared(trial):
            return Sameness(same=False, numerics=False, why="rounding alone decides its results")
    values = _closest(trial, bases, "value")
    own_value = _own(bases, others, "value")
    if values.weight > max(OWN_FACTOR * own_value, loss_allowed):
        return _differs(values, own_value)
    by_numerics = values.weight > max(OWN_FACTOR * own_value, LOSS[Numerics.EXACT])
    if by_numerics and loss_allowed > LOSS[Numerics.ORDER]:
        return Sameness(same=True, numerics=True, why=values.described())
    updates = _closest(trial, bases, "update")
    own_update = _own(bases, others, "update")
    if updates.weight > max(OWN_FACTOR * own_update, update_allowed):
        return _differs(updates, own_update)
    return Sameness(same=True, numerics=False)


def _differs(found: LargestDifference, own: float) -> Sameness:
    by_itself = f"{own:.2%}".replace("%", " %")
    why = f"{found.described()}, two base runs by {by_itself}"
    return Sameness(same=False, numerics=False, why=why)


def _closest(trial: TrialRun, bases: Sequence[TrialRun], what: str) -> LargestDifference:
    """The largest difference from the base run that the trial differs from least."""
    found = (_difference(trial, base, what) for base in bases)
    return min(found, key=lambda difference: difference.weight)


def _own(bases: Sequence[TrialRun], others: Sequence[TrialRun], what: str) -> float:
    """How far base runs differ by themselves, or from those under other seeds."""
    pairs = combinations(bases, 2)
    apart = max((_difference(a, b, what).weight for a, b in pairs), default=0.0)
    return max(apart, _between(others, bases, what))


def _between(others: Sequence[TrialRun], bases: Sequence[TrialRun], what: str) -> float:
    return max(
        (_difference(one, base, what).weight for one in others for base in bases), default=0.0
    )


def _difference(trial: TrialRun, base: TrialRun, what: str) -> LargestDifference:
    """The largest difference of any rank; none at all where there is nothing to hold together."""
    found = [LargestDifference(0.0, what, 0)]
    if len(trial.ranks) != len(base.ranks):
        return LargestDifference(math.inf, "number of ranks", 0)
    for trial_rank, theirs in zip(trial.ranks, base.ranks, strict=True):
        found += _updates(trial_rank, theirs) if what == "update" else _values(trial_rank, theirs)
    return max(found, key=lambda one: one.weight)


def _values(trial: RankResult, theirs: RankResult) -> Iterator[LargestDifference]:
    yield from _series("loss", trial.losses, theirs.losses)
    yield from _series("gradient norm", trial.norms, theirs.norms)
    for number, (some, other) in enumerate(zip(trial.outputs, theirs.outputs, strict=False), 1):
        for trial_value, two in zip(some, other, strict=False):
            yield _relative("output", number, trial_value, two, abs(two))


def _series(what: str, trial: list[float], theirs: list[float]) -> Iterator[LargestDifference]:
    if bool(trial) != bool(theirs):
        yield LargestDifference(math.inf, what, 1)
        return
    first = abs(theirs[0]) if theirs else 0.0
    for step, (trial_value, two) in enumerate(zip(trial, theirs, strict=False), 1):
        yield _relative(what, step, trial_value, two, max(abs(two), SMALL_LOSS_SHARE * first))


def _relative(
    what: str, step: int, trial_value: float, two: float, scale: float
) -> LargestDifference:
    if math.isnan(trial_value) and math.isnan(two):
        return LargestDifference(0.0, what, step)
    if not math.isfinite(trial_value):
        return LargestDifference(math.inf, what, step)
    return LargestDifference(
        abs(trial_value - two) / scale if scale else float(trial_value != two), what, step
    )


def _updates(trial: RankResult, theirs: RankResult) -> Iterator[LargestDifference]:
    for step in sorted(trial.weights.keys() & theirs.weights.keys(), key=int):
        trial_weights = trial.weights[step]
        two = theirs.weights[step]
        if len(trial_weights) != len(two):
            yield LargestDifference(math.inf, "number of weights", int(step))
            continue
        # sums and sums of squares, each on a scale of its own
        for first in (0, 1):
            apart = math.dist(trial_weights[first::2], two[first::2])
            moved = math.hypot(*two[first::2])
            if moved > 0:
                yield LargestDifference(apart / moved, "update of the weights", int(step))
            elif apart > 0:
                yield LargestDifference(math.inf, "update of the weights", int(step))
