"""Steps that were timed but were not steady: what they say where the recording cannot be replayed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.analysis.build import TraceBuilder
from tests.report.reports import full
from traceanalyzer.diagnosis.classify import classify
from traceanalyzer.diagnosis.measurements import Measurements, measure
from traceanalyzer.report.outline.opening import step_sentence, step_times_in_words
from traceanalyzer.report.whole import known_in_brief
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


def test_a_median_far_from_the_replay_stands_before_it() -> None:
    """The replay has 5 ms a step."""
    far = recorded(replace(UNSTEADY, step_ns=40 * MS), launches=True)
    assert far.unsteady_step_ms == pytest.approx(40.0)
    assert "of each replayed step of 5.00 ms" in classify(far).headline
    near = recorded(replace(UNSTEADY, step_ns=6 * MS), launches=True)
    assert near.unsteady_step_ms is None
    steady = recorded(replace(UNSTEADY, step_ns=40 * MS, steady=True), launches=True)
    assert steady.unsteady_step_ms is None


def test_the_screen_begins_with_the_median_and_has_no_rate_of_the_replay() -> None:
    report = full()
    unsteady = replace(report.metrics, unsteady_step_time_ms=40.0, unprofiled_step_time_ms=5.0)
    told = replace(report, metrics=unsteady)
    assert step_times_in_words(told) == "step 40.0 ms timed (unsteady), 5.00 ms replayed"
    assert step_sentence(told).startswith("40.0 ms timed without the profiler, unsteady; 5.00 ms")
    assert "/s" in known_in_brief(report)
    assert "/s" not in known_in_brief(told)
