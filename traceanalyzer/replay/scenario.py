"""A change of the tape with what it assumes, and the scenarios that are made for a question."""

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np

from traceanalyzer.base import dataclass
from traceanalyzer.replay.changes.communication.buckets import (
    MB,
    BucketSize,
    rebucketed,
    what_size_lacks,
)
from traceanalyzer.replay.limits import Chosen
from traceanalyzer.replay.patterns.named import ops_named
from traceanalyzer.replay.prediction import BETWEEN, Kind
from traceanalyzer.replay.simulate import Begin
from traceanalyzer.replay.tape import Change, Tape

Time = TypeVar("Time", int, float)
LEAST_SPEEDUP = 1e-3
"""Work that takes longer than a thousand times its own is no question about this step."""
AS_RECORDED = rebucketed(None)


def lower_median(times: Sequence[Time]) -> Time:
    """The middle one, of an even number the lower of the two."""
    return sorted(times)[(len(times) - 1) // 2]


@dataclass(frozen=True)
class Scenario:
    """A change and what it assumes."""

    id: str
    change: Change
    basis: str
    # a more optimistic reading of it, for the lower end of the range
    optimistic: Change | None = None
    # a less optimistic reading of it, for the upper end of the range
    pessimistic: Change | None = None
    # why it is not predicted where `change` says None
    missing: str = "the recording does not say what this needs"
    # the same in words of this recording; None: `missing`
    lacks: Callable[[Tape], str] | None = None
    # the run's step time from those of its ranks
    step_of_run: Callable[[Sequence[float]], float] = max
    begin: Begin = max  # when a collective begins, from when its ranks arrive
    may_cost: bool = False  # whether it can make the step longer
    hides: Chosen | None = None
    """The ops that it hides behind the rest of the step: it cannot lead below the longer of the two
    (`hiding`)."""
    parts: "tuple[Scenario, ...]" = ()  # the scenarios that it combines
    baseline: Change | None = None
    """The recorded program as the model behind `change` has it: what a prediction gains is its
    difference from that."""
    most_slowed: float = math.inf
    """How many times longer lower clocks can make matrix kernels at most, where the recordings show
    it."""
    joins: bool = False
    """Whether it is about calls that become one: that takes no less than one of them does now."""
    least: float = 0.0  # share of the step that is left whatever the change gains
    kind: Kind = "change"
    nearest: str = ""  # the remedy that advice has for it, or that comes nearest to an ideal


def check_speedup(pattern: str, factor: float) -> None:
    """Raises ValueError where it is no question about a step."""
    try:
        re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        raise ValueError(f"{pattern!r} is no regular expression: {error}") from error
    if not pattern or not LEAST_SPEEDUP <= factor < math.inf:
        raise ValueError(
            f"{pattern}={factor:g} is not REGEX=N with a finite N of at least {LEAST_SPEEDUP:g}"
        )


def faster(pattern: str, factor: float) -> Scenario:
    """The device work that a name (regular expression, see `ops_named`) stands for takes 1/factor
    of its time. Raises ValueError."""
    check_speedup(pattern, factor)

    def change(tape: Tape) -> Tape | None:
        chosen = ops_named(tape.source.linked, pattern)[tape.row]
        duration = np.where(chosen, tape.duration / factor, tape.duration).astype(np.int64)
        return replace(tape, duration=duration) if chosen.any() else None

    basis = f"device work of {pattern} {factor:g} times faster; the host's part stays as it is"
    missing = "no device work has this name"
    name = f"{pattern}={factor:g}"
    return Scenario(name, change, basis, missing=missing, may_cost=factor < 1.0, kind="asked")


def combined(*scenarios: Scenario) -> Scenario:
    """All of them at once."""

    def change(tape: Tape) -> Tape | None:
        changed: Tape | None = tape
        for scenario in scenarios:
            changed = None if changed is None else scenario.change(changed)
        return changed

    name = "+".join(s.id for s in scenarios)
    basis = BETWEEN.join(s.basis for s in scenarios)
    hides = next((s.hides for s in scenarios if s.hides is not None), None)
    kinds = [s.kind for s in scenarios]
    kind: Kind = "ideal" if "ideal" in kinds else "change"
    return Scenario(name, change, basis, hides=hides, parts=scenarios, kind=kind)


def buckets(name: str, size: BucketSize) -> Scenario:
    """Gradient buckets of another size."""
    return Scenario(
        name,
        rebucketed(size),
        f"gradients are reduced in messages {size}; what one takes is fitted to those recorded, "
        "else as fast as the fastest of them",
        missing="sizes and times of the collectives do not tell what a smaller one would take: a recording with "
        "two bucket sizes, or with short messages (a barrier) in its steps, would",
        may_cost=True,
        baseline=AS_RECORDED,
    )


def buckets_of(megabytes: float) -> Scenario:
    """Gradient buckets of this size (as PyTorch counts megabytes)."""
    size = BucketSize(bytes=round(megabytes * MB))

    def lacks(tape: Tape) -> str:
        return what_size_lacks(tape, size)

    return replace(buckets(f"buckets={megabytes:g}MB", size), kind="asked", lacks=lacks)
