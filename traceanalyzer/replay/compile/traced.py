"""A trace of the same program, as the measurements of its compiled code need it."""

from __future__ import annotations

from traceanalyzer.analysis.roofline.rated import Rated
from traceanalyzer.base.frozen import dataclass
from traceanalyzer.replay.changes.edits import Change
from traceanalyzer.replay.compile.regions import CompiledCode
from traceanalyzer.replay.scenarios import Scenario
from traceanalyzer.replay.whatif import Prediction, Replay
from traceanalyzer.trace import Bool

HOST_SPREAD = 0.2
"""Rounds of steps of one process, seconds apart, differ by so much where the host sets the pace (H200 hosts)."""
Range = tuple[float | None, float | None, float | None]
"""Expected, least, most."""


@dataclass(frozen=True, eq=False)
class Traced:
    """A trace with its joins, its replay and its compiled code."""

    rated: Rated
    replay: Replay | None
    code: CompiledCode

    @property
    def steady(self) -> Bool:
        """Which device ops are of the steady steps."""
        return self.rated.timed.steady_ops

    def per_step(self, amount: float) -> float:
        """An amount of all steady steps for one of them."""
        return amount / self.rated.timed.steps.steady_count

    def predict(self, name: str, change: Change, basis: str) -> Prediction | None:
        """The step with a change; None where the replay does not come out as the recording."""
        if self.replay is None or not self.replay.faithful:
            return None
        return self.replay.predict(Scenario(name, change, basis))

    def range_of(self, prediction: Prediction | None) -> Range:
        """A prediction with its range (ms), no narrower than the host's own spread and no longer than the step of
        now."""
        if prediction is None or prediction.step_ms is None:
            return None, None, None
        step = prediction.step_ms
        now = self.replay.base_ms if self.replay is not None else 0.0
        low = min(prediction.low_ms or step, step * (1.0 - HOST_SPREAD))
        high = max(prediction.high_ms or step, min(step * (1.0 + HOST_SPREAD), max(now, step)))
        return step, low, high
