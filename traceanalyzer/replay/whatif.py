"""Predicted step times: the recording replayed, without the profiler's cost, and under each
scenario.

All start from `Replay.base_ms`: the step without the profiler as the capture measured it, else as
the replay has it. What the replay is off by is taken out of each, so none exceeds the base unless
its scenario can cost something."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np

from traceanalyzer.analysis.roofline.rated import Rated
from traceanalyzer.analysis.tables.timing import UnprofiledTime
from traceanalyzer.base import NS_PER_MS, dataclass
from traceanalyzer.replay.host_speed import replay_step_ms, without_profiler
from traceanalyzer.replay.limits import (
    GAIN_SPREAD,
    LIMITED_DUTY,
    PESSIMISTIC_DUTY,
    duties,
    least_times_ns,
    slowed,
)
from traceanalyzer.replay.prediction import Prediction, WhatIf
from traceanalyzer.replay.promise_errors import errors_of
from traceanalyzer.replay.recorded import hiccups, typical_steps
from traceanalyzer.replay.scenario import Scenario, combined
from traceanalyzer.replay.scenarios import COMBINED, INPUT_READY, NO_STRAGGLER, SCENARIOS
from traceanalyzer.replay.simulate import step_times_ns
from traceanalyzer.replay.tape import Change, Tape
from traceanalyzer.replay.together import make_tapes
from traceanalyzer.trace import Bool

FAITHFUL = 0.1
"""A replay that differs more than this from the recording lacks something that matters, and nothing
is told of it; one that differs less is scaled to it."""
MEASURED_SPREAD = 0.05
ESTIMATED_SPREAD = 0.1
"""How far a step that was timed, or estimated, may be off whatever its host does: clocks, memory,
the replay itself."""
SCENARIO_SPREAD = 0.08
"""How far a prediction may be off, to which comes a share of what it gains (`spreads`): scenarios
leave things out. With these about nine in ten stopwatch medians are in their ranges
(docs/accuracy.md)."""
MOST_OF_GAIN = 0.4
"""Share of the predicted step by which what it gains may be off at most: of 37 remedies that were
timed none that left a small part of the step was off by more of it."""
SURE_GAIN = 0.97
"""Share of today's step below which the range of a change ends that gains on every host."""
LEAST_OF_STEP = 0.25
"""No prediction is so far off that the step is shorter than this share of it for what a scenario
leaves out."""
LEAST_DEVICE_WORK = 0.92
"""The same device work takes no less than this share of its recorded time in another run: clocks."""
FASTER_HOST = 1.6
"""A host was up to so many times as fast in another process of the same program."""
MOST_SPEEDUP = 100.0
"""What would leave less of the step than this is the step itself: there is nothing to predict."""
NOTHING_ELSE = "hardly anything of the step would be left: it is nothing but what this removes"
LONGEST_MS = 86.4e6
"""A step of more than a day is damage, and a replay of several would leave 64 bits."""
COMBINED_GAIN = 0.01  # a combination is worth telling if it is better than its parts by this
COMBINED_COUNT = 3
LISTED = {frozenset(one.parts): one.id for one in SCENARIOS if one.parts}
ONE_RANK = (
    "The run has {world} ranks and one of them is replayed: its collectives take as long as recorded, waiting for the "
    "others included, as if these came earlier by as much as this rank does."
)
IDEALS = {"fix_straggler": NO_STRAGGLER, "data_loader_workers": INPUT_READY}
"""Changes that are part of an ideal, and so lead to no shorter step."""
UNFAITHFUL = "the replay of the unchanged recording is too far from it"
TOGETHER = (
    "{ranks} ranks are replayed together: a collective transfers once all of them have arrived."
)
UNLIKE_SHARE = 0.1
"""Prefills and decodes whose sample is further from the mean of all say nothing of that."""


