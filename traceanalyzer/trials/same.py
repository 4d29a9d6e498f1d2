"""Whether a run with a switch computed what the unchanged program computes.

Held against each other are the losses, step by step, the clipped gradient norms, the sizes of the
first outputs, the gradients and the rates that the optimizers were given, and how far the weights
and the running statistics have moved. Two runs of the unchanged program under the same seed say how
far these differ by themselves; on top of that a switch is allowed what its kind explains. A switch
that draws random numbers in another order, or takes the data in another one, is allowed what
another seed does, or the next batch; its gradients and updates are those of other data."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations, product

from traceanalyzer.base import dataclass
from traceanalyzer.trials.result import RankResult, TrialRun
from traceanalyzer.trials.rounding import AllowedShares, can_be_compared, without_decided
from traceanalyzer.trials.switch import Numerics

OWN_FACTOR = 3.0  # the base's own difference may be passed by so much: it is known from few runs
ALLOWED = {
    Numerics.EXACT: AllowedShares(value=1e-5, gradient=1e-4, update=1e-3),
    Numerics.ORDER: AllowedShares(value=2e-3, gradient=1e-2, update=5e-2),
    Numerics.TF32: AllowedShares(value=5e-3, gradient=2e-2, update=3e-1),
    Numerics.HALF: AllowedShares(value=3e-2, gradient=6e-2, update=8e-1),
    Numerics.DRAWN: AllowedShares(value=2e-3, gradient=1e-2, update=5e-2),
}
"""Relative differences that the kind of switch explains, of a loss, a clipped gradient norm or an
output, of the norm of all gradients, and of how far the weights moved. fp32 rounds at 6e-8, TF32 at
5e-4, bf16 at 4e-3, and twenty steps of training let each grow; Adam turns the sign of a tiny gradient
into a whole step."""
EACH_FACTOR = 5.0  # the gradient of one weight may differ by so much more than that of all
RATE_SHARE = 1e-6  # no switch changes a learning rate
LEAST_OF_GRADIENT = 1e-3  # of the longest one: rounding alone decides of shorter ones
LEAST_OF_MISSING = 1e-6  # of the longest one: a gradient so long that is zero is left out
RATE = "learning rate, or another number of the optimizer,"
BATCHES = ("batch_size", "drop_last")  # arguments of a DataLoader that make its batches
LEAST_WITH_DECIMALS = 5e-5  # less would be 0.00 %
OPTIMIZER_CALLS = 1  # so many more or fewer may fall into the compared steps
STEPS_OF_ALLOWANCE = 10  # for so many steps the allowances are; of later ones in proportion
SMALL_LOSS_SHARE = 0.05
"""A loss that has come down to this share of its first value is held against that: what is almost
nothing differs by any factor."""


@dataclass(frozen=True)
class LargestDifference:
    """The largest relative difference found, what it is of, and at which step (from 1); `infinite`
    says what an infinite one is."""

    share: float
    what: str
    step: int
    infinite: str = "is not finite"

    @property
    def weight(self) -> float:
        """What it counts: rounding grows from step to step."""
        return self.share / max(1.0, self.step / STEPS_OF_ALLOWANCE)

    def described(self) -> str:
        """In a clause, as "loss at step 20 differs by 3.1 %"."""
        if math.isinf(self.share):
            return f"{self.what} at step {self.step} {self.infinite}"
        return f"{self.what} at step {self.step} differs by {_percent(self.share)}"


Differences = Callable[[RankResult, RankResult], Iterator[LargestDifference]]


@dataclass(frozen=True)
class Sameness:
    """Whether a result is the same; `why` says what differs, empty where nothing does."""

    same: bool
    numerics: bool  # differs by more than the base's own runs, as the precision explains
    why: str = ""


@dataclass(frozen=True)
class _Runs:
    """A trial, and the runs of the unchanged program that it is compared with; `others` drew other
    random numbers."""

    trial: TrialRun
    bases: Sequence[TrialRun]
    others: Sequence[TrialRun]

    def without_decided(self, nudged: TrialRun, shares: AllowedShares) -> "_Runs":
        """Without what rounding alone decides, as a base run with moved weights shows it."""

        def left(run: TrialRun) -> TrialRun:
            return without_decided(run, self.bases[0], nudged, shares)

        others = [left(run) for run in self.others]
        return _Runs(left(self.trial), [left(run) for run in self.bases], others)

    def with_the_next_batch(self) -> "_Runs":
        """With base runs that take the next batch, too."""
        next_batch = [_from_the_second_step(run) for run in self.bases]
        return replace(self, others=[*self.others, *next_batch])

    def closest(self, differences: Differences) -> LargestDifference:
        """The largest difference from the base run that the trial differs from least."""
        found = [_difference(self.trial, base, differences) for base in self.bases]
        return min(found, key=lambda difference: difference.weight)

    def own(self, differences: Differences) -> float:
        """How far base runs differ by themselves, or from those that drew other numbers."""
        pairs = [*combinations(self.bases, 2), *product(self.others, self.bases)]
        weights = (_difference(run, other, differences).weight for run, other in pairs)
        return max(weights, default=0.0)


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
    why = _other_batches(trial, bases[0])
    if why:
        return Sameness(same=False, numerics=False, why=why)
    allowed = _allowed(kinds)
    runs = _Runs(trial, bases, others)
    if nudged is not None:
        runs = runs.without_decided(nudged, _decided_above(allowed))
        if not can_be_compared(runs.trial):
            return Sameness(same=False, numerics=False, why="rounding alone decides its results")
    checks = _checks(allowed)
    if Numerics.DRAWN in kinds:
        checks = _checks_of_other_data(allowed)
        runs = runs.with_the_next_batch()
    for differences, share in checks:
        largest = runs.closest(differences)
        own = runs.own(differences)
        if largest.weight > max(OWN_FACTOR * own, share):
            return _differs(largest, own if len(runs.bases) + len(runs.others) > 1 else None)
    return _same(runs, allowed)


def _same(runs: _Runs, allowed: AllowedShares) -> Sameness:
    """The result is the same; whether it differs by more than exact arithmetic does, as a lower
    precision explains."""
    values = runs.closest(_values)
    exact = max(OWN_FACTOR * runs.own(_values), ALLOWED[Numerics.EXACT].value)
    if allowed.value > ALLOWED[Numerics.ORDER].value and values.weight > exact:
        return Sameness(same=True, numerics=True, why=values.described())
    return Sameness(same=True, numerics=False)


def _decided_above(allowed: AllowedShares) -> AllowedShares:
    """By how much results of runs that differ by a rounding alone may differ: what differs by more
    is decided by rounding."""
    return AllowedShares(
        value=allowed.value / OWN_FACTOR,
        gradient=allowed.gradient / OWN_FACTOR,
        update=allowed.update / OWN_FACTOR,
    )


def _allowed(kinds: Sequence[Numerics]) -> AllowedShares:
    """What these kinds of switches together explain."""
    rows = [ALLOWED[kind] for kind in kinds] or [ALLOWED[Numerics.EXACT]]
    return AllowedShares(
        value=max(row.value for row in rows),
        gradient=max(row.gradient for row in rows),
        update=max(row.update for row in rows),
    )


def _other_batches(trial: TrialRun, base: TrialRun) -> str:
    """How the trial's loaders make other batches, empty where they do not; of loaders that one of
    the two has not made yet nothing is known."""
    pairs = zip(trial.facts.get("loaders", []), base.facts.get("loaders", []), strict=False)
    for some, others in pairs:
        for name in BATCHES:
            if some.get(name) != others.get(name):
                return f"its DataLoader has {name}={some.get(name)} instead of {others.get(name)}"
    return ""


def _checks(allowed: AllowedShares) -> list[tuple[Differences, float]]:
    """What is compared, and how far it may differ."""
    return [
        (_values, allowed.value),
        (_rates, RATE_SHARE),
        (_gradients, allowed.gradient),
        (_each_gradient, EACH_FACTOR * allowed.gradient),
        (_statistics, allowed.update),
        (_updates, allowed.update),
    ]


def _checks_of_other_data(allowed: AllowedShares) -> list[tuple[Differences, float]]:
    """What is compared of a run that trains on other batches."""
    return [(_values, allowed.value), (_rates, RATE_SHARE), (_at_all, 0.0)]


def _from_the_second_step(run: TrialRun) -> TrialRun:
    """The run without its first step: what the next batch makes of each step."""
    ranks = [
        replace(rank, losses=rank.losses[1:], norms=rank.norms[1:], outputs=rank.outputs[1:])
        for rank in run.ranks
    ]
    return replace(run, ranks=ranks)


def _differs(found: LargestDifference, own: float | None) -> Sameness:
    """What differs, and by how much base runs do by themselves; None: there is only one of them."""
    by_themselves = "only one base run" if own is None else f"two base runs by {_percent(own)}"
    why = f"{found.described()}, {by_themselves}"
    return Sameness(same=False, numerics=False, why=why)


def _percent(share: float) -> str:
    tiny = 0 < share < LEAST_WITH_DECIMALS
    return f"{100 * share:.1g} %" if tiny else f"{100 * share:.2f} %"


def _difference(trial: TrialRun, base: TrialRun, differences: Differences) -> LargestDifference:
    """The largest difference of any rank; none at all where there is nothing to hold together."""
    if len(trial.ranks) != len(base.ranks):
        return LargestDifference(math.inf, "number of ranks", 0, "is another one")
    found = [LargestDifference(0.0, "", 0)]
    for trial_rank, theirs in zip(trial.ranks, base.ranks, strict=True):
        found += differences(trial_rank, theirs)
    return max(found, key=lambda one: one.weight)


def _values(trial: RankResult, theirs: RankResult) -> Iterator[LargestDifference]:
    yield from _series("loss", trial.losses, theirs.losses)
    yield from _series("gradient norm", trial.norms, theirs.norms)
    for number, (some, other) in enumerate(zip(trial.outputs, theirs.outputs, strict=False), 1):
        for trial_value, two in zip(some, other, strict=False):
            yield _relative("output", number, trial_value, two, abs(two))


def _series(what: str, trial: list[float], theirs: list[float]) -> Iterator[LargestDifference]:
    if bool(trial) != bool(theirs):
        yield LargestDifference(math.inf, what, 1, "is missing" if theirs else "is new")
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


def _rates(trial: RankResult, theirs: RankResult) -> Iterator[LargestDifference]:
    """Learning rates and the like, by call of an optimizer."""
    for call, (some, others) in enumerate(zip(trial.rates, theirs.rates, strict=False), 1):
        for rate, expected in zip(some, others, strict=False):
            yield _relative(RATE, call, rate, expected, abs(expected))


def _gradients(trial: RankResult, theirs: RankResult) -> Iterator[LargestDifference]:
    """The gradients of all weights together, by call of an optimizer."""
    calls = len(trial.gradients), len(theirs.gradients)
    if theirs.gradients and abs(calls[0] - calls[1]) > OPTIMIZER_CALLS:
        what = "number of calls of the optimizer"
        instead = f"is {calls[0]} instead of {calls[1]}"
        yield LargestDifference(math.inf, what, min(calls), instead)
    for call, some, others in _calls(trial, theirs):
        if len(some) != len(others):
            yield LargestDifference(math.inf, "number of gradients", call, "is another one")
        elif all(map(math.isfinite, others)):
            apart = math.dist(some, others)
            yield _relative("gradient", call, apart, 0.0, math.hypot(*others))


def _each_gradient(trial: RankResult, theirs: RankResult) -> Iterator[LargestDifference]:
    """The gradient of each weight, by call of an optimizer."""
    for call, some, others in _calls(trial, theirs):
        longest = max(filter(math.isfinite, others), default=0.0)
        for number, (norm, expected) in enumerate(zip(some, others, strict=False), 1):
            what = f"gradient of weight {number}"
            yield _gradient(what, call, norm, expected, longest)


def _gradient(
    what: str, call: int, norm: float, expected: float, longest: float
) -> LargestDifference:
    """How far the gradient of one weight differs; one of rounding is not compared."""
    if not norm and expected > LEAST_OF_MISSING * longest:
        return LargestDifference(math.inf, what, call, "is missing")
    if not expected and norm > LEAST_OF_GRADIENT * longest:
        return LargestDifference(math.inf, what, call, "is new")
    if expected > LEAST_OF_GRADIENT * longest:
        return _relative(what, call, norm, expected, expected)
    return LargestDifference(0.0, what, call)


def _calls(
    trial: RankResult, theirs: RankResult
) -> Iterator[tuple[int, Sequence[float], Sequence[float]]]:
    for call, (some, others) in enumerate(zip(trial.gradients, theirs.gradients, strict=False), 1):
        yield call, some, others


def _at_all(trial: RankResult, theirs: RankResult) -> Iterator[LargestDifference]:
    """Whether there are gradients and updates where the base has them."""
    found = [
        *_gradients(trial, theirs),
        *_each_gradient(trial, theirs),
        *_statistics(trial, theirs),
        *_updates(trial, theirs),
    ]
    yield from (one for one in found if math.isinf(one.share))
    for what in ("weights", "buffers"):
        for step, moved in getattr(theirs, what).items():
            if any(moved) and not any(getattr(trial, what).get(step, moved)):
                yield LargestDifference(math.inf, what, int(step), "have not moved")


def _updates(trial: RankResult, theirs: RankResult) -> Iterator[LargestDifference]:
    yield from _moves("update of the weights", trial.weights, theirs.weights)


def _statistics(trial: RankResult, theirs: RankResult) -> Iterator[LargestDifference]:
    yield from _moves("update of the running statistics", trial.buffers, theirs.buffers)


def _moves(
    what: str, trial: Mapping[str, list[float]], theirs: Mapping[str, list[float]]
) -> Iterator[LargestDifference]:
    for step in sorted(trial.keys() & theirs.keys(), key=int):
        some = trial[step]
        others = theirs[step]
        if len(some) != len(others):
            yield LargestDifference(math.inf, "number of weights", int(step), "is another one")
            continue
        # sums and sums of squares, each on a scale of its own
        for first in (0, 1):
            apart = math.dist(some[first::2], others[first::2])
            moved = math.hypot(*others[first::2])
            if moved > 0:
                yield LargestDifference(apart / moved, what, int(step))
            elif apart > 0:
                yield LargestDifference(math.inf, what, int(step), "is new")
