"""Steps that were timed but were not steady: what they say where the recording cannot be replayed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.analysis.build import TraceBuilder
from traceanalyzer.diagnosis.measurements import Measurements, measure
from traceanalyzer.trace.circumstances import LightRecording, Stopwatch

MS = 1_000_000
UNSTEADY = Stopwatch(2 * MS, MS, 3 * MS, steady=False, after_profiler=False, unit=None)


def recorded(
    stopwatch: Stopwatch, light: LightRecording | None = None, *, launches: bool = False
) -> Measurements:
    """Steps of 5 ms with a kernel each, whose launches are recorded or not."""
    b = TraceBuilder()
    for i in range(6):
        at = 1000 + 5000 * i
        b.annotation(f"ProfilerStep#{i}", at, at + 5000)
        number = i + 1 if launches else -1
        if launches:
            b.call("cudaLaunchKernel", at + 1, at + 3, number)
        b.kernel("k", at + 5, at + 1500, number, stream=7)
    return measure(replace(b.build(), stopwatch=stopwatch, light=light))


def test_they_stand_for_the_step_where_nothing_can_be_replayed() -> None:
    m = recorded(UNSTEADY)
    assert m.replay is None
    assert m.step.basis == "unprofiled"
    assert m.unprofiled is not None
    known = (m.unprofiled.low_ms, m.unprofiled.step_time_ms, m.unprofiled.high_ms)
    assert known == pytest.approx((1.0, 2.0, 3.0))
    assert m.unprofiled.source == "measured"


def test_a_replay_says_more_of_the_step() -> None:
    m = recorded(UNSTEADY, launches=True)
    assert m.faithful_replay is not None
    assert m.timed_step is None
    assert m.unprofiled is not None
    assert m.unprofiled.source == "estimated"


def test_what_else_speaks_against_them_counts() -> None:
    assert recorded(replace(UNSTEADY, after_profiler=True)).timed_step is None
    assert recorded(replace(UNSTEADY, low_ns=None, high_ns=None)).timed_step is None
    assert recorded(UNSTEADY, LightRecording(MS // 2)).timed_step is None
    assert recorded(replace(UNSTEADY, low_ns=8 * MS, high_ns=9 * MS)).timed_step is None