@dataclass(frozen=True, eq=False)
class Replay:
    """The steady steps ready to be replayed: as recorded, and with the profiler's cost taken out.
    Each is the tapes of the ranks that are replayed together, the one that is spoken of first."""

    recorded_ms: float
    fidelity_error: float
    recorded: tuple[Tape, ...]
    fast_host: tuple[Tape, ...]
    typical: tuple[Tape, ...]
    slow_host: tuple[
        Tape, ...
    ]  # these three: without the profiler, with a fast, the usual and a slow host
    replayed_ms: float  # step time of the replay as recorded
    base_times_ns: list[
        float
    ]  # step time of each rank without the profiler, ns, before it is scaled
    # the step without the profiler, where the capture has it
    measured: UnprofiledTime | None = None
    hiccups: int = 0
    """Steady steps that are on no tape because they took far longer than the others for no recorded
    cause."""

    @classmethod
    def of(
        cls, rated: Rated, measured: UnprofiledTime | None = None, peers: Sequence[Rated] = ()
    ) -> "Replay | None":
        """The replay of a process; None where launches or device work were not recorded, or where
        the steps are of unlike kinds and those on the tape do not stand for all. Where the step was
        `measured` without a profiler, the host is made as fast as that says. `peers` are the other
        ranks of its run, replayed with it."""
        steps = rated.timed.steps
        tapes = make_tapes(rated, peers) if steps.known else ()
        if not tapes:
            return None
        all_typical = typical_steps(*(tape.source.causes for tape in tapes))
        typical = float(steps.duration[all_typical].mean()) / NS_PER_MS
        recorded = float(steps.duration[steps.steady].mean()) / NS_PER_MS
        if not 0 < recorded < LONGEST_MS or (
            steps.unlike and abs(typical / recorded - 1.0) > UNLIKE_SHARE
        ):
            return None
        fast, usual, slow = without_profiler(tapes, measured)
        replayed = replay_step_ms(tapes)
        error = replayed / typical - 1.0 if typical else 0.0
        first = tapes[0].source
        left_out = int(hiccups(first.causes)[first.timed.steps.steady].sum())
        return cls(
            recorded,
            error,
            tapes,
            fast,
            usual,
            slow,
            replayed,
            step_times_ns(usual),
            measured,
            left_out,
        )

    @property
    def base_ms(self) -> float:
        """Step time without the profiler: measured, else estimated, and then not longer than
        recorded."""
        return max(self.base_times_ns) / NS_PER_MS * self.scale

    @cached_property
    def scale(self) -> float:
        """What the replay's times are multiplied by, so that it agrees with the stopwatch, else
        with the recording."""
        base = max(self.base_times_ns) / NS_PER_MS
        if self.measured is not None and base:
            return self.measured.step_ms / base
        return min(1.0 / (1.0 + self.fidelity_error), self.recorded_ms / base) if base else 1.0

    @property
    def faithful(self) -> bool:
        """Whether the replay of the unchanged recording is near enough to it to predict from."""
        return abs(self.fidelity_error) <= FAITHFUL

    @cached_property
    def range_ms(self) -> tuple[float, float]:
        """The 90 % range of the step without the profiler."""
        base = self.base_ms
        stopwatch = self.measured
        spread = (ESTIMATED_SPREAD if stopwatch is None else MEASURED_SPREAD) * base
        low = base - math.hypot(max(base - self.fast_host_ms, 0.0), spread)
        high = base + math.hypot(max(self.slow_host_ms - base, 0.0), spread)
        return (
            (low, high)
            if stopwatch is None
            else (min(low, stopwatch.low_ms), max(high, stopwatch.high_ms))
        )

    @cached_property
    def host_slopes(self) -> tuple[float, float]:
        """By which share the step grows for each 100 % that the host takes longer, and shrinks for
        each 100 % less: no more than the host, also where that of another rank sets the pace."""
        base = self.base_ms
        usual = self.typical[0].host_ns
        known = (
            (self.slow_host_ms, self.slow_host[0].host_ns),
            (self.fast_host_ms, self.fast_host[0].host_ns),
        )
        slower, faster = (
            min((time - base) / base * usual / (host - usual), 1.0)
            if base and host != usual
            else 0.0
            for time, host in known
        )
        return slower, faster

    def gain_ms(self, scenario: Scenario) -> float:
        """What a scenario saves of the step without the profiler, ms; 0 where it is not
        predicted."""
        step = self.step_under_ms(scenario)
        return 0.0 if step is None else max(self.base_ms - step, 0.0)

    def pessimistic_gain_ms(self, scenario: Scenario, *, fast_host: bool = False) -> float:
        """What a scenario saves by its pessimistic reading, ms, also where the host is as fast as
        it may be; 0 where that is not predicted."""
        tapes, now = (
            (self.fast_host, self.fast_host_ms) if fast_host else (self.typical, self.base_ms)
        )
        step = self._step_ms(scenario, scenario.pessimistic, tapes, LIMITED_DUTY)
        return 0.0 if step is None else max(now - step, 0.0)

    def slow_host_gain_ms(self, scenario: Scenario) -> float:
        """What is left of a scenario's gain where the changed step meets a host as slow as it may
        be, ms: what the GPU no longer hides; 0 where that is not predicted."""
        step = self._step_ms(scenario, scenario.change, self.slow_host, LIMITED_DUTY)
        return 0.0 if step is None else max(self.base_ms - step, 0.0)

    @cached_property
    def fast_host_ms(self) -> float:
        """The step without the profiler where the host is as fast as it may be."""
        return replay_step_ms(self.fast_host) * self.scale

    @cached_property
    def slow_host_ms(self) -> float:
        """The step without the profiler where the host is as slow as it may be."""
        return replay_step_ms(self.slow_host) * self.scale

    def step_under_ms(self, scenario: Scenario) -> float | None:
        """The step time under a scenario; None where the recording does not say what it needs."""
        return self._under(scenario)[0]

    def kernels_saved_ns(self, scenario: Scenario) -> float | None:
        """By how much a scenario makes the device work of a step shorter, on the rank that is
        spoken of, ns; None where the recording does not say what it needs."""
        return self._under(scenario)[1]

    def saved_by_kernels(self, scenario: Scenario) -> bool | None:
        """Whether device work becomes shorter by at least half of what a scenario gains; None where
        the recording does not say what it needs."""
        saved_ns = self.kernels_saved_ns(scenario)
        return None if saved_ns is None else 2 * saved_ns >= self.gain_ms(scenario) * NS_PER_MS

    @cached_property
    def _known(self) -> dict[Scenario, tuple[float | None, float | None]]:
        return {}

    def _under(self, scenario: Scenario) -> tuple[float | None, float | None]:
        """Step time, ms, and device work that a step has less, ns."""
        if scenario not in self._known:
            step_ms = None
            saved_ns = None
            changed = _changed(scenario.change, self.typical)
            if changed is not None:
                step_ms = self._changed_ms(scenario, changed, self.typical, LIMITED_DUTY)
                step_ms = step_ms if scenario.may_cost else min(step_ms, self.base_ms)
                before = self.typical[0]
                after = changed[0]
                saved_ns = float(before.duration.sum() - after.duration.sum()) / before.steps
            self._known[scenario] = step_ms, saved_ns
        return self._known[scenario]

    @cached_property
    def _predicted(self) -> dict[Scenario, Prediction]:
        return {}

    def predict(self, scenario: Scenario) -> Prediction:
        """The step time under a scenario; not longer than without it, unless it can cost
        something."""
        if scenario not in self._predicted:
            self._predicted[scenario] = self._prediction(scenario)
        return self._predicted[scenario]

    def _prediction(self, scenario: Scenario) -> Prediction:
        step = self.step_under_ms(scenario)
        if step is None:
            lacks = scenario.lacks
            why = scenario.missing if lacks is None else lacks(self.typical[0])
            return _unknown(scenario, why)
        step = max(step, self.base_ms * scenario.least)
        if self.base_ms > MOST_SPEEDUP * step:
            return _unknown(scenario, NOTHING_ELSE)
        low, high = self._range_under(scenario, step)
        return Prediction(
            scenario.id,
            step,
            low,
            high,
            self.base_ms / step if step else 1.0,
            scenario.basis,
            kind=scenario.kind,
        )

    def _range_under(self, scenario: Scenario, step: float) -> tuple[float, float]:
        """The 90 % range of a predicted step. A slow host makes today's step longer, too: what
        gains on every host ends below today's step."""
        base = self.base_ms
        slow = (
            self._step_ms(scenario, scenario.pessimistic, self.slow_host, PESSIMISTIC_DUTY) or step
        )
        on_slow = base * slow / self.slow_host_ms if self.slow_host_ms else slow
        errors = errors_of(scenario.id)
        if errors is None:
            low, high, with_today = self._modelled_range(scenario, step, slow, on_slow)
        else:  # where the changed step waits for the host, by what this host is known to do, too
            low, high = errors.around(step, base, self.compute_ms)
            high = max(high, slow)
            if errors.keeps_device_work:
                low = max(low, self._least_by_device_ms(scenario, step))
            low = max(low, min(self._least_by_ideal_ms(scenario), step))
            if scenario.joins:
                low = max(low, min(self._least_by_one_call_ms(scenario), step))
            with_today = max(step, on_slow)
        if with_today < base:
            high = min(high, max(with_today, SURE_GAIN * base))
        low = max(low, self.range_ms[0] * scenario.least, 0.0)
        return low, high if scenario.may_cost else min(high, self.range_ms[1])

    def _least_by_ideal_ms(self, scenario: Scenario) -> float:
        """The lower end of the ideal that a change is part of; 0 where it is of none."""
        ideal = IDEALS.get(scenario.id)
        return 0.0 if ideal is None else self.predict(ideal).low_ms or 0.0

    def _least_by_device_ms(self, scenario: Scenario, step: float) -> float:
        """What a changed step takes at least where its device works one op at a time, as recorded;
        0 where it does not. What is left of copies that the change itself shortens is no such
        work."""
        changed = _changed(scenario.change, self.typical) or ()
        pairs = list(zip(changed, self.typical, strict=False))
        works = [float(tape.duration.sum()) / tape.steps for tape, _ in pairs]
        if max(works, default=0.0) / NS_PER_MS * self.scale > step:
            return 0.0
        same = [
            float(after.duration[~_shorter_copies(after, before)].sum()) / after.steps
            for after, before in pairs
        ]
        return LEAST_DEVICE_WORK * max(same, default=0.0) / NS_PER_MS * self.scale

    def _least_by_one_call_ms(self, scenario: Scenario) -> float:
        """What a step with one call instead of several takes at least: what it would take if that
        call had no more data than each has now, on the fastest host that this one may turn into."""
        changed = _changed(scenario.change, self.typical) or ()
        pairs = zip(changed, self.typical, strict=False)
        one_call = [
            replace(after, duration=np.minimum(after.duration, before.duration))
            for after, before in pairs
        ]
        times = step_times_ns(one_call, scenario.begin) if one_call else [0.0]
        return scenario.step_of_run(times) / NS_PER_MS * self.scale / FASTER_HOST

    def _modelled_range(
        self, scenario: Scenario, step: float, slow: float, on_slow: float
    ) -> tuple[float, float, float]:
        """Both ends of a scenario that is no remedy, of its other readings on a fast and a slow
        host with what scenarios leave out; and its slow end where today's host is as slow, ms."""
        gain = self.base_ms - step
        # Tensor cores of duty 1 keep the highest clock however busy they are.
        fast = self._step_ms(scenario, scenario.optimistic, self.fast_host, 1.0) or step
        spread = math.hypot(SCENARIO_SPREAD * step, min(GAIN_SPREAD * gain, MOST_OF_GAIN * step))
        below = min(spread, max((1.0 - LEAST_OF_STEP) * step, GAIN_SPREAD * gain))
        low = step - math.hypot(max(step - fast, 0.0), below)
        high = step + math.hypot(max(slow - step, 0.0), spread)
        return low, high, step + math.hypot(max(on_slow - step, 0.0), spread)

    def _step_ms(
        self, scenario: Scenario, reading: Change | None, tapes: Sequence[Tape], limited: float
    ) -> float | None:
        """Step time of these tapes by a reading of a scenario (None: as it is), with clocks that
        are limited from this duty of the tensor cores on; None where it cannot be made."""
        changed = _changed(reading or scenario.change, tapes)
        return None if changed is None else self._changed_ms(scenario, changed, tapes, limited)

    def _changed_ms(
        self, scenario: Scenario, changed: Sequence[Tape], tapes: Sequence[Tape], limited: float
    ) -> float:
        times = step_times_ns(changed, scenario.begin)
        lower = slowed(changed, self.duty, duties(changed, times), limited, scenario.most_slowed)
        times = times if lower is None else step_times_ns(lower, scenario.begin)
        if scenario.hides is not None:
            least = least_times_ns(tapes, changed, scenario.hides, rest=not scenario.parts)
            times = [max(pair) for pair in zip(times, least, strict=True)]
        step = scenario.step_of_run(times) / NS_PER_MS * self.scale
        as_modelled = None if scenario.baseline is None else _changed(scenario.baseline, tapes)
        return (
            step
            if as_modelled is None
            else step * replay_step_ms(tapes) / replay_step_ms(as_modelled)
        )

    @cached_property
    def compute_ms(self) -> float:
        """How long the GPU of the rank that is spoken of computes in a step, one kernel after the
        other, ms."""
        tape = self.typical[0]
        return float(tape.duration[tape.compute].sum()) / tape.steps / NS_PER_MS * self.scale

    @cached_property
    def duty(self) -> list[float]:
        """Share of each rank's step, without the profiler, in matrix kernels on tensor cores."""
        return duties(self.typical, self.base_times_ns)

    def what_if(self, more: Sequence[Scenario] = ()) -> WhatIf:
        """All predictions, `more` scenarios (instead of those of the same name) and combinations of
        the best few included; none of an unfaithful replay."""
        if self.faithful:
            predictions = list(
                map(self.predict, {one.id: one for one in (*SCENARIOS, *more)}.values())
            )
            predictions = _ideals_at_least_as_good(predictions)
            predictions += self._combinations(
                {p.id: p.step_ms for p in predictions if p.step_ms is not None}
            )
            known: tuple[float | None, float | None, float | None] = self.base_ms, *self.range_ms
        else:
            predictions = [_unknown(one, UNFAITHFUL) for one in (*SCENARIOS, *more)]
            timed = self.measured
            known = (
                (None, None, None)
                if timed is None
                else (timed.step_ms, timed.low_ms, timed.high_ms)
            )
        predictions.sort(key=lambda p: float("inf") if p.step_ms is None else p.step_ms)
        replayed = self.replayed_ms if self.faithful else None
        ranks = len(self.recorded)
        notes = self._notes()
        return WhatIf(
            self.recorded_ms, replayed, self.fidelity_error, *known, ranks, predictions, notes
        )

    def _combinations(self, known: dict[str, float]) -> Iterator[Prediction]:
        """The best two and the best three together, where that is better than what is known
        already."""
        least_ms = self.base_ms * (1 - COMBINED_GAIN)
        gaining = [one for one in COMBINED if known.get(one.id, least_ms) < least_ms]
        gains = sorted(gaining, key=lambda one: known[one.id])
        best = min((known[s.id] for s in gains), default=0.0)
        for count in range(2, min(COMBINED_COUNT, len(gains)) + 1):
            together = combined(*(s for s in COMBINED if s in gains[:count]))
            listed = LISTED.get(frozenset(together.parts))
            if listed is not None:
                best = min(best, known.get(listed, best))
                continue
            step_ms = self.step_under_ms(together)
            if step_ms is not None and step_ms < best * (1 - COMBINED_GAIN):
                best = step_ms
                yield self.predict(together)

    def _notes(self) -> list[str]:
        world = self.recorded[0].source.trace.process.world_size or 1
        if len(self.recorded) > 1:
            return [TOGETHER.format(ranks=len(self.recorded))]
        return (
            [ONE_RANK.format(world=world)]
            if world > 1 and self.recorded[0].communication.any()
            else []
        )


