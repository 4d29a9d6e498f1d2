"""Predicted step times: the recording replayed, without the profiler's cost, and under each scenario."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from traceanalyzer.analysis.replay.gpu_clock import CAUTIOUS_DUTY, LIMITED_DUTY, duties, slowed
from traceanalyzer.analysis.replay.scenarios import COMBINED, SCENARIOS, Scenario, combined
from traceanalyzer.analysis.replay.simulate import step_times_ns
from traceanalyzer.analysis.replay.tape import typical_steps
from traceanalyzer.analysis.replay.together import make_tapes
from traceanalyzer.figures import NS_PER_MS, metric

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from traceanalyzer.analysis.replay.scenarios import Change
    from traceanalyzer.analysis.replay.tape import Tape
    from traceanalyzer.analysis.roofline.rated import Rated

DISPATCH_SHARE = 0.65
"""Share of the recorded dispatch time that is left without the profiler: the median of host-bound recordings of eager
PyTorch that were also rated without it. A cost for each operator and call fits them worse (docs/accuracy.md)."""
DISPATCH_SHARE_WITH_STACKS = 0.5
"""The same where Python stacks were recorded."""
DISPATCH_RANGE = 0.2
"""For nearly nine in ten of those recordings the share is no farther away than this. Two recordings of one process,
seconds apart, differ by as much: the host itself is not always equally fast."""
FIT_ROUNDS = 8
"""Halvings that find the host's speed from a measured step time, to half a percent."""
ALWAYS = 1.0
"""Duty of tensor cores that keep the highest clock however busy they are."""
FAITHFUL = 0.05
"""A replay that differs more than this from the recording says so with every prediction."""


COMBINED_GAIN = 0.01
"""A combination is worth telling if it is better than its parts by this."""
COMBINED_COUNT = 3
ONE_RANK = (
    "The run has {world} ranks and one of them is replayed: its collectives take as long as recorded, waiting for the "
    "others included, as if these came earlier by as much as this rank does."
)
TOGETHER = "{ranks} ranks are replayed together: a collective transfers once all of them have arrived."


@dataclass(frozen=True)
class Prediction:
    """A scenario and the step time it leads to; null where the recording does not say what it needs."""

    id: str = metric("what is different")
    step_ms: float | None = metric("predicted step time without a profiler", "ms")
    low_ms: float | None = metric("lower end of the range, by the range of the profiler's cost", "ms")
    high_ms: float | None = metric("upper end of it", "ms")
    speedup: float | None = metric("unprofiled step time over the predicted one")
    basis: str = metric("what is assumed, or why there is no prediction")


@dataclass(frozen=True)
class WhatIf:
    """The step as recorded, replayed, without a profiler, and under each scenario."""

    recorded_step_ms: float = metric("mean steady-state step of the recording", "ms")
    replayed_step_ms: float = metric("the same from the replay of its causes", "ms")
    fidelity_error: float = metric("replayed over recorded step time (outliers left out), less 1", "share")
    unprofiled_step_ms: float = metric("step time without a profiler: measured with the capture, else estimated", "ms")
    unprofiled_low_ms: float = metric("lower end of the estimate's range", "ms")
    unprofiled_high_ms: float = metric("upper end of it", "ms")
    ranks: int = metric("ranks replayed together")
    scenarios: list[Prediction] = metric("scenarios, largest gain first")
    notes: list[str] = metric("what all of them assume")


