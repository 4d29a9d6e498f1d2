"""Which remedies are worth recommending."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

import traceanalyzer as ta
from traceanalyzer.diagnosis.diagnose import diagnose
from traceanalyzer.diagnosis.measurements import measure
from traceanalyzer.diagnosis.remedies.launches import cuda_graph
from traceanalyzer.ingest import load

SAMPLES = Path(__file__).resolve().parents[2] / "sample_traces"


@pytest.mark.parametrize(("sample", "told"), [("sync_bound", True), ("transfer_bound", False)])
def test_a_change_that_needs_another_first_comes_after_single_ones(sample: str, told: bool) -> None:
    advice = ta.analyze(SAMPLES / sample).recommendations
    both = [a for a in advice if a.remedy == "cuda_graph"]
    assert bool(both) is told
    for one in both:
        assert one.action.startswith("Remove the syncs first")
        assert re.match(r"[\d.]+ → [\d.]+ ms with both, [\d.]+x; ", one.basis)
        (alone,) = [a for a in advice if a.remedy == "remove_syncs"]
        assert advice.index(alone) < advice.index(one)


@pytest.mark.parametrize(
    "sample", ["launch_bound", "input_bound", "transfer_bound", "host_bound", "memory_bound"]
)
def test_what_to_do_first_is_about_the_bottleneck(sample: str) -> None:
    report = ta.analyze(SAMPLES / sample)
    assert report.recommendations[0].cls == report.summary.bottleneck


@pytest.mark.parametrize(
    "sample", ["launch_bound", "input_bound", "sync_bound", "wasteful_kernels"]
)
def test_what_gains_nothing_is_not_recommended(sample: str) -> None:
    report = ta.analyze(SAMPLES / sample)
    assert report.recommendations
    assert all(
        a.predicted_speedup is None or a.predicted_speedup > 1.01 for a in report.recommendations
    )


def test_the_gpus_own_work_is_neither_communication_nor_copies() -> None:
    (busy,) = [f for f in ta.analyze(SAMPLES / "tensor_parallel").findings if f.id == "gpu-busy"]
    shares = {e.where: e.value for e in busy.evidence if e.metric == "share of compute time"}
    assert shares["matrix multiplication"] == pytest.approx(0.948, abs=0.005)
    assert sum(shares.values()) == pytest.approx(1.0)
    assert not any("nccl" in e.where for e in busy.evidence)


@pytest.mark.parametrize("sample", ["launch_bound", "sync_bound", "transfer_bound", "host_bound"])
def test_what_cannot_be_replayed_is_bounded_without_the_profiler(sample: str) -> None:
    m = measure(load([SAMPLES / sample]).traces[0])
    assert m.replay is not None
    m.__dict__["replay"] = replace(m.replay, fidelity_error=0.2)
    assert m.unprofiled_time is not None
    advice = [a for a in diagnose(m).recommendations if a.predicted_step_ms is not None]
    assert advice
    for one in advice:
        assert one.predicted_step_ms is not None
        assert one.predicted_speedup is not None
        assert one.predicted_step_ms * one.predicted_speedup == pytest.approx(
            m.unprofiled_time.step_ms
        )
        assert one.predicted_step_ms < m.unprofiled_time.step_ms
        assert one.basis.startswith("not replayed")


@pytest.mark.parametrize(("sample", "captured"), [("cuda_graph", True), ("launch_bound", False)])
def test_what_is_in_a_graph_is_not_to_be_captured(sample: str, captured: bool) -> None:
    m = measure(load([SAMPLES / sample]).traces[0])
    assert (cuda_graph.offer(m) is None) is captured


@pytest.mark.parametrize("sample", ["launch_bound", "sync_bound", "host_bound", "input_bound"])
def test_without_a_replay_no_more_idle_time_is_won_than_lies_beside_the_work(sample: str) -> None:
    """The profiler makes idle time longer: the headroom in the recording can be more than the step
    without it has."""
    m = measure(load([SAMPLES / sample]).traces[0])
    assert m.replay is not None
    assert m.budget is not None
    m.__dict__["replay"] = replace(m.replay, fidelity_error=0.2)
    working = m.mean_step_ms - m.budget.idle
    idle = {"launch", "sync", "host", "input"}
    predicted = [
        a.predicted_step_ms
        for a in diagnose(m).recommendations
        if a.cls in idle and a.predicted_step_ms
    ]
    assert predicted
    assert min(predicted) >= working - 1e-9
