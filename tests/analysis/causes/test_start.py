"""What bound a device op that started late; each on a trace of a few rows."""

from __future__ import annotations

import pytest

from tests.analysis.build import TraceBuilder
from traceanalyzer.analysis.causes.start import StartBound
from traceanalyzer.diagnosis.measurements import measure


def bound(builder: TraceBuilder) -> tuple[StartBound, str | None]:
    """What bound the last op, and the name of the op that it waited for."""
    m = measure(builder.build())
    by = m.started.bindings.by[-1]
    op = int(m.started.bindings.op[-1])
    return StartBound(by), m.trace.strings[m.trace.device_ops.name[op]] if op >= 0 else None


def late(beside_ends: float) -> TraceBuilder:
    """An op launched at 30 us that starts at 500; on another stream one ran from 10 us on."""
    b = TraceBuilder()
    b.call("cudaLaunchKernel", 0, 4, 1).kernel("beside", 10, beside_ends, 1, stream=8)
    return b.call("cudaLaunchKernel", 30, 34, 2).kernel("late", 500, 510, 2, stream=7)


@pytest.mark.parametrize("ends", [450, 700])
def test_an_op_that_is_late_waited_for_the_one_beside_it(ends: float) -> None:
    assert bound(late(ends)) == (StartBound.DEPENDENCY, "beside")


def test_one_that_had_ended_before_all_was_ready_holds_nobody() -> None:
    assert bound(late(20)) == (StartBound.LAUNCH, None)


def test_an_op_that_is_not_late_waits_for_nothing_beside_it() -> None:
    b = TraceBuilder()
    b.call("cudaLaunchKernel", 0, 4, 1).kernel("beside", 10, 38, 1, stream=8)
    b.call("cudaLaunchKernel", 30, 34, 2).kernel("soon", 39, 45, 2, stream=7)
    assert bound(b)[0] == StartBound.LAUNCH


def test_an_op_that_starts_as_its_launch_returns_depends_on_nothing_beside_it() -> None:
    def depends(launched: float) -> list[int]:
        b = TraceBuilder()
        b.call("cudaLaunchKernel", 0, 4, 1).kernel("beside", 10, 38, 1, stream=8)
        b.call("cudaLaunchKernel", launched, launched + 4, 2).kernel("soon", 39, 45, 2, stream=7)
        return measure(b.build()).started.starts.dependencies.awaited.tolist()

    assert depends(33) == [-1, -1], "chance"
    assert depends(15) == [-1, 0]


def test_a_queued_op_waits_for_the_one_before_it_on_its_stream() -> None:
    b = TraceBuilder()
    b.call("cudaLaunchKernel", 0, 4, 1).kernel("before", 10, 100, 1, stream=7)
    b.call("cudaLaunchKernel", 5, 9, 2).kernel("queued", 101, 110, 2, stream=7)
    assert bound(b) == (StartBound.STREAM, "before")


def test_without_a_launch_and_anything_before_it_nothing_binds() -> None:
    assert bound(TraceBuilder().kernel("alone", 10, 20)) == (StartBound.NOTHING, None)


def test_what_an_op_waited_for_was_over_at_its_end_or_with_the_launch() -> None:
    def lag(builder: TraceBuilder) -> int:
        return int(measure(builder.build()).started.bindings.lag[-1])

    assert lag(late(450)) == 50_000
    assert lag(late(700)) == 0, "it ran on"
    assert lag(late(20)) == 470_000, "launched at 30"
    assert lag(TraceBuilder().kernel("alone", 10, 20)) == 0


def test_the_first_op_of_a_stream_says_nothing_of_what_a_launch_takes() -> None:
    b = TraceBuilder()
    for n, start in enumerate((77_000, 77_101, 77_202)):
        b.call("cudaLaunchKernel", 10 * n, 10 * n + 4, n)
        b.kernel("queued", start, start + 100, n, stream=7)
    starts = measure(b.build()).started.starts
    assert starts.latency.tolist() == [8_000] * 3, "it waited for work that was not recorded"
