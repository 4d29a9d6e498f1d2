"""A server's first recorded iteration may wait for the one before, which was launched before the recording."""

from __future__ import annotations

import pytest

from tests.analysis.build import TraceBuilder
from traceanalyzer.diagnosis.measurements import Measurements, measure

MARK = "step[DECODE bs={}]"
MS = 1000  # us


def iteration(b: TraceBuilder, number: int, at: float, begins: float, busy: float) -> None:
    """Launched at a time, in us, and on the GPU's main stream at another."""
    b.annotation(MARK.format(number + 4), at, at + 100)
    b.call("cudaGraphLaunch", at + 10, at + 20, number)
    b.kernel("gemm", begins, begins + busy, number, stream=7)


def scheduler(b: TraceBuilder, at: float, busy: float = 5) -> None:
    b.call("cudaLaunchKernel", at + 1, at + 3, 99)
    b.kernel("sample", at + 5, at + 5 + busy, 99, stream=2)


def measured(b: TraceBuilder) -> Measurements:
    return measure(b.build())


def test_the_iteration_begins_when_the_earlier_work_has_ended() -> None:
    b = TraceBuilder()
    scheduler(b, 0)
    iteration(b, 1, 0, begins=400 * MS, busy=10 * MS)
    m = measured(b)
    (row,) = m.iterations
    assert (row.gpu_ops, row.gpu_span_ms, row.gpu_busy_ms) == (1, 10.0, 10.0)
    assert m.mean_step_ms == pytest.approx(10.0)
    assert m.budget is not None
    assert m.budget.idle == pytest.approx(0.0)


def test_iterations_behind_it_are_what_they_were() -> None:
    b = TraceBuilder()
    scheduler(b, 0)
    for i in range(3):
        iteration(b, i + 1, 200 * i, begins=(400 + 10 * i) * MS, busy=9 * MS)
    found = measured(b).iterations
    assert [row.gpu_busy_ms for row in found] == [9.0, 9.0, 9.0]
    assert [row.gpu_span_ms for row in found] == [9.0, 9.0, 9.0]
    assert [row.period_ms for row in found] == [None, 10.0, 10.0]


def late_launch(b: TraceBuilder) -> None:
    """The CPU launches late: that is idle time of this iteration."""
    scheduler(b, 0)
    b.annotation(MARK.format(4), 0, 400 * MS)
    b.call("cudaGraphLaunch", 399_980, 399_990, 1)
    b.kernel("gemm", 400 * MS, 410 * MS, 1, stream=7)


def same_stream(b: TraceBuilder) -> None:
    """The stream had worked before: what it then waits for is not earlier work."""
    scheduler(b, 0)
    b.call("cudaLaunchKernel", 4, 6, 98)
    b.kernel("first", 12, 14, 98, stream=7)
    iteration(b, 1, 0, begins=400 * MS, busy=10 * MS)


def real_work(b: TraceBuilder) -> None:
    """What ran before is a good part of the work: no scheduler's op."""
    scheduler(b, 0, busy=5 * MS)
    iteration(b, 1, 0, begins=400 * MS, busy=10 * MS)


@pytest.mark.parametrize("made", [late_launch, same_stream, real_work])
def test_other_idle_time_stays_the_iterations_own(made: object) -> None:
    b = TraceBuilder()
    made(b)  # type: ignore[operator]
    (row,) = measured(b).iterations
    assert row.gpu_span_ms == pytest.approx(410.0, abs=0.1)
