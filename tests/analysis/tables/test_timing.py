"""Step times as a measurement, and what the diagnosis makes of a run of which only they are
known."""

from dataclasses import replace

import numpy as np
import pytest

from traceanalyzer.analysis.tables.timing import UnprofiledTime, timing_stats, unprofiled_time
from traceanalyzer.analysis.time.regularity import drift, outliers, two_modes
from traceanalyzer.report.build import build_report
from traceanalyzer.trace import Run, StepTimings, Trace

MS = 1_000_000
RNG = np.random.default_rng(7)


def steady(count=200, ms=100.0, spread=0.02):
    return RNG.normal(ms, spread * ms, count) * MS


def table(duration, **columns):
    duration = np.asarray(duration).astype(np.int64)
    start = np.concatenate(([0], np.cumsum(np.maximum(duration, 0))[:-1]))
    return StepTimings.from_columns(
        {"step": np.arange(len(duration)), "start": start, "duration": duration, **columns}
    )


def report(duration, **columns):
    trace = Trace("steps.jsonl", "timing_log", [], step_timings=table(duration, **columns))
    return build_report(Run((trace,)))


def finding(result, name):
    return next((f for f in result.findings if f.id == name), None)


def test_a_step_without_the_profiler_is_the_captures_else_that_of_the_log_given_with_it():
    trace = Trace("trace.json", "kineto", [])
    log = table([90 * MS, *[100 * MS] * 19, 0])
    assert unprofiled_time(trace) is None
    assert unprofiled_time(replace(trace, step_timings=log)).step_ms == 100.0
    timed = replace(trace, step_timings=log, unprofiled_step_ns=70.0 * MS)
    assert unprofiled_time(timed) == UnprofiledTime(70.0, 70.0, 70.0)


@pytest.mark.parametrize(
    "noise", [RNG.normal(100, 3, 500), RNG.uniform(90, 110, 500), RNG.exponential(5, 500) + 100]
)
def test_noise_is_neither_a_drift_nor_two_kinds(noise):
    assert two_modes(noise) is None
    assert abs(drift(noise)) < 0.03


def test_noise_around_a_mean_has_no_outliers():
    assert not outliers(RNG.normal(100, 3, 5000)).any()


def test_drift_is_the_change_over_the_log():
    time = np.linspace(100, 120, 400) * RNG.normal(1, 0.01, 400)
    time[::50] *= 5
    assert drift(time) == pytest.approx(0.2 / 1.1, abs=0.02)
    assert drift(time[::-1]) == pytest.approx(-0.2 / 1.1, abs=0.02)


def test_few_steps_tell_no_drift():
    assert drift(np.arange(1.0, 20.0)) is None
    assert two_modes(np.array([1.0, 2.0] * 9)) is None


def test_outliers_are_not_a_second_kind():
    time = steady()
    time[[20, 90, 150]] *= 4
    stats = timing_stats(table(time))
    assert stats.outliers == 3
    assert stats.outlier_excess_share == pytest.approx(9 / 209, rel=0.05)
    assert stats.fast_mode_ms is None


def test_two_kinds_are_not_outliers():
    time = np.where(np.arange(200) % 4 == 0, 150.0, 100.0) * RNG.normal(1, 0.02, 200) * MS
    time[7] = 900 * MS
    stats = timing_stats(table(time))
    assert stats.fast_mode_ms == pytest.approx(100, rel=0.02)
    assert stats.slow_mode_ms == pytest.approx(150, rel=0.02)
    assert stats.slow_steps_share == pytest.approx(0.25, abs=0.01)
    assert stats.outliers == 1


def test_equal_steps_have_no_spread_to_divide_by():
    stats = timing_stats(table([5 * MS] * 50))
    assert (stats.outliers, stats.fast_mode_ms, stats.drift_share) == (0, None, 0.0)


def test_warmup_is_left_out():
    stats = timing_stats(table([9000 * MS, 500 * MS, *[100 * MS] * 10]))
    assert (stats.steps, stats.median_ms) == (10, 100)


