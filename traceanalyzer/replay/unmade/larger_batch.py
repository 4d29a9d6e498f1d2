"""A larger batch: the time of as many samples as now, where the shapes say what goes with the
batch."""

from dataclasses import replace

import numpy as np

from traceanalyzer.analysis.roofline.rated import Rated
from traceanalyzer.replay.changes.loops.repetition import per_sample
from traceanalyzer.replay.scenario import Scenario
from traceanalyzer.replay.tape import Tape, parametric
from traceanalyzer.replay.unmade.dimensions import dimensions_of
from traceanalyzer.replay.unmade.made import PlannedTape, RunPlan, planned
from traceanalyzer.replay.unmade.question import QuestionError
from traceanalyzer.replay.unmade.recorded_sizes import Dimensions
from traceanalyzer.replay.unmade.resized import Sizes


@parametric
def with_larger_batch(tape: Tape, times: int, *, full_cost: bool = False) -> Tape | None:
    """Kernels take what their work at the larger batch does, by the curve that `whatif --batch`
    has; at `full_cost` as many times as long as they have more to do, so that the host's time and the
    work that does not go with the batch are all that is shared. None where the recording does not
    tell what goes with the batch."""
    part = tape.memo(_Planned)[times]
    if part is None:
        return None
    larger = part.tape
    if full_cost and len(larger.row) == len(tape.row):
        growth = np.maximum(part.loads.growth, 1.0)
        at_full_cost = np.rint(tape.duration * growth).astype(np.int64)
        larger = larger.retimed(np.maximum(at_full_cost, larger.duration))
    loading = np.rint(larger.loading / times).astype(np.int64)
    tail = larger.tail._replace(loading=round(larger.tail.loading / times))
    return per_sample(replace(larger, loading=loading, tail=tail), times)


def larger_batch_scenario(times: int, assumes: str = "") -> Scenario:
    """A batch so many times as large, as a scenario that says what it assumes."""
    return Scenario(
        "larger_batch",
        with_larger_batch(times),
        assumes,
        pessimistic=with_larger_batch(times, full_cost=True),
        least=1.0 / times,
    )


class _Planned(dict[int, PlannedTape | None]):
    """A tape with so many times the batch; None where the recording does not tell what goes with the
    batch."""

    def __init__(self, tape: Tape) -> None:
        super().__init__()
        self._tape = tape

    def __missing__(self, times: int) -> PlannedTape | None:
        now = self._tape.source.memo(batch_of)
        self[times] = None if now is None else self._with(now, times)
        return self[times]

    def _with(self, now: Dimensions, times: int) -> PlannedTape | None:
        try:
            return planned(self._tape, RunPlan(Sizes(now, now.batch * times, now.context)))
        except QuestionError:
            return None


def batch_of(rated: Rated) -> Dimensions | None:
    """The recorded batch; None where it cannot be told."""
    try:
        return dimensions_of(rated)
    except QuestionError:
        return None
