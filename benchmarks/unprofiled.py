"""The step without the profiler held against the stopwatch: idle share, class by it, and whether
ranges hold.

What is published is what a recording alone leads to: the stopwatch is kept from the analysis.
Ranges are cross-validated, too: how wide one has to be is chosen on all other programs.
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from traceanalyzer.diagnosis.measurements import Measurements
from traceanalyzer.replay.host_speed import replay_step_ms
from traceanalyzer.replay.limits import GAIN_SPREAD
from traceanalyzer.replay.scenario import Scenario
from traceanalyzer.replay.whatif import ESTIMATED_SPREAD, SCENARIO_SPREAD, Replay

PROMISED = 0.9
"""Share of stopwatch medians that ranges promise to hold."""
SPREADS = [spread / 100 for spread in range(2, 31)]


@dataclass(frozen=True)
class Range:
    """A figure with what its host's spread alone makes of it, and what the stopwatch said."""

    workload: str
    value_ms: float
    fast_ms: float
    slow_ms: float
    truth_ms: float
    gain_ms: float = 0.0

    def ends(self, spread: float, of_gain: float = 0.0) -> tuple[float, float]:
        """Its range with this much added in quadrature, as a share of it and of what it gains."""
        more = math.hypot(spread * self.value_ms, of_gain * self.gain_ms)
        below = math.hypot(max(self.value_ms - self.fast_ms, 0.0), more)
        return self.value_ms - below, self.value_ms + math.hypot(
            max(self.slow_ms - self.value_ms, 0.0), more
        )

    def holds(self, spread: float, of_gain: float = 0.0) -> bool:
        """Whether that range holds the stopwatch's median."""
        low, high = self.ends(spread, of_gain)
        return low <= self.truth_ms <= high

    def width(self, spread: float, of_gain: float = 0.0) -> float:
        """Width of that range as a share of the figure."""
        low, high = self.ends(spread, of_gain)
        return (high - low) / self.value_ms


def range_of_step(replay: Replay, workload: str, truth_ms: float) -> Range:
    """The unchanged step's."""
    fast, slow = (
        replay_step_ms(tapes) * replay.scale for tapes in (replay.fast_host, replay.slow_host)
    )
    return Range(workload, replay.base_ms, fast, slow, truth_ms)


def range_of_scenario(
    replay: Replay, scenario: Scenario, workload: str, truth_ms: float
) -> Range | None:
    """A prediction's; None where there is none."""
    step = replay.step_under_ms(scenario)
    fast = [
        tape
        for tape in map(scenario.optimistic or scenario.change, replay.fast_host)
        if tape is not None
    ]
    slow = [
        tape
        for tape in map(scenario.pessimistic or scenario.change, replay.slow_host)
        if tape is not None
    ]
    if step is None or not fast or not slow:
        return None
    low, high = (
        replay_step_ms(tapes, scenario.step_of_run) * replay.scale for tapes in (fast, slow)
    )
    return Range(workload, step, low, high, truth_ms, replay.base_ms - step)


def least_spread(ranges: Sequence[Range], of_gain: float = 0.0) -> float:
    """The least spread with which the promised share of the ranges holds."""
    enough = (
        s for s in SPREADS if sum(r.holds(s, of_gain) for r in ranges) >= PROMISED * len(ranges)
    )
    return next(enough, SPREADS[-1])


def cross_validated_coverage(ranges: Sequence[Range], of_gain: float = 0.0) -> float:
    """Share of the ranges that hold, each with the spread that all other programs need."""
    held = 0
    for workload in {r.workload for r in ranges}:
        spread = least_spread([r for r in ranges if r.workload != workload], of_gain)
        held += sum(r.holds(spread, of_gain) for r in ranges if r.workload == workload)
    return held / len(ranges)


def sentence(what: str, ranges: Sequence[Range], spread: float, of_gain: float = 0.0) -> str:
    """Coverage and width of ranges, as they are and cross-validated."""
    held = sum(r.holds(spread, of_gain) for r in ranges) / len(ranges)
    width = statistics.median(r.width(spread, of_gain) for r in ranges)
    return (
        f"{what}: {held:.0%} of {len(ranges)} ranges hold the stopwatch's median ({width:.0%} wide in the median); "
        f"{cross_validated_coverage(ranges, of_gain):.0%} where the width is chosen on the other programs alone."
    )


def steps_sentence(ranges: Sequence[Range]) -> str:
    """Of the unchanged step."""
    return sentence("Step without the profiler", ranges, ESTIMATED_SPREAD)


def scenarios_sentence(ranges: Sequence[Range]) -> str:
    """Of predictions."""
    return sentence("Predictions", ranges, SCENARIO_SPREAD, GAIN_SPREAD)


def idle_shares(m: Measurements, stopwatch_ms: float) -> tuple[float, float, float] | None:
    """Idle share of the step without the profiler: true (recorded work over the stopwatch),
    estimated from the recording alone, and as recorded; None where it is not known."""
    known = m.unprofiled
    budget = m.budget
    if known is None or budget is None:
        return None
    busy = budget.compute + budget.exposed_communication + budget.exposed_copy
    true = max(1.0 - busy / stopwatch_ms, 0.0)
    return true, known.budget_ms.idle / known.step_time_ms, budget.idle / m.mean_step_ms
