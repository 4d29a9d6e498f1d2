"""Recordings that cannot tell why the GPU was idle."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.analysis.build import US, TraceBuilder
from traceanalyzer.analysis.causes.causes import Causes
from traceanalyzer.analysis.causes.details import IdleDetail
from traceanalyzer.analysis.causes.doubts import out_of_order_share, outlasted_share
from traceanalyzer.analysis.causes.idle_cause import IdleCause
from traceanalyzer.diagnosis.classify import classify
from traceanalyzer.diagnosis.diagnose import diagnose
from traceanalyzer.diagnosis.measurements import Measurements, measure

KERNELS = 20


def steps(*, wait_us: float = 0.0, early_us: float = 0.0, swapped: bool = False) -> Measurements:
    """Four steps of kernels of 100 us, launched every 10: each ends with a wait of at least
    `wait_us`, and device times are so much too early, or in pairs the wrong way around."""
    b = TraceBuilder()
    number = 0
    for step in range(4):
        begin = step * 11_000.0
        for i in range(KERNELS):
            number += 1
            b.call("cudaLaunchKernel", begin + 10 * i, begin + 10 * i + 5, number)
            place = i ^ 1 if swapped else i
            start = begin + 10 + 100 * place - early_us
            b.kernel("gemm", start, start + 99, number, stream=7)
        end = begin + 10 + 100 * KERNELS
        b.call("cudaStreamSynchronize", begin + 300, end + wait_us)
        b.op(f"ProfilerStep#{step}", begin, end + wait_us + 10, kind=2)
    return measure(b.build())


def test_an_ordinary_recording_is_not_doubted() -> None:
    m = steps()
    assert m.doubt == ""
    assert m.clocks_apart_ns == 0
    assert out_of_order_share(m.started) == 0.0


def test_a_wait_that_outlasts_all_recorded_work_waits_for_what_is_missing() -> None:
    m = steps(wait_us=8_000)
    assert outlasted_share(m.started) > 0.3
    assert "GPU work that is not in the recording" in m.doubt
    summary = classify(m)
    assert summary.bottleneck == "inconclusive"
    assert "GPU work that is not in the recording" in summary.headline
    assert summary.basis == "recorded"
    assert [one.predicted_step_ms for one in diagnose(m).recommendations] == []
    causes: Causes = m.causes
    missing = causes.gaps.detail == IdleDetail.MISSING
    assert missing.sum() >= 3
    assert set(causes.gaps.cause[missing].tolist()) == {int(IdleCause.OTHER)}


def test_kernels_before_their_launches_are_moved_and_predict_nothing() -> None:
    m = steps(early_us=5_000)
    assert m.clocks_apart_ns == pytest.approx(5_000 * US, abs=100 * US)
    assert "before their launches" in m.doubt
    plain = steps()
    assert m.budget is not None
    assert plain.budget is not None
    assert m.budget.compute == pytest.approx(plain.budget.compute)
    assert m.faithful_replay is None
    assert m.unprofiled is None


def test_a_single_early_kernel_is_no_other_clock() -> None:
    trace = steps().trace
    ops = trace.device_ops
    start = ops.start.copy()
    start[-1] -= 5_000 * US
    early = measure(replace(trace, device_ops=replace(ops, start=start)))
    assert early.clocks_apart_ns == 0


def test_device_times_out_of_the_order_of_their_stream_are_not_used() -> None:
    m = steps(swapped=True)
    assert out_of_order_share(m.started) > 0.3
    assert "behind kernels that their stream was given later" in m.doubt
    assert classify(m).bottleneck == "inconclusive"