def test_throughput_from_counts_else_as_logged():
    counted = timing_stats(
        table([100 * MS] * 4, samples=[32] * 4, tokens=[4096] * 4, tokens_per_s=[1.0] * 4)
    )
    assert counted.samples_per_s == pytest.approx(320)
    assert counted.tokens_per_s == pytest.approx(40960)
    logged = timing_stats(table([-1] * 3, tokens_per_s=[10.0, 20.0, -1.0], mfu=[0.4, 0.5, -1.0]))
    assert (logged.tokens_per_s, logged.mfu, logged.median_ms, logged.samples_per_s) == (
        15.0,
        0.45,
        None,
        None,
    )


def test_no_log_no_figures():
    assert timing_stats(StepTimings.empty()) is None


def test_waiting_for_data_is_an_input_bottleneck_from_half_of_the_step_on():
    slow = report(steady(), data=np.full(200, 60 * MS))
    assert slow.summary.bottleneck == "input"
    assert "60%" in slow.summary.headline
    assert slow.findings[0].id == "slow-input"
    assert slow.findings[0].headroom_ms == pytest.approx(60)
    assert slow.recommendations[0].predicted_step_ms == pytest.approx(40, rel=0.02)


def test_waiting_for_data_is_a_finding_from_a_sixth_of_the_step_on():
    slow = report(steady(), data=np.full(200, 40 * MS))
    assert slow.summary.bottleneck == "inconclusive"
    assert "40%" in slow.summary.headline
    assert slow.findings[0].id == "slow-input"
    assert slow.findings[0].headroom_ms == pytest.approx(40)
    assert slow.recommendations[0].predicted_step_ms == pytest.approx(60, rel=0.02)
    assert report(steady(), data=np.full(200, 15 * MS)).findings == []


def test_step_times_alone_do_not_tell_why():
    result = report(steady())
    assert result.summary.bottleneck == "inconclusive"
    assert result.summary.confidence == 0
    assert "do not tell why" in result.summary.headline
    assert result.metrics.step_source == "timing_log"
    assert result.metrics.step_time_ms.count == 200
    assert result.metrics.budget_ms is None
    assert result.findings == []


def test_a_log_without_times_has_no_steps():
    result = report([-1] * 5, tokens_per_s=[1000.0] * 5)
    assert (result.metrics.step_source, result.metrics.step_time_ms) == ("none", None)
    assert "1,000 tokens/s" in result.summary.headline


def test_outliers_two_kinds_and_drift_are_findings():
    spiked = steady()
    spiked[30::40] *= 3
    assert finding(report(spiked), "slow-outliers").headroom_ms == pytest.approx(5, rel=0.1)
    kinds = report(np.where(np.arange(200) % 2 == 0, 150.0, 100.0) * MS)
    assert finding(kinds, "two-kinds-of-steps").headroom_ms == pytest.approx(25)
    drifting = finding(report(np.linspace(100, 130, 200) * MS), "drift")
    assert (drifting.severity, drifting.headroom_ms) == ("info", None)


def test_headroom_is_counted_once():
    time = np.where(np.arange(200) % 2 == 0, 150.0, 100.0) * MS
    time[::50] = 2000 * MS
    result = report(time, data=np.full(200, 60 * MS))
    assert sum(f.headroom_ms or 0 for f in result.findings) <= result.metrics.step_time_ms.mean


def test_checkpoints_do_not_hide_that_steps_are_of_two_kinds():
    time = steady(300)
    time[::4] *= 2
    time[30::60] *= 8
    fast, slow, share = two_modes(time)
    assert (fast, slow, share) == pytest.approx((100 * MS, 200 * MS, 0.25), rel=0.05)
    assert timing_stats(table(time)).outliers == 5


def test_a_kind_of_steps_may_be_many_times_slower():
    time = steady(300)
    time[::8] *= 6
    fast, slow, _ = two_modes(time)
    assert (fast, slow) == pytest.approx((100 * MS, 600 * MS), rel=0.05)


def test_times_spread_between_two_are_not_two_kinds():
    """Half of the steps are fast, the others take anything up to five times as long."""
    time = steady(300)
    time[::2] *= np.linspace(1.2, 5.0, 150)
    assert two_modes(time) is None
