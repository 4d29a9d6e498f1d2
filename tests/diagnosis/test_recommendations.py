"""Which remedies are worth recommending."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import traceanalyzer as ta
from traceanalyzer.diagnosis.diagnose import diagnose
from traceanalyzer.diagnosis.finding import Recommendation
from traceanalyzer.diagnosis.measurements import measure
from traceanalyzer.diagnosis.recommend import _is_said
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
        assert one.together is not None
        assert one.together.remedies == ["remove_syncs"]
        assert one.together.low_ms < one.together.step_ms < one.together.high_ms
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


@pytest.mark.parametrize(
    "sample", ["launch_bound", "sync_bound", "transfer_bound", "host_bound", "input_bound"]
)
def test_what_cannot_be_replayed_is_not_predicted(sample: str) -> None:
    m = measure(load([SAMPLES / sample]).traces[0])
    assert m.replay is not None
    m.__dict__["replay"] = replace(m.replay, fidelity_error=0.2)
    assert m.unprofiled_time is not None
    advice = diagnose(m).recommendations
    assert advice
    assert [one.predicted_step_ms for one in advice] == [None] * len(advice)


@pytest.mark.parametrize(("sample", "captured"), [("cuda_graph", True), ("launch_bound", False)])
def test_what_is_in_a_graph_is_not_to_be_captured(sample: str, captured: bool) -> None:
    m = measure(load([SAMPLES / sample]).traces[0])
    assert (cuda_graph.offer(m) is None) is captured


def test_a_change_of_known_gain_is_not_said_again_without_one() -> None:
    known = Recommendation("straggler", "host", "Fix rank 1.", 5.0, 2.0, "", "fix_straggler")
    bare = Recommendation("straggler", "host", "Find what holds up.", None, None, "", known.remedy)
    other = replace(bare, id="exposed-communication", remedy="overlap_communication")

    assert _is_said(bare, [known])
    assert not _is_said(other, [known])
    assert not _is_said(bare, [])  # a rank that idles has advice, although nothing is promised
