"""Whether runs with a switch were faster than those without, and by how much."""

import statistics
from collections.abc import Sequence

from traceanalyzer.base import dataclass
from traceanalyzer.trials.result import TrialRun

LEAST_GAIN = 0.01  # of the step: less is within what one process differs from the next
PLAIN_GAIN = 0.05  # so much is plain after one round where the runs do not overlap
MOST_ROUNDS = 3  # of A B B A, where the difference is less plain


@dataclass(frozen=True)
class StepsOfRuns:
    """The step of several runs of one kind, ms: the median of their medians, and their range."""

    ms: float
    low_ms: float
    high_ms: float


@dataclass(frozen=True)
class SwitchEffect:
    """Runs with a switch against runs without."""

    base: StepsOfRuns
    trial: StepsOfRuns
    plain: bool  # whether more rounds would not change the answer

    @property
    def gain(self) -> float:
        """Share of the step that the switch saves; negative where it costs."""
        return 1.0 - self.trial.ms / self.base.ms

    @property
    def apart(self) -> bool:
        """Whether no run of one kind was as fast as one of the other."""
        faster = self.trial.high_ms < self.base.low_ms
        return faster or self.trial.low_ms > self.base.high_ms

    @property
    def faster(self) -> bool:
        """Whether the switch makes the step shorter, beyond what runs differ by."""
        return self.gain >= LEAST_GAIN and self.apart


def steps_of_runs(runs: Sequence[TrialRun]) -> StepsOfRuns:
    """The step of at least one run. A single run has the interval of its own median."""
    times = [run.step_ms for run in runs]
    if len(runs) == 1:
        return StepsOfRuns(times[0], runs[0].low_ms, runs[0].high_ms)
    return StepsOfRuns(statistics.median(times), min(times), max(times))


def compare_runs(
    without: Sequence[TrialRun], with_it: Sequence[TrialRun], rounds: int
) -> SwitchEffect:
    """The runs of `rounds` rounds held together."""
    base = steps_of_runs(without)
    trial = steps_of_runs(with_it)
    found = SwitchEffect(base, trial, plain=False)
    plain = found.apart and abs(found.gain) >= PLAIN_GAIN
    settled = found.apart and rounds > 1
    nothing = abs(found.gain) < LEAST_GAIN
    return SwitchEffect(base, trial, plain or settled or nothing or rounds >= MOST_ROUNDS)
