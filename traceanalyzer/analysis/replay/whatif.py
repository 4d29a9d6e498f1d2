"""Predicted step times: the recording replayed, without the profiler's cost, and under each scenario.

All of them start from one number, `Replay.base_ms`: the step without the profiler as the capture measured it, else as
the replay has it. What the replay is off by is taken out of every prediction, so none exceeds the base unless its
scenario can cost something.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

from traceanalyzer.analysis.replay.gpu_clock import CAUTIOUS_DUTY, LIMITED_DUTY, duties, slowed
from traceanalyzer.analysis.replay.hiding import least_times_ns
from traceanalyzer.analysis.replay.scenarios import COMBINED, SCENARIOS, Scenario, combined
from traceanalyzer.analysis.replay.simulate import step_times_ns
from traceanalyzer.analysis.replay.spreads import GAIN_SPREAD, gain_spread
from traceanalyzer.analysis.replay.tape import hiccups, typical_steps
from traceanalyzer.analysis.replay.together import make_tapes
from traceanalyzer.figures import NS_PER_MS, metric

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from traceanalyzer.analysis.replay.changes.edits import Change
    from traceanalyzer.analysis.replay.tape import Tape
    from traceanalyzer.analysis.roofline.rated import Rated
    from traceanalyzer.analysis.tables.timing import UnprofiledTime
    from traceanalyzer.trace import I64, Trace

DISPATCH_SHARE = 0.65
"""Share of the recorded dispatch time that is left without the profiler: the median of host-bound recordings of eager
PyTorch that were also rated without it. A cost for each operator and call fits them worse (docs/accuracy.md)."""
DISPATCH_SHARE_WITH_STACKS = 0.5
"""The same where Python stacks were recorded."""
DISPATCH_SHARE_OF_CALLS, DISPATCH_RANGE_OF_CALLS = 0.8, 0.2
"""The same where the recorder slows API calls alone."""
DISPATCH_RANGE = 0.2
"""For nearly nine in ten of those recordings the share is no farther away than this. Two recordings of one process,
seconds apart, differ by as much: the host itself is not always equally fast."""
FIT_ROUNDS = 7
"""Halvings that find the host's speed from a measured step time, to half a percent."""
FIT_TOLERANCE = 0.03
"""A replay that is this near to the stopwatch needs no other host: clocks differ by as much from run to run."""
OF_RANGE = 1.64
"""Standard deviations to each side that hold nine in ten."""
TAIL = 1e-6
"""A part of the distribution that is too small to divide by."""
LEAST_SHARE = 0.3
"""Less of the dispatch was left in no recording. A step that is shorter still waits less for what the host does
besides."""
ALWAYS = 1.0
"""Duty of tensor cores that keep the highest clock however busy they are."""
FAITHFUL = 0.1
"""A replay that differs more than this from the recording lacks something that matters, and nothing is told of it; one
that differs less is scaled to it."""
HOST_SPREAD = 0.25
"""How much longer or shorter the host takes over the same work from one run of a program to the next: programs that
were recorded twice, minutes apart on one machine, differ by up to a quarter."""
LOADING_SPREAD = 0.1
"""How much longer or shorter loading, and other long work of the host, takes in the timed run than in the recorded one,
as a mean over its steps."""
LONG_WORK_NS = 1_000_000
"""Shorter work of the host lies between launches, and is as fast as they are."""
MEASURED_SPREAD, ESTIMATED_SPREAD = 0.05, 0.1
"""How far a step that was timed, or estimated, may be off whatever its host does: clocks, memory, the replay itself."""
SCENARIO_SPREAD = 0.12
"""The same of a prediction, to which comes a share of what it gains (`spreads`): scenarios leave things out. With these
about nine in ten stopwatch medians are in their ranges (docs/accuracy.md)."""
LEAST_OF_STEP = 0.25
"""No prediction is so far off that the step is shorter than this share of it for what a scenario leaves out."""