def _shorter_copies(changed: Tape, tape: Tape) -> Bool:
    """Copies that a change shortens; none where it makes other ops."""
    if len(changed.row) != len(tape.row):
        return np.zeros(len(changed.row), bool)
    return changed.copy & (changed.duration < tape.duration)


def _ideals_at_least_as_good(predictions: Sequence[Prediction]) -> list[Prediction]:
    """The predictions, ideals no longer than the changes that are part of them: each has its own
    model, and what one of them can reach the ideal can."""
    steps = {one.id: one.step_ms for one in predictions if one.step_ms is not None}
    parts = {ideal.id: steps[change] for change, ideal in IDEALS.items() if change in steps}
    return [_at_most(one, parts.get(one.id)) for one in predictions]


def _at_most(prediction: Prediction, step_ms: float | None) -> Prediction:
    now_ms = prediction.step_ms
    if step_ms is None or now_ms is None or now_ms <= step_ms:
        return prediction
    return replace(
        prediction,
        step_ms=step_ms,
        low_ms=min(prediction.low_ms or step_ms, step_ms),
        speedup=None if prediction.speedup is None else prediction.speedup * now_ms / step_ms,
    )


def _unknown(scenario: Scenario, why: str) -> Prediction:
    """A scenario that is not predicted."""
    return Prediction(scenario.id, None, None, None, None, why, kind=scenario.kind)


def _changed(change: Change, tapes: Sequence[Tape]) -> list[Tape] | None:
    """The tapes that a change makes; None where it cannot be made on one of them."""
    changed = [tape for tape in map(change, tapes) if tape is not None]
    return changed if len(changed) == len(tapes) else None
