"""Predicted step times: the recording replayed, without the profiler's cost, and under each scenario."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from traceanalyzer.analysis.metric import NS_PER_MS, metric
from traceanalyzer.analysis.replay.scenarios import SCENARIOS, Scenario
from traceanalyzer.analysis.replay.simulate import step_time_ns
from traceanalyzer.analysis.replay.tape import make_tape, typical_steps

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traceanalyzer.analysis.context import Context
    from traceanalyzer.analysis.replay.tape import Tape

DISPATCH_SHARE = 0.67
"""Share of the recorded dispatch time that is left without the profiler: on host-bound recordings that were also
timed without it (eager PyTorch with shapes, H200) it lies between 0.62 and 0.76 for nine in ten."""
DISPATCH_SHARE_WITH_STACKS = 0.5
"""The same where Python stacks were recorded."""
DISPATCH_RANGE = 0.1
"""Both vary by this much either way between programs and hosts."""
FIT_ROUNDS = 8
"""Halvings that find the host's speed from a measured step time, to half a percent."""
FAITHFUL = 0.05
"""A replay that differs more than this from the recording says so with every prediction."""


@dataclass(frozen=True)
class Prediction:
    """A scenario and the step time it leads to."""

    id: str = metric("what is different")
    step_ms: float = metric("predicted step time without a profiler", "ms")
    low_ms: float = metric("lower end of the range, by the range of the profiler's cost", "ms")
    high_ms: float = metric("upper end of it", "ms")
    speedup: float = metric("unprofiled step time over the predicted one")
    basis: str = metric("what is assumed")


@dataclass(frozen=True)
class WhatIf:
    """The step as recorded, replayed, without a profiler, and under each scenario."""

    recorded_step_ms: float = metric("mean steady-state step of the recording", "ms")
    replayed_step_ms: float = metric("the same from the replay of its causes", "ms")
    fidelity_error: float = metric("replayed over recorded step time (outliers left out), less 1", "share")
    unprofiled_step_ms: float = metric("step time without a profiler: measured with the capture, else estimated", "ms")
    unprofiled_low_ms: float = metric("lower end of the estimate's range", "ms")
    unprofiled_high_ms: float = metric("upper end of it", "ms")
    scenarios: list[Prediction] = metric("scenarios, largest gain first")


@dataclass(frozen=True, eq=False)
class Replay:
    """The steady steps ready to be replayed: as recorded, and with the profiler's cost taken out."""

    recorded_ms: float
    fidelity_error: float
    recorded: Tape
    cheap: Tape
    usual: Tape
    dear: Tape
    """Without the profiler, with the least, the usual and the largest share of the dispatch left."""
    base_ms: float
    """Step time without the profiler."""

    @classmethod
    def of(cls, ctx: Context, measured_ms: float | None = None) -> Replay | None:
        """The replay of a process; None where launches or device work were not recorded, or there are no steps.

        `measured_ms` is the step time without a profiler, where the capture has it: the host is then made as
        fast as that says.
        """
        tape = make_tape(ctx) if ctx.steps.found else None
        if tape is None:
            return None
        typical = float(ctx.steps.duration[typical_steps(ctx)].mean()) / NS_PER_MS
        cheap, usual, dear = _without_profiler(ctx, tape, measured_ms)
        return cls(
            recorded_ms=float(ctx.steps.duration[ctx.steps.steady].mean()) / NS_PER_MS,
            fidelity_error=_step_ms(tape) / typical - 1.0 if typical else 0.0,
            recorded=tape,
            cheap=cheap,
            usual=usual,
            dear=dear,
            base_ms=_step_ms(usual),
        )

    @property
    def faithful(self) -> bool:
        """Whether the replay of the unchanged recording is near enough to it to predict from."""
        return abs(self.fidelity_error) <= FAITHFUL

    def predict(self, scenario: Scenario) -> Prediction:
        """The step time under a scenario; never longer than without it."""
        step = min(_step_ms(scenario.change(self.usual)), self.base_ms)
        return Prediction(
            id=scenario.id,
            step_ms=step,
            low_ms=min(_step_ms(scenario.change(self.cheap)), step),
            high_ms=max(_step_ms(scenario.change(self.dear)), step),
            speedup=self.base_ms / step if step else 1.0,
            basis=scenario.basis,
        )

    def what_if(self, more: Sequence[Scenario] = ()) -> WhatIf:
        """All predictions, `more` scenarios included."""
        predictions = [self.predict(scenario) for scenario in (*SCENARIOS, *more)]
        return WhatIf(
            recorded_step_ms=self.recorded_ms,
            replayed_step_ms=_step_ms(self.recorded),
            fidelity_error=self.fidelity_error,
            unprofiled_step_ms=self.base_ms,
            unprofiled_low_ms=_step_ms(self.cheap),
            unprofiled_high_ms=_step_ms(self.dear),
            scenarios=sorted(predictions, key=lambda p: p.step_ms),
        )


def _step_ms(tape: Tape) -> float:
    return step_time_ns(tape) / NS_PER_MS


def _without_profiler(ctx: Context, tape: Tape, measured_ms: float | None) -> tuple[Tape, Tape, Tape]:
    """The tape with the profiler's cost taken out of the dispatch: cheap, usual and dear host."""
    if measured_ms is not None:
        fitted = _dispatch_scaled(tape, _fitted_share(tape, measured_ms))
        return fitted, fitted, fitted
    if ctx.trace.source != "kineto":
        return tape, tape, tape
    share = DISPATCH_SHARE_WITH_STACKS if ctx.trace.collected.stacks else DISPATCH_SHARE
    low, high = share - DISPATCH_RANGE, min(share + DISPATCH_RANGE, 1.0)
    return _dispatch_scaled(tape, low), _dispatch_scaled(tape, share), _dispatch_scaled(tape, high)


def _fitted_share(tape: Tape, measured_ms: float) -> float:
    """The share of the dispatch with which the replay takes as long as was measured; 1 if the host does not matter."""
    low, high = 0.0, 1.0
    for _ in range(FIT_ROUNDS):
        middle = (low + high) / 2
        if _step_ms(_dispatch_scaled(tape, middle)) > measured_ms:
            high = middle
        else:
            low = middle
    return high


def _dispatch_scaled(tape: Tape, share: float) -> Tape:
    return replace(
        tape,
        dispatch=np.rint(tape.dispatch * share).astype(np.int64),
        reading=np.rint(tape.reading * share).astype(np.int64),
        profiling=np.zeros_like(tape.profiling),
        tail=(round(tape.tail[0] * share), tape.tail[1], tape.tail[2], 0),
    )
