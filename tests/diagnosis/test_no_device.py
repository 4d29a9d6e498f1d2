"""Recordings of the CPU, or of API calls, alone: a page that says where the time goes and what to
record."""

from __future__ import annotations

from tests.analysis.build import TraceBuilder
from traceanalyzer.diagnosis.diagnose import diagnose
from traceanalyzer.diagnosis.measurements import measure


def test_operators_alone() -> None:
    b = TraceBuilder()
    for i in range(10):
        b.op("aten::linear", 100 * i, 100 * i + 90).op("aten::addmm", 100 * i + 5, 100 * i + 80)
    found = diagnose(measure(b.build()))
    assert "aten::addmm 0.75 ms (10 calls)" in found.summary.headline
    assert "ProfilerActivity.CUDA" in found.summary.headline
    (finding,) = found.findings
    assert finding.id == "cpu-only"
    assert [(e.value, e.where) for e in finding.evidence[1:3]] == [
        (0.75, "10 x aten::addmm, whole recording"),
        (0.15, "10 x aten::linear, whole recording"),
    ]


def test_api_calls_alone() -> None:
    b = TraceBuilder()
    for i in range(10):
        b.call("cuEventSynchronize", 100 * i, 100 * i + 90)
    found = diagnose(measure(b.build()))
    assert "cuEventSynchronize 0.9 ms (10 calls)" in found.summary.headline
    assert "nsys profile -t cuda" in found.summary.headline
    assert "torch" not in found.summary.headline
    assert [f.id for f in found.findings] == ["api-calls-only"]
