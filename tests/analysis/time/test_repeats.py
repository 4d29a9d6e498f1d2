"""What repeats within a step, and which range is the step's."""

from __future__ import annotations

import pytest

from tests.analysis.build import TraceBuilder
from traceanalyzer.analysis.time.repeats import coinciding_range
from traceanalyzer.diagnosis.measurements import Measurements, measure

PERIODS = 10


def periodic(*, within: int, behind: int = 0) -> Measurements:
    """Ten periods of 1 ms that nothing names; a short range lies within so many of them, others
    behind the last."""
    trace = TraceBuilder()
    for i in range(PERIODS):
        at = 1000 * i
        for k, name in enumerate(("gemm", "softmax", "relu")):
            trace.call("cudaLaunchKernel", at + 10 * k, at + 10 * k + 5, correlation=3 * i + k)
            trace.kernel(name, at + 30 + 200 * k, at + 220 + 200 * k, correlation=3 * i + k)
        if i < within:
            trace.annotation(f"sweep {i}", at + 40, at + 41)
    for i in range(behind):
        trace.annotation(f"log {i}", 1000 * PERIODS + i, 1000 * PERIODS + i + 0.5)
    return measure(trace.build())


@pytest.mark.parametrize(("within", "name"), [(PERIODS, "sweep #"), (5, None), (0, None)])
def test_the_range_that_nearly_every_period_holds_is_its_own(within, name):
    m = periodic(within=within)
    last = 1  # without the pause behind it, its length is not recorded
    assert (m.timed.steps.source, len(m.timed.steps)) == ("periodicity", PERIODS - last)
    assert coinciding_range(m.timed) == name


def test_ranges_behind_the_last_period_are_of_none():
    assert coinciding_range(periodic(within=0, behind=PERIODS).timed) is None