@dataclass(frozen=True, eq=False)
class Replay:
    """The steady steps ready to be replayed: as recorded, and with the profiler's cost taken out.

    Each is the tapes of the ranks that are replayed together, the one that is spoken of first.
    """

    recorded_ms: float
    fidelity_error: float
    recorded: tuple[Tape, ...]
    cheap: tuple[Tape, ...]
    usual: tuple[Tape, ...]
    dear: tuple[Tape, ...]
    """Without the profiler, with the least, the usual and the largest share of the dispatch left."""
    replayed_ms: float
    """Step time of the replay as recorded."""
    base_times_ns: list[float]
    """Step time of each rank without the profiler, ns."""

    @classmethod
    def of(cls, rated: Rated, measured_ms: float | None = None, peers: Sequence[Rated] = ()) -> Replay | None:
        """The replay of a process; None where launches or device work were not recorded, or there are no steps.

        `measured_ms` is the step time without a profiler, where the capture has it: the host is then made as
        fast as that says. `peers` are the other ranks of its run, replayed with it.
        """
        tapes = make_tapes(rated, peers) if rated.steps.found else ()
        if not tapes:
            return None
        steps = typical_steps(*(tape.source for tape in tapes))
        typical = float(rated.steps.duration[steps].mean()) / NS_PER_MS
        cheap, usual, dear = _without_profiler(tapes, measured_ms)
        replayed = step_ms(tapes)
        return cls(
            recorded_ms=float(rated.steps.duration[rated.steps.steady].mean()) / NS_PER_MS,
            fidelity_error=replayed / typical - 1.0 if typical else 0.0,
            recorded=tapes,
            cheap=cheap,
            usual=usual,
            dear=dear,
            replayed_ms=replayed,
            base_times_ns=step_times_ns(usual),
        )

    @property
    def base_ms(self) -> float:
        """Step time without the profiler."""
        return max(self.base_times_ns) / NS_PER_MS

    @property
    def faithful(self) -> bool:
        """Whether the replay of the unchanged recording is near enough to it to predict from."""
        return abs(self.fidelity_error) <= FAITHFUL

    def predict(self, scenario: Scenario) -> Prediction:
        """The step time under a scenario; not longer than without it, unless it can cost something."""
        step = self._step_ms(scenario, scenario.change, self.usual, LIMITED_DUTY)
        if step is None:
            return Prediction(scenario.id, None, None, None, None, scenario.missing)
        low = self._step_ms(scenario, scenario.change, self.cheap, ALWAYS)
        high = self._step_ms(scenario, scenario.cautious or scenario.change, self.dear, CAUTIOUS_DUTY)
        if not scenario.may_cost:
            step = min(step, self.base_ms)
            high = None if high is None else min(high, max(step, self.dear_ms))
        return Prediction(
            id=scenario.id,
            step_ms=step,
            low_ms=step if low is None else min(low, step),
            high_ms=step if high is None else max(high, step),
            speedup=self.base_ms / step if step else 1.0,
            basis=scenario.basis,
        )

    def _step_ms(self, scenario: Scenario, change: Change, tapes: Sequence[Tape], limited: float) -> float | None:
        """Step time of the changed tapes, with clocks that are limited from this duty of the tensor cores on."""
        changed = [tape for tape in map(change, tapes) if tape is not None]
        if len(changed) < len(tapes):
            return None
        times = step_times_ns(changed)
        lower = slowed(changed, self.duty, duties(changed, times), limited)
        return scenario.step_of_run(times if lower is None else step_times_ns(lower)) / NS_PER_MS

    @cached_property
    def dear_ms(self) -> float:
        """Step time without the profiler if it cost the host little."""
        return step_ms(self.dear)

    @cached_property
    def duty(self) -> list[float]:
        """Share of each rank's step, without the profiler, in matrix kernels on tensor cores."""
        return duties(self.usual, self.base_times_ns)

    def what_if(self, more: Sequence[Scenario] = ()) -> WhatIf:
        """All predictions, `more` scenarios and combinations of the best few included."""
        predictions = [self.predict(scenario) for scenario in (*SCENARIOS, *more)]
        predictions += self._combinations({p.id: p.step_ms for p in predictions if p.step_ms is not None})
        return WhatIf(
            recorded_step_ms=self.recorded_ms,
            replayed_step_ms=self.replayed_ms,
            fidelity_error=self.fidelity_error,
            unprofiled_step_ms=self.base_ms,
            unprofiled_low_ms=step_ms(self.cheap),
            unprofiled_high_ms=self.dear_ms,
            ranks=len(self.recorded),
            scenarios=sorted(predictions, key=lambda p: float("inf") if p.step_ms is None else p.step_ms),
            notes=self._notes(),
        )

    def _combinations(self, known: dict[str, float]) -> Iterator[Prediction]:
        """The best two and the best three together, where that is better than what is known already."""
        gains = [s for s in COMBINED if known.get(s.id, self.base_ms) < self.base_ms * (1 - COMBINED_GAIN)]
        gains.sort(key=lambda s: known[s.id])
        best = min((known[s.id] for s in gains), default=0.0)
        for count in range(2, min(COMBINED_COUNT, len(gains)) + 1):
            together = combined(*(s for s in COMBINED if s in gains[:count]))
            listed = next((s.id for s in SCENARIOS if s.parts and set(s.parts) == set(together.parts)), None)
            if listed is not None:
                best = min(best, known.get(listed, best))
                continue
            prediction = self.predict(together)
            if prediction.step_ms is not None and prediction.step_ms < best * (1 - COMBINED_GAIN):
                best = prediction.step_ms
                yield prediction

    def _notes(self) -> list[str]:
        world = self.recorded[0].source.trace.process.world_size or 1
        if len(self.recorded) > 1:
            return [TOGETHER.format(ranks=len(self.recorded))]
        return [ONE_RANK.format(world=world)] if world > 1 and self.recorded[0].communication.any() else []


def step_ms(tapes: Sequence[Tape], of_run: Callable[[Sequence[float]], float] = max) -> float:
    """Step time of ranks that are replayed together, ms."""
    return of_run(step_times_ns(tapes)) / NS_PER_MS


def _without_profiler(
    tapes: tuple[Tape, ...], measured_ms: float | None
) -> tuple[tuple[Tape, ...], tuple[Tape, ...], tuple[Tape, ...]]:
    """The tapes with the profiler's cost taken out of the dispatch: cheap, usual and dear host."""
    trace = tapes[0].source.trace
    if measured_ms is not None:
        fitted = dispatch_scaled(tapes, fitted_share(tapes, measured_ms))
        return fitted, fitted, fitted
    if trace.source != "kineto":
        return tapes, tapes, tapes
    share = DISPATCH_SHARE_WITH_STACKS if trace.collected.stacks else DISPATCH_SHARE
    low, high = share - DISPATCH_RANGE, min(share + DISPATCH_RANGE, 1.0)
    return dispatch_scaled(tapes, low), dispatch_scaled(tapes, share), dispatch_scaled(tapes, high)


def fitted_share(tapes: tuple[Tape, ...], measured_ms: float) -> float:
    """The share of the dispatch with which the replay takes as long as was measured; 1 if the host does not matter."""
    low, high = 0.0, 1.0
    for _ in range(FIT_ROUNDS):
        middle = (low + high) / 2
        if step_ms(dispatch_scaled(tapes, middle)) > measured_ms:
            high = middle
        else:
            low = middle
    return high


def dispatch_scaled(tapes: tuple[Tape, ...], share: float) -> tuple[Tape, ...]:
    """The tapes without the profiler, if this share of the dispatch is left."""
    return tuple(
        replace(
            tape,
            dispatch=np.rint(tape.dispatch * share).astype(np.int64),
            reading=np.rint(tape.reading * share).astype(np.int64),
            profiling=np.zeros_like(tape.profiling),
            tail=(round(tape.tail[0] * share), tape.tail[1], tape.tail[2], 0),
        )
        for tape in tapes
    )
