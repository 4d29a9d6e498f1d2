"""Odd recordings that a reviewer tried. `defect` marks what is known to be wrong and not yet mended."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

import traceanalyzer
from tests.analysis.build import TraceBuilder
from traceanalyzer.analysis.context import Context
from traceanalyzer.analysis.measure import Measurements

KINETO = Path(__file__).resolve().parents[1].parent / "shared" / "traces" / "kineto"
needs_recordings = pytest.mark.skipif(not KINETO.exists(), reason="the shared recordings are not here")


def defect(what: str) -> pytest.MarkDecorator:
    return pytest.mark.xfail(strict=False, reason=f"known defect: {what}")


def content(name: str) -> bytes:
    return gzip.decompress((KINETO / f"{name}.json.gz").read_bytes())


def test_a_first_step_without_device_work():
    recording = TraceBuilder()
    for i in range(3):
        recording.annotation(f"ProfilerStep#{i}", 100 * i, 100 * i + 100)
    for i in (1, 2):
        recording.call("cudaLaunchKernel", 100 * i + 10, 100 * i + 15, correlation=i)
        recording.kernel("gemm", 100 * i + 20, 100 * i + 60, correlation=i)
    recording.kernel("gemm", 5, 8)
    steps = Measurements(Context(recording.build())).ctx.steps
    assert (steps.duration > 0).all()


@needs_recordings
@defect("kernels lost with the end of the file look like idle time: a confident answer about a broken window")
@pytest.mark.parametrize("share", [0.9, 0.8, 0.6])
def test_a_cut_off_recording_gives_no_confident_answer(share, tmp_path):
    whole = content("gpt_large_batch.base")
    path = tmp_path / "cut.json"
    path.write_bytes(whole[: int(len(whole) * share)])
    summary = traceanalyzer.analyze(path).summary
    assert summary.bottleneck == "inconclusive" or (summary.bottleneck == "compute" and summary.confidence < 0.6)


@needs_recordings
@defect("launch calls whose kernels are missing are not noticed")
def test_lost_kernels_give_no_confident_answer(tmp_path):
    recording = json.loads(content("gpt_large_batch.base"))
    kernels = [e for e in recording["traceEvents"] if e.get("cat") == "kernel"]
    dropped = {id(e) for i, e in enumerate(kernels) if i % 10}
    recording["traceEvents"] = [e for e in recording["traceEvents"] if id(e) not in dropped]
    path = tmp_path / "lost.json"
    path.write_text(json.dumps(recording))
    report = traceanalyzer.analyze(path)
    assert report.summary.bottleneck == "inconclusive" or report.summary.confidence < 0.6
    assert any("kernel" in note or "device" in note for note in (*report.notes, *report.inputs[0].health.notes))


@defect("a lone kernel without steps, launches or host work is called a bottleneck")
def test_one_kernel_says_nothing(tmp_path):
    kernel = {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 1.0, "dur": 9.0,
              "args": {"device": 0, "stream": 7, "correlation": 1}}  # fmt: skip
    path = tmp_path / "one.json"
    path.write_text(json.dumps({"traceEvents": [kernel]}))
    assert traceanalyzer.analyze(path).summary.bottleneck == "inconclusive"
