"""CUDA graphs in exports of Nsight Systems: by node, as a whole, and with nothing on the GPU."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.analysis.build import TraceBuilder
from tests.nsys_builder import PID, SCHEMAS, Export, global_pid
from traceanalyzer.analysis.joined.launched import unseen_graphs
from traceanalyzer.diagnosis.classify import classify
from traceanalyzer.diagnosis.measurements import Measurements, measure
from traceanalyzer.diagnosis.rules.recording import recording_notes
from traceanalyzer.ingest import load
from traceanalyzer.trace import DeviceOpKind

STEPS = 20


def served(path: Path, level: str) -> Measurements:
    """Steps of 10 ms: a graph of ten kernels in 8.68 ms, and a copy to the host."""
    export = Export(SCHEMAS[-1])
    export.add("PROCESSES", globalPid=global_pid(), pid=PID, name="/opt/app/serve")
    for i in range(STEPS):
        at = 10_000_000 * i + 1000
        launch = 10 * i + 1
        export.nvtx(at, at + 9_900_000, "step")
        export.call(at + 100_000, at + 300_000, "cudaGraphLaunch_v10000", launch)
        begin = at + 320_000
        if level == "graph":
            export.graph(begin, begin + 8_680_000, correlationId=launch, graphId=3)
        for k in range(10 if level == "node" else 0):
            start = begin + 868_000 * k
            node = {"correlationId": launch, "graphNodeId": (5 << 32) + k + 1}
            export.kernel(start, start + 868_000, f"gemm_{k}", **node)
        export.call(at + 310_000, at + 320_000, "cudaMemcpyAsync_v3020", launch + 1)
        export.copy(at + 9_010_000, at + 9_015_000, correlationId=launch + 1, bytes=64)
        export.call(at + 325_000, at + 9_100_000, "cudaStreamSynchronize_v3020", launch + 2)
    (trace,) = load([export.write(path)]).traces
    return measure(trace)


@pytest.mark.parametrize(
    ("level", "unseen", "said"),
    [
        ("none", STEPS, "nothing of what 20 launches of CUDA graphs ran is in the recording"),
        ("graph", 0, "CUDA graphs that were recorded as a whole"),
    ],
)
def test_a_trace_of_whole_graphs_says_how_to_record_their_kernels(
    tmp_path: Path, level: str, unseen: int, said: str
) -> None:
    m = served(tmp_path / "a.sqlite", level)
    assert m.linked.memo(unseen_graphs) == (unseen, STEPS)
    summary = classify(m)
    assert summary.bottleneck == "inconclusive"
    assert said in summary.headline
    assert "nsys profile --cuda-graph-trace=node" in summary.headline


def test_graphs_that_are_not_the_verdict_have_a_note(tmp_path: Path) -> None:
    """Once most of a busy GPU's time, once that of a GPU that mostly idles."""
    busy = served(tmp_path / "busy.sqlite", "graph")
    assert not [note for note in recording_notes(busy) if "cuda-graph-trace=node" in note]
    b = TraceBuilder()
    for i in range(8):
        b.annotation("step", 100 * i, 100 * i + 95)
        b.call("cudaGraphLaunch", 100 * i + 1, 100 * i + 5, i + 1)
        b.kernel("CUDA graph 1", 100 * i + 10, 100 * i + 20, i + 1, kind=DeviceOpKind.GRAPH)
    idle = measure(replace(b.build(), source="nsys"))
    (note,) = [note for note in recording_notes(idle) if "cuda-graph-trace=node" in note]
    assert note.startswith("CUDA graphs, 100% of the GPU's time")


def test_a_recording_of_captures_is_a_start_up() -> None:
    b = TraceBuilder().annotation("capture_8_FULL", 0, 1000)
    for i in range(12):
        b.call("cudaLaunchKernel", 10 + 70 * i, 60 + 70 * i, i + 1)
    b.call("cudaLaunchKernel", 1010, 1012, 90).kernel("gather", 1012, 1014, 90)
    summary = classify(measure(b.build()))
    assert summary.bottleneck == "inconclusive"
    assert "this is a start-up" in summary.headline
    assert not measure(b.build()).timed.steps.found, "a capture is no step"


def test_kernels_of_nodes_have_their_names(tmp_path: Path) -> None:
    m = served(tmp_path / "a.sqlite", "node")
    assert m.linked.memo(unseen_graphs) == (0, STEPS)
    assert {row.name for row in m.kernels} == {f"gemm_{k}" for k in range(10)}
    assert "cuda-graph-trace" not in classify(m).headline
