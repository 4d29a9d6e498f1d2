"""What rounding alone decides of a program's results is not compared.

A base run whose weights were moved by a rounding error shows it: the losses from some step on of two
networks that train against each other, or the first update of a weight whose gradient is nothing but
rounding, as that of a bias before a normalization under Adam."""

import dataclasses
import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import takewhile
from typing import Self, TypeVar

from traceanalyzer.base import dataclass
from traceanalyzer.trials.result import RankResult, TrialRun
from traceanalyzer.trials.switch import Numerics

NUDGE = {Numerics.ORDER: 1e-6, Numerics.TF32: 5e-4, Numerics.HALF: 4e-3}
"""What one rounding moves a value by: a sum of fp32 in another order, a product in TF32 or bf16.
Switches of other kinds do not round otherwise."""
T = TypeVar("T")
Agreement = Callable[[T, T], bool]
REACHED_ALL = 0.5  # of the gradients: where rounding has reached so many it reaches all
FIGURES = 2  # that a weight has in `RankResult.weights`


@dataclass(frozen=True)
class AllowedShares:
    """How far results of each kind may differ, relative."""

    value: float
    update: float
    gradient: float  # of one weight


@dataclass(frozen=True)
class DecidedByRounding:
    """How much of one rank's results two runs agree on that differ by a rounding alone."""

    losses: int  # so many of the first
    norms: int
    outputs: int
    weights: dict[str, list[int]]  # by step the weights whose update is the same
    buffers: dict[str, list[int]]
    # by call of an optimizer the weights whose gradient is as long, and was in all calls before
    gradients: list[list[int]]

    @classmethod
    def of(cls, base: RankResult, nudged: RankResult, shares: AllowedShares) -> Self:
        """From a run and one whose weights were moved; results that differ by a larger share are
        decided by rounding."""
        value = shares.value
        return cls(
            losses=_agreeing(base.losses, nudged.losses, value),
            norms=_agreeing(base.norms, nudged.norms, value),
            outputs=_leading(
                base.outputs,
                nudged.outputs,
                lambda one, other: _agreeing(one, other, value) == len(one),
            ),
            weights=_steady_by_step(base.weights, nudged.weights, shares.update),
            buffers=_steady_by_step(base.buffers, nudged.buffers, shares.update),
            gradients=_steady_gradients(base.gradients, nudged.gradients, shares.gradient),
        )

    def left(self, result: RankResult) -> RankResult:
        """What can be compared of a result."""
        return RankResult(
            losses=result.losses[: self.losses],
            norms=result.norms[: self.norms],
            outputs=result.outputs[: self.outputs],
            weights=_left_by_step(result.weights, self.weights),
            buffers=_left_by_step(result.buffers, self.buffers),
            gradients=[
                [norms[at] for at in steady if at < len(norms)]
                for norms, steady in zip(result.gradients, self.gradients, strict=False)
            ],
            rates=result.rates,
        )


def _left_by_step(
    moved_by_step: dict[str, list[float]], steady: dict[str, list[int]]
) -> dict[str, list[float]]:
    return {
        step: [figure for at in steady[step] for figure in figures_of(moved, at)]
        for step, moved in moved_by_step.items()
        if steady.get(step)
    }


def _steady_by_step(
    some: dict[str, list[float]], others: dict[str, list[float]], share: float
) -> dict[str, list[int]]:
    return {
        step: _steady_weights(moved, others.get(step, []), share) for step, moved in some.items()
    }


def _steady_gradients(
    some: Sequence[Sequence[float]], others: Sequence[Sequence[float]], share: float
) -> list[list[int]]:
    """By call the weights whose gradients agree, in it and in the calls of as many weights before:
    what rounding has reached once grows from then on."""
    lost: dict[int, set[int]] = defaultdict(set)  # by how many weights an optimizer has
    steady = []
    for norms, theirs in zip(some, others, strict=False):
        pairs = enumerate(zip(norms, theirs, strict=False))
        gone = lost[len(norms)]
        gone |= {at for at, (norm, other) in pairs if not _is_near(norm, other, share)}
        if len(gone) > REACHED_ALL * len(norms):
            gone |= set(range(len(norms)))
        steady.append([at for at in range(len(norms)) if at not in gone])
    return steady


def figures_of(moved: Sequence[float], weight: int) -> Sequence[float]:
    """The figures of one weight."""
    return moved[FIGURES * weight : FIGURES * (weight + 1)]


def nudge_of(kinds: Sequence[Numerics]) -> float:
    """By what share of themselves weights are moved to see what these kinds of switches may."""
    return max((NUDGE.get(kind, 0.0) for kind in kinds), default=0.0)


def without_decided(
    run: TrialRun, base: TrialRun, nudged: TrialRun, shares: AllowedShares
) -> TrialRun:
    """The run with what can be compared of its results."""
    if not len(run.ranks) == len(base.ranks) == len(nudged.ranks):
        return run
    ranks = [
        DecidedByRounding.of(theirs, moved, shares).left(own)
        for own, theirs, moved in zip(run.ranks, base.ranks, nudged.ranks, strict=True)
    ]
    return dataclasses.replace(run, ranks=ranks)


def can_be_compared(run: TrialRun) -> bool:
    """Whether any result is left."""
    return any(rank.losses or rank.outputs or rank.weights for rank in run.ranks)


def _agreeing(some: Sequence[float], others: Sequence[float], share: float) -> int:
    return _leading(some, others, lambda one, other: _is_near(one, other, share))


def _leading(some: Sequence[T], others: Sequence[T], agree: Agreement[T]) -> int:
    """How many of the first agree."""
    pairs = zip(some, others, strict=False)
    return sum(1 for _ in takewhile(lambda pair: agree(*pair), pairs))


def _steady_weights(some: list[float], others: list[float], share: float) -> list[int]:
    count = min(len(some), len(others)) // FIGURES
    return [
        at
        for at in range(count)
        if _agreeing(figures_of(some, at), figures_of(others, at), share) == FIGURES
    ]


def _is_near(value: float, other: float, share: float) -> bool:
    both_nan = math.isnan(value) and math.isnan(other)
    return both_nan or math.isclose(value, other, rel_tol=share, abs_tol=0.0)
