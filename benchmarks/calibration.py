"""Models of what a profiler costs the host, calibrated on all programs but the one that they are
held against."""

import itertools
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from traceanalyzer.replay.host_speed import DISPATCH_SHARE_WITH_STACKS, host_scaled, replay_step_ms
from traceanalyzer.replay.recorded import typical_steps
from traceanalyzer.replay.whatif import Replay
from traceanalyzer.trace import RangeKind

SHARES = np.arange(0.25, 1.01, 0.05)
HOST_BOUND = 0.15
"""With half of the dispatch the step must be shorter by this share for a recording to tell
anything."""
COSTS_US = np.arange(0.0, 5.1, 0.5)


@dataclass(frozen=True)
class Sensitivity:
    """How the replayed step of a recording depends on the share of the dispatch that is left
    without the profiler."""

    name: str
    workload: str
    steps_ms: tuple[float, ...]
    """Replayed step for each of `SHARES`."""
    rounds_ms: tuple[float, ...]
    stacks: bool
    ops_per_us: float
    """Operators per us of recorded dispatch, and ..."""
    calls_per_us: float
    """... API calls."""

    @property
    def host_bound(self) -> bool:
        """Whether the host decides about the step."""
        return self.step_ms(0.5) < (1 - HOST_BOUND) * self.steps_ms[-1]

    def step_ms(self, share: float) -> float:
        """The replayed step with this share of the dispatch."""
        return float(np.interp(share, SHARES, self.steps_ms))

    @property
    def share(self) -> float:
        """The share with which the replayed step is as long as the measured one."""
        return float(np.interp(statistics.median(self.rounds_ms), self.steps_ms, SHARES))

    def error(self, share: float) -> float:
        """How far the replayed step is from the nearest of the rounds."""
        step = self.step_ms(share)
        return abs(step / min(max(step, min(self.rounds_ms)), max(self.rounds_ms)) - 1)


@dataclass(frozen=True)
class Model:
    """A model, what it is with all programs, and share and error of each recording without its own
    program."""

    name: str
    calibrated: str
    shares: dict[str, float]
    errors: list[float]


def sensitivity(
    name: str, workload: str, replay: Replay, rounds_ms: Sequence[float]
) -> Sensitivity:
    """Replay a recording with every share."""
    tapes = replay.recorded
    ctx = replay.recorded[0].source
    steps = ctx.timed.steps
    ranges = ctx.trace.host_ranges
    calls = ctx.trace.api_calls
    threads = np.unique(calls.thread[ctx.linked.launch[ctx.linked.launch >= 0]])
    typical = np.flatnonzero(typical_steps(ctx.causes))
    begin = steps.host_start[typical[0]]
    end = steps.host_end[typical[-1]]
    counts = [
        int(
            (
                np.isin(table.thread, threads) & (table.start >= begin) & (table.start < end) & kind
            ).sum()
        )
        for table, kind in ((ranges, ranges.kind == RangeKind.OP), (calls, True))
    ]
    dispatch_us = max(float(tapes[0].dispatch.sum()) / 1000, 1.0)
    return Sensitivity(
        name,
        workload,
        tuple(replay_step_ms(host_scaled(tapes, share)) for share in SHARES.tolist()),
        tuple(rounds_ms),
        ctx.trace.collected.stacks,
        counts[0] / dispatch_us,
        counts[1] / dispatch_us,
    )


def cross_validated(known: list[Sensitivity]) -> list[Model]:
    """The models, simplest first."""
    return [
        _validated("one share of the dispatch is left", known, _one_share, "{:.2f}"),
        _validated(
            "each operator and each call cost so many us", known, _costs, "{:.1f} and {:.1f}"
        ),
    ]


Fit = tuple[tuple[float, ...], "Callable[[Sensitivity], float]"]
"""Parameters, and the share that they give a recording."""


def _validated(
    name: str, known: list[Sensitivity], fit: Callable[[list[Sensitivity]], Fit], text: str
) -> Model:
    shares: dict[str, float] = {}
    for workload in {s.workload for s in known}:
        _, share = fit([s for s in known if s.workload != workload])
        shares |= {s.name: share(s) for s in known if s.workload == workload}
    return Model(
        name, text.format(*fit(known)[0]), shares, [s.error(shares[s.name]) for s in known]
    )


def _one_share(known: list[Sensitivity]) -> Fit:
    """The median program's; with Python stacks what the analyzer takes, as few recordings have
    them."""
    plain = [s for s in known if not s.stacks]
    value = statistics.median(
        statistics.median(s.share for s in plain if s.workload == workload)
        for workload in {s.workload for s in plain}
    )
    return (value,), lambda s: DISPATCH_SHARE_WITH_STACKS if s.stacks else value


def _costs(known: list[Sensitivity]) -> Fit:
    """The costs of an operator and of an API call with the least mean error over programs."""

    def share(costs: tuple[float, float], s: Sensitivity) -> float:
        return max(1.0 - costs[0] * s.ops_per_us - costs[1] * s.calls_per_us, float(SHARES[0]))

    weight = {w: sum(s.workload == w for s in known) for w in {s.workload for s in known}}
    best = min(
        itertools.product(COSTS_US.tolist(), COSTS_US.tolist()),
        key=lambda costs: sum(s.error(share(costs, s)) / weight[s.workload] for s in known),
    )
    return best, lambda s: share(best, s)
