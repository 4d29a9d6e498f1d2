"""Odd recordings that a reviewer tried: none may get a confident answer about nothing."""

from __future__ import annotations

import gzip
import json

import pytest

import traceanalyzer
from tests.analysis.build import TraceBuilder
from tests.recorded import ranks, recording
from traceanalyzer.base.errors import SeveralRunsError
from traceanalyzer.diagnosis.measurements import measure
from traceanalyzer.report.build import build_report
from traceanalyzer.trace import Run


def content(name: str) -> bytes:
    return gzip.decompress(recording(f"kineto/{name}").read_bytes())


def test_a_first_step_without_device_work():
    built = TraceBuilder()
    for i in range(3):
        built.annotation(f"ProfilerStep#{i}", 100 * i, 100 * i + 100)
    for i in (1, 2):
        built.call("cudaLaunchKernel", 100 * i + 10, 100 * i + 15, correlation=i)
        built.kernel("gemm", 100 * i + 20, 100 * i + 60, correlation=i)
    built.kernel("gemm", 5, 8)
    steps = measure(built.build()).timed.steps
    assert (steps.duration > 0).all()


@pytest.mark.parametrize("share", [0.9, 0.8, 0.6])
def test_a_cut_off_recording_gives_the_right_answer_or_none(share, tmp_path):
    whole = content("gpt_large_batch.base")
    path = tmp_path / "cut.json"
    path.write_bytes(whole[: int(len(whole) * share)])
    report = traceanalyzer.analyze(path)
    if report.summary.bottleneck != "inconclusive":
        assert report.summary.bottleneck == "compute"
        assert report.summary.confidence < 0.7
        assert report.metrics.step_time_ms.mean == pytest.approx(105.4, rel=0.02)


def test_lost_kernels_give_no_confident_answer(tmp_path):
    whole = json.loads(content("gpt_large_batch.base"))
    kernels = [e for e in whole["traceEvents"] if e.get("cat") == "kernel"]
    dropped = {id(e) for i, e in enumerate(kernels) if i % 10}
    whole["traceEvents"] = [e for e in whole["traceEvents"] if id(e) not in dropped]
    path = tmp_path / "lost.json"
    path.write_text(json.dumps(whole))
    report = traceanalyzer.analyze(path)
    assert report.summary.bottleneck == "inconclusive" or report.summary.confidence < 0.6
    assert any(
        "kernel" in note or "device" in note
        for note in (*report.notes, *report.inputs[0].health.notes)
    )


def test_one_kernel_says_nothing(tmp_path):
    kernel = {
        "ph": "X",
        "cat": "kernel",
        "name": "gemm",
        "pid": 0,
        "tid": 7,
        "ts": 1.0,
        "dur": 9.0,
        "args": {"device": 0, "stream": 7, "correlation": 1},
    }
    path = tmp_path / "one.json"
    path.write_text(json.dumps({"traceEvents": [kernel]}))
    assert traceanalyzer.analyze(path).summary.bottleneck == "inconclusive"


def test_a_step_without_device_work_of_its_own_is_not_predicted_to_take_no_time():
    built = TraceBuilder()
    built.kernel("gemm", 0, 30)
    for i in range(1, 4):
        built.annotation(f"ProfilerStep#{i}", 100 * i, 100 * i + 100)
        built.op("aten::mm", 100 * i + 10, 100 * i + 90)
    report = build_report(Run((built.build(),)))
    assert report.summary.bottleneck == "inconclusive"
    assert all(
        item.predicted_step_ms is None or item.predicted_step_ms > 0
        for item in report.recommendations
    )


def test_nothing_is_promised_where_nothing_is_known(tmp_path):
    whole = content("gpt_large_batch.base")
    path = tmp_path / "cut.json"
    path.write_bytes(whole[: int(len(whole) * 0.6)])
    report = traceanalyzer.analyze(path)
    assert report.summary.bottleneck == "inconclusive"
    assert all(item.predicted_step_ms is None for item in report.recommendations)


def test_a_rank_and_a_recording_without_one_are_no_run():
    paths = [recording("ranks2/straggler.base.rank0"), recording("kineto/gemm_fp32.base")]
    with pytest.raises(SeveralRunsError, match="only some of them have a rank"):
        traceanalyzer.analyze(paths)


def test_recordings_of_different_runs_are_refused():
    runs = ("straggler.base", "tensor_parallel.base", "ddp_accum_sync.base")
    paths = [path for run in runs for path in ranks(f"ranks2/{run}")]
    with pytest.raises(SeveralRunsError, match="6 recordings that are not one run"):
        traceanalyzer.analyze(paths)


@pytest.mark.parametrize("run", ["straggler.base", "tensor_parallel.fix", "ddp_accum_sync.base"])
def test_the_ranks_of_a_run_are_one_run(run):
    report = traceanalyzer.analyze(ranks(f"ranks2/{run}"))
    assert sorted(row.rank for row in report.tables["ranks"]) == [0, 1]
