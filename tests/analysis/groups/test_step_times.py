"""Times of single recorded steps: outliers, two kinds, drift, latency."""

from __future__ import annotations

import numpy as np
import pytest

from tests.analysis.build import TraceBuilder
from tests.recorded import recording
from traceanalyzer import load
from traceanalyzer.analysis.time.regularity import MIN_STEPS, percentile_of
from traceanalyzer.diagnosis.diagnose import diagnose
from traceanalyzer.diagnosis.measurements import Measurements, measure
from traceanalyzer.diagnosis.selection import measured
from traceanalyzer.report.outline import step_facts
from traceanalyzer.trace import OverheadKind


def steps(
    times: list[float],
    busy: list[float] | None = None,
    name: str = "at::native::copy",
    flush: int = -1,
) -> Measurements:
    """A marked step of each length, us, in which one kernel runs for `busy` of it; in step `flush`
    the profiler works while the GPU is idle."""
    b = TraceBuilder()
    now = 1000.0
    for i, time in enumerate(times):
        b.annotation(f"ProfilerStep#{i}", now, now + time)
        b.call("cudaLaunchKernel", now + 1, now + 3, i + 1)
        b.kernel(name, now + 5, now + 5 + (busy[i] if busy else 0.5 * time), i + 1, stream=7)
        if i == flush:
            b.overhead(OverheadKind.PROFILER, now + 0.5 * time + 10, now + time - 1)
        now += time
    return measure(b.build())


def found(m: Measurements) -> set[str]:
    return {finding.id for finding in diagnose(m).findings} & {
        "slow-outliers",
        "two-kinds-of-steps",
        "drift",
    }


def test_few_steps_have_no_percentiles_and_no_regularity() -> None:
    m = steps([100.0] * 4)
    assert m.step_time is not None
    assert m.step_time.count == 4
    assert step_facts.shown_step_time(m.step_time).p95 is None
    assert m.regularity is None


@pytest.mark.parametrize(
    ("count", "q", "known"), [(19, 95, False), (20, 95, True), (99, 99, False), (100, 99, True)]
)
def test_a_percentile_needs_a_value_beyond_it(count: int, q: float, known: bool) -> None:
    time = np.arange(1.0, count + 1)
    value = percentile_of(time, q)
    assert (value is not None) == known
    if value is not None:  # the rank by hand
        rank = q / 100 * (count - 1)
        assert value == pytest.approx(1 + rank)


def test_single_slow_steps() -> None:
    times = [100.0] * 30
    times[12] = 400.0
    m = steps(times)
    assert m.regularity is not None
    assert (m.regularity.steps, m.regularity.outliers) == (30, 1)
    assert m.regularity.outlier_excess_share == pytest.approx(300 / 3300)
    assert found(m) == {"slow-outliers"}
    (finding,) = [f for f in diagnose(m).findings if f.id == "slow-outliers"]
    assert finding.headroom_ms is None
    assert [e.value for e in finding.evidence if e.metric == "slow steps"] == ["ProfilerStep#12"]


def test_a_step_in_which_the_profiler_worked_is_not_slow() -> None:
    times = [100.0] * 30
    times[12] = 400.0
    m = steps(times, [50.0] * 30, flush=12)
    assert m.regularity is not None
    assert m.budgets is not None
    assert m.step_time is not None
    assert m.step_time.max == pytest.approx(0.4)
    assert found(m) <= {"slow-outliers"}
    assert m.regularity.outlier_excess_share < 0.09


def test_two_kinds() -> None:
    m = steps([100.0, 101, 99, 160, 161] * 8)
    assert m.regularity is not None
    assert m.regularity.fast_mode_ms == pytest.approx(0.1)
    assert m.regularity.slow_mode_ms == pytest.approx(0.16, abs=0.001)
    assert m.regularity.slow_steps_share == pytest.approx(0.4)
    assert found(m) == {"two-kinds-of-steps"}


def test_a_host_that_slows_under_the_profiler_is_no_drift() -> None:
    rising = [100.0 + 2 * i for i in range(40)]
    hosts = steps(rising, [40.0] * 40)
    assert hosts.regularity is not None
    assert hosts.regularity.drift_share == pytest.approx(78 / 139, abs=0.05)
    assert hosts.regularity.busy_drift_share == 0.0
    assert "drift" not in found(hosts)
    gpus = steps(rising, [t - 10 for t in rising])
    assert gpus.regularity is not None
    assert gpus.regularity.busy_drift_share == pytest.approx(78 / 139, abs=0.05)
    assert "drift" in found(gpus)


def test_latency_is_that_of_inference_alone() -> None:
    m = steps([100.0] * MIN_STEPS)
    assert m.latency is not None
    assert (m.latency.requests, m.latency.mean_ms, m.latency.p99_ms) == (
        MIN_STEPS,
        pytest.approx(0.1),
        None,
    )
    assert m.latency.p95_ms == pytest.approx(0.1)
    assert steps([100.0] * MIN_STEPS, name="multi_tensor_apply_kernel").latency is None
    assert steps([100.0] * MIN_STEPS, name="at::native::clamp::{lambda()#1}").latency is not None


def test_latency_of_a_recording_by_hand() -> None:
    m = measured(load(str(recording("kineto/tiny_mlp_infer.base")))).critical
    assert m.latency is not None
    ops = m.trace.device_ops
    chosen = m.timed.steps
    times = []
    for i in range(chosen.warmup, len(chosen)):
        mine = [int(e) for e, of in zip(ops.end, chosen.of_op, strict=True) if of == i]
        times.append((max([*mine, int(chosen.end[i])]) - int(chosen.host_start[i])) / 1e6)
    assert m.latency.mean_ms == pytest.approx(sum(times) / len(times))
    assert m.latency.max_ms == pytest.approx(max(times))