LONGEST_MS = 86.4e6
"""A step of more than a day is damage, and a replay of several would leave 64 bits."""
COMBINED_GAIN = 0.01
"""A combination is worth telling if it is better than its parts by this."""
COMBINED_COUNT = 3
ONE_RANK = (
    "The run has {world} ranks and one of them is replayed: its collectives take as long as recorded, waiting for the "
    "others included, as if these came earlier by as much as this rank does."
)
UNFAITHFUL = "the replay of the unchanged recording is too far from it"
TOGETHER = "{ranks} ranks are replayed together: a collective transfers once all of them have arrived."


@dataclass(frozen=True)
class Prediction:
    """A scenario and the step time it leads to; null where the recording does not say what it needs."""

    id: str = metric("what is different")
    step_ms: float | None = metric("predicted step time without a profiler", "ms")
    low_ms: float | None = metric("lower end of the 90 % range: nine of ten stopwatch medians lie inside", "ms")
    high_ms: float | None = metric("upper end of it", "ms")
    speedup: float | None = metric("unprofiled step time over the predicted one")
    basis: str = metric("what is assumed, or why there is no prediction")


@dataclass(frozen=True, repr=False)
class WhatIf:
    """The step as recorded, replayed, without a profiler, and under each scenario."""

    recorded_step_ms: float = metric("mean steady-state step of the recording", "ms")
    replayed_step_ms: float | None = metric(
        "the same from the replay of its causes; null where that is too far off to tell anything", "ms"
    )
    fidelity_error: float = metric("replayed over recorded step time (outliers left out), less 1", "share")
    unprofiled_step_ms: float | None = metric(
        "step time without a profiler: measured with the capture, else estimated; null where it is not known", "ms"
    )
    unprofiled_low_ms: float | None = metric("lower end of its 90 % range", "ms")
    unprofiled_high_ms: float | None = metric("upper end of it", "ms")
    ranks: int = metric("ranks replayed together")
    scenarios: list[Prediction] = metric("scenarios, largest gain first")
    notes: list[str] = metric("what all of them assume")

    def __repr__(self) -> str:
        base = self.recorded_step_ms if self.unprofiled_step_ms is None else self.unprofiled_step_ms
        known = [one for one in self.scenarios if one.step_ms is not None]
        best = f", {known[0].id} {known[0].step_ms:.3g} ms" if known else ""
        return f"<WhatIf: step {base:.3g} ms{best}, {len(self.scenarios)} scenarios>"


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
    """Without the profiler: a fast, the usual and a slow host."""
    replayed_ms: float
    """Step time of the replay as recorded."""
    base_times_ns: list[float]
    """Step time of each rank without the profiler, ns, before it is scaled."""
    measured: UnprofiledTime | None = None
    """The step without the profiler, where the capture has it."""
    hiccups: int = 0
    """Steady steps that are on no tape because they took far longer than the others for no recorded cause."""

    @classmethod
    def of(cls, rated: Rated, measured: UnprofiledTime | None = None, peers: Sequence[Rated] = ()) -> Replay | None:
        """The replay of a process; None where launches or device work were not recorded, or there are no steps.

        Where the step was `measured` without a profiler, the host is made as fast as that says. `peers` are the
        other ranks of its run, replayed with it.
        """
        tapes = make_tapes(rated, peers) if rated.steps.found else ()
        if not tapes:
            return None
        steps = typical_steps(*(tape.source for tape in tapes))
        typical = float(rated.steps.duration[steps].mean()) / NS_PER_MS
        recorded = float(rated.steps.duration[rated.steps.steady].mean()) / NS_PER_MS
        if not 0 < recorded < LONGEST_MS:
            return None
        cheap, usual, dear = _without_profiler(tapes, measured)
        replayed = step_ms(tapes)
        return cls(
            recorded_ms=recorded,
            fidelity_error=replayed / typical - 1.0 if typical else 0.0,
            recorded=tapes,
            cheap=cheap,
            usual=usual,
            dear=dear,
            replayed_ms=replayed,
            base_times_ns=step_times_ns(usual),
            measured=measured,
            hiccups=sum(int(hiccups(tape.source)[tape.source.steps.steady].sum()) for tape in tapes[:1]),
        )

    @property
    def base_ms(self) -> float:
        """Step time without the profiler: measured, else estimated, and then not longer than recorded."""
        return max(self.base_times_ns) / NS_PER_MS * self.scale

    @cached_property
    def scale(self) -> float:
        """What the replay's times are multiplied by, so that it agrees with the stopwatch, else with the recording."""
        base = max(self.base_times_ns) / NS_PER_MS
        if not base:
            return 1.0
        if self.measured is not None:
            return self.measured.step_ms / base
        return min(1.0 / (1.0 + self.fidelity_error), self.recorded_ms / base)

    @property
    def faithful(self) -> bool:
        """Whether the replay of the unchanged recording is near enough to it to predict from."""
        return abs(self.fidelity_error) <= FAITHFUL

    @cached_property
    def range_ms(self) -> tuple[float, float]:
        """The 90 % range of the step without the profiler."""
        base, stopwatch = self.base_ms, self.measured
        spread = (ESTIMATED_SPREAD if stopwatch is None else MEASURED_SPREAD) * base
        fast, slow = (step_ms(tapes) * self.scale for tapes in (self.cheap, self.dear))
        low, high = base - math.hypot(max(base - fast, 0.0), spread), base + math.hypot(max(slow - base, 0.0), spread)
        return (low, high) if stopwatch is None else (min(low, stopwatch.low_ms), max(high, stopwatch.high_ms))

    def gain_ms(self, scenario: Scenario) -> float:
        """What a scenario saves of the step without the profiler, ms; 0 where it is not predicted."""
        step = self.step_under_ms(scenario)
        return 0.0 if step is None else max(self.base_ms - step, 0.0)

    def cautious_gain_ms(self, scenario: Scenario) -> float:
        """What a scenario saves by its cautious reading, ms; 0 where that is not predicted."""
        if scenario.cautious is None:
            return self.gain_ms(scenario)
        step = self._step_ms(scenario, scenario.cautious, self.usual, LIMITED_DUTY)
        return 0.0 if step is None else max(self.base_ms - step, 0.0)

    def gain_of_fast_host_ms(self, scenario: Scenario) -> float:
        """What a scenario saves by its cautious reading where the host is as fast as it may be, ms; 0 where that is not
        predicted."""
        step = self._step_ms(scenario, scenario.cautious or scenario.change, self.cheap, LIMITED_DUTY)
        return 0.0 if step is None else max(self.fast_host_ms - step, 0.0)

    @cached_property
    def fast_host_ms(self) -> float:
        """The step without the profiler where the host is as fast as it may be."""
        return step_ms(self.cheap) * self.scale

    def step_under_ms(self, scenario: Scenario) -> float | None:
        """The step time under a scenario; None where the recording does not say what it needs."""
        if scenario not in self._known:
            step = self._step_ms(scenario, scenario.change, self.usual, LIMITED_DUTY)
            self._known[scenario] = step if step is None or scenario.may_cost else min(step, self.base_ms)
        return self._known[scenario]

    @cached_property
    def _known(self) -> dict[Scenario, float | None]:
        """Step times under the scenarios that were asked for."""
        return {}

    def predict(self, scenario: Scenario) -> Prediction:
        """The step time under a scenario; not longer than without it, unless it can cost something."""
        step = self.step_under_ms(scenario)
        if step is None:
            return Prediction(scenario.id, None, None, None, None, scenario.missing)
        low = self._step_ms(scenario, scenario.hopeful or scenario.change, self.cheap, ALWAYS) or step
        high = self._step_ms(scenario, scenario.cautious or scenario.change, self.dear, CAUTIOUS_DUTY) or step
        spread = math.hypot(SCENARIO_SPREAD * step, gain_spread(scenario.id) * (self.base_ms - step))
        high = step + math.hypot(max(high - step, 0.0), spread)
        spread = min(spread, max((1.0 - LEAST_OF_STEP) * step, GAIN_SPREAD * (self.base_ms - step)))
        return Prediction(
            id=scenario.id,
            step_ms=step,
            low_ms=max(step - math.hypot(max(step - low, 0.0), spread), 0.0),
            high_ms=high if scenario.may_cost else min(high, self.range_ms[1]),
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
        times = times if lower is None else step_times_ns(lower)
        if scenario.hides is not None:
            least = least_times_ns(tapes, changed, scenario.hides, rest=not scenario.parts)
            times = [max(pair) for pair in zip(times, least, strict=True)]
        return scenario.step_of_run(times) / NS_PER_MS * self.scale

    @cached_property
    def duty(self) -> list[float]:
        """Share of each rank's step, without the profiler, in matrix kernels on tensor cores."""
        return duties(self.usual, self.base_times_ns)

    def what_if(self, more: Sequence[Scenario] = ()) -> WhatIf:
        """All predictions, `more` scenarios (instead of those of the same name) and combinations of the best few
        included; none of an unfaithful replay."""
        if not self.faithful:
            return self._unknown(more)
        wanted = {scenario.id: scenario for scenario in (*SCENARIOS, *more)}
        predictions = [self.predict(scenario) for scenario in wanted.values()]
        predictions += self._combinations({p.id: p.step_ms for p in predictions if p.step_ms is not None})
        return WhatIf(
            recorded_step_ms=self.recorded_ms,
            replayed_step_ms=self.replayed_ms,
            fidelity_error=self.fidelity_error,
            unprofiled_step_ms=self.base_ms,
            unprofiled_low_ms=self.range_ms[0],
            unprofiled_high_ms=self.range_ms[1],
            ranks=len(self.recorded),
            scenarios=sorted(predictions, key=lambda p: float("inf") if p.step_ms is None else p.step_ms),
            notes=self._notes(),
        )

    def _unknown(self, more: Sequence[Scenario]) -> WhatIf:
        """What can be said where the replay of the unchanged recording is not near it."""
        nothing = [Prediction(s.id, None, None, None, None, UNFAITHFUL) for s in (*SCENARIOS, *more)]
        known = self.measured
        return WhatIf(
            recorded_step_ms=self.recorded_ms,
            replayed_step_ms=None,
            fidelity_error=self.fidelity_error,
            unprofiled_step_ms=None if known is None else known.step_ms,
            unprofiled_low_ms=None if known is None else known.low_ms,
            unprofiled_high_ms=None if known is None else known.high_ms,
            ranks=len(self.recorded),
            scenarios=nothing,
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
    tapes: tuple[Tape, ...], measured: UnprofiledTime | None
) -> tuple[tuple[Tape, ...], tuple[Tape, ...], tuple[Tape, ...]]:
    """The tapes with the profiler's cost taken out of the host's time: a fast, the usual and a slow host."""
    low, high = 1.0 - HOST_SPREAD, 1.0 + HOST_SPREAD
    if measured is not None:
        tapes = _with_empty_queue(tapes, measured.step_ms)
        share, own = fitted(tapes, measured.step_ms)
        low_share, high_share = share * low, share * high
    else:
        share, spread = _usual_share(tapes[0].source.trace)
        own, low_share, high_share = 1.0, share - spread, share + spread
    cheap = host_scaled(tapes, low_share, own * low)
    return cheap, host_scaled(tapes, share, own), host_scaled(tapes, high_share, own * high)


def _with_empty_queue(tapes: tuple[Tape, ...], measured_ms: float) -> tuple[Tape, ...]:
    """The tapes with waits for batches that are as long as in the timed steps, where workers bring them: their queue
    fills while the recorder starts, and recorded steps take from it what timed ones had to wait for."""
    first = tapes[0]
    if not first.source.trace.fed_by_workers or not first.loading.any():
        return tapes
    missing_ms = measured_ms - step_ms(host_scaled(tapes, _usual_share(first.source.trace)[0]))
    if missing_ms <= FIT_TOLERANCE * measured_ms:
        return tapes
    longer = 1.0 + missing_ms / _long_work_ms(tapes)
    return tuple(replace(one, loading=_scaled(one.loading, longer)) for one in tapes)


def _usual_share(trace: Trace) -> tuple[float, float]:
    """Share of the recorded dispatch that is left without the profiler, and how far it is from that in nine of ten
    recordings."""
    if not trace.operators_slowed:
        return DISPATCH_SHARE_OF_CALLS, DISPATCH_RANGE_OF_CALLS
    return DISPATCH_SHARE_WITH_STACKS if trace.collected.stacks else DISPATCH_SHARE, DISPATCH_RANGE


def fitted(tapes: tuple[Tape, ...], measured_ms: float) -> tuple[float, float]:
    """Shares of the dispatch, and of the host's own work, with which the replay takes about as long as was measured.

    Many hosts lead to the same step where the GPU bounds it: of those the mean, as likely as shares of the dispatch
    are in other recordings. A host that is only not slower than the GPU is faster than usual. Loading, and other long
    work of the host, takes another time in another run, and what it is off by says nothing of the dispatch.
    """
    off = FIT_TOLERANCE * measured_ms + LOADING_SPREAD * _long_work_ms(tapes)
    low, high = max(measured_ms - off, 0.0), measured_ms + off

    def takes(share: float) -> float:
        return step_ms(host_scaled(tapes, share))

    fastest = takes(LEAST_SHARE)
    if fastest > high:
        return LEAST_SHARE, _bisected(lambda own: step_ms(host_scaled(tapes, LEAST_SHARE, own)) <= high, 0.0, 1.0)
    slowest = takes(1.0)
    if slowest < low:
        return 1.0, 1.0
    least = LEAST_SHARE if fastest >= low else _bisected(lambda one: takes(one) < low, LEAST_SHARE, 1.0)
    most = 1.0 if slowest <= high else _bisected(lambda one: takes(one) <= high, least, 1.0)
    usual, within = _usual_share(tapes[0].source.trace)
    return _mean_between(usual, within / OF_RANGE, least, most), 1.0


def _long_work_ms(tapes: tuple[Tape, ...]) -> float:
    """Host time on input data and in other long work, ms a step, of the rank with most of it."""
    return max(_long_work_ns(one) / one.steps for one in tapes) / NS_PER_MS


def _long_work_ns(tape: Tape) -> float:
    work = np.append(tape.work, tape.tail[1])
    return float(tape.loading.sum()) + tape.tail[2] + float(work[work >= LONG_WORK_NS].sum())


def _mean_between(mean: float, deviation: float, low: float, high: float) -> float:
    """The mean of a normal distribution's part between two values."""
    curve = NormalDist(mean, deviation)
    part = curve.cdf(high) - curve.cdf(low)
    if part < TAIL:
        return min(max(mean, low), high)
    return min(max(mean + deviation**2 * (curve.pdf(low) - curve.pdf(high)) / part, low), high)


def _bisected(holds: Callable[[float], bool], low: float, high: float) -> float:
    """About the number of the range up to which it holds."""
    for _ in range(FIT_ROUNDS):
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def host_scaled(tapes: tuple[Tape, ...], dispatch: float, own: float = 1.0) -> tuple[Tape, ...]:
    """The tapes without the profiler, if these shares of the dispatch and of the host's own work (Python, loading) are
    left."""
    return tuple(
        replace(
            tape,
            dispatch=_scaled(tape.dispatch, dispatch),
            reading=_scaled(tape.reading, dispatch),
            work=_scaled(tape.work, own),
            loading=_scaled(tape.loading, own),
            profiling=np.zeros_like(tape.profiling),
            tail=(round(tape.tail[0] * dispatch), round(tape.tail[1] * own), round(tape.tail[2] * own), 0),
        )
        for tape in tapes
    )


def _scaled(times: I64, share: float) -> I64:
    result: I64 = np.rint(times * share).astype(np.int64)
    return result
