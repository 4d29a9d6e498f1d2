"""Whatever was recorded, predictions are numbers, or are not made."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from hypothesis import given

from tests.analysis.test_any_trace import any_rows, measure_rows
from tests.examples import tried
from traceanalyzer.diagnosis.measurements import measure
from traceanalyzer.replay.scenario import buckets_of, faster
from traceanalyzer.replay.whatif import Replay
from traceanalyzer.trace import Process


@tried(2)
@given(any_rows, any_rows)
def test_predictions_of_any_ranks_are_numbers(first: Any, second: Any) -> None:
    traces = [measure_rows(rows).trace for rows in (first, second)]
    ranks = [replace(t, process=Process(rank=rank, world_size=2)) for rank, t in enumerate(traces)]
    one, other = (measure(t).rated for t in ranks)
    replay = Replay.of(one, None, [other])
    if replay is None:
        return
    assert math.isfinite(replay.fidelity_error)
    for p in replay.what_if([faster("gemm|mm", 2), buckets_of(25)]).scenarios:
        if p.step_ms is None:
            assert p.low_ms is p.high_ms is p.speedup is None
        else:
            assert p.low_ms is not None
            assert p.high_ms is not None
            assert 0 <= p.low_ms <= p.step_ms <= p.high_ms < math.inf
