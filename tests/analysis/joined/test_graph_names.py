"""Operators of kernels that a CUDA graph replays: from its capture, or from the same kernels
launched one by one."""

from __future__ import annotations

from tests.analysis.build import TraceBuilder
from traceanalyzer.analysis.joined.graph_names import UNNAMED, named_in_graphs
from traceanalyzer.analysis.joined.linked import TraceJoins
from traceanalyzer.diagnosis.measurements import Measurements, measure
from traceanalyzer.diagnosis.serving.sentences import sentences
from traceanalyzer.ingest.capture import with_side_files
from traceanalyzer.trace import Run

DECODE = "execute_{0}_context_0(sq0sk0sqsq0sqsk0)_generation_{0}(sq{0}sk{1}sqsq{0}sqsk{1})"
OPS = ("aten::embedding", "aten::mm", "aten::softmax", "aten::mm", "aten::add")
KERNELS = ("embed", "gemm", "soft", "gemm", "plus")


def launches(b: TraceBuilder, at: float, correlation: int, *, run: bool, shape: int = 8) -> None:
    """The model launched by operators, 10 us each; captured, or run as well."""
    b.python("nn.Module: Model_0", at, at + 10 * len(OPS))
    for i, (op, kernel) in enumerate(zip(OPS, KERNELS, strict=True)):
        begin = at + 1 + 10 * i
        b.op(op, begin, begin + 8, shapes=f"[[{shape},4]]").call(
            "cudaLaunchKernel", begin + 2, begin + 4, correlation + i
        )
        if run:
            b.kernel(kernel, begin + 5, begin + 9, correlation + i, blocks=shape, threads=64)


def replay(
    b: TraceBuilder, at: float, correlation: int, requests: int, kernels: tuple[str, ...] = KERNELS
) -> None:
    b.annotation(DECODE.format(requests, 100), at, at + 20)
    b.call("cudaGraphLaunch", at + 2, at + 18, correlation)
    for i, kernel in enumerate(kernels):
        start = at + 20 + 10 * i
        b.kernel(kernel, start, start + 8, correlation, blocks=8, threads=64)


def capture(b: TraceBuilder, at: float, correlation: int, batch: int) -> None:
    b.annotation(f"capture_{batch}_FULL", at, at + 100)
    launches(b, at + 5, correlation, run=False, shape=batch)


def operators(m: Measurements) -> dict[str | None, float]:
    return {row.name: row.op for row in m.kernels}


def test_the_same_kernels_launched_one_by_one_name_a_replay() -> None:
    b = TraceBuilder().annotation("warmup_8", 0, 90)
    launches(b, 5, 1, run=True)
    for i in range(2):
        replay(b, 1000 + 200 * i, 50 + i, 7)
    m = measure(b.build())
    assert operators(m) == {
        "embed": "aten::embedding",
        "gemm": "aten::mm",
        "soft": "aten::softmax",
        "plus": "aten::add",
    }
    assert {row.name: row.calls for row in m.ops if row.device_total_ms} == {
        "aten::mm": 2.0,
        "aten::embedding": 1.0,
        "aten::softmax": 1.0,
        "aten::add": 1.0,
    }
    assert sum(row.device_self_ms for row in m.ops) * 2 == sum(
        row.gpu_busy_ms or 0 for row in m.iterations
    )
    assert [row.name for row in m.modules if row.device_ms] == ["Model"]
    assert named_in_graphs(m.linked, m.joined.launch_node) == (10, 10)
    assert [(row.gpu_ops, row.launches, row.graph_launches) for row in m.iterations] == [
        (5, 0, 1)
    ] * 2


def test_a_capture_names_it_by_order_and_the_smallest_batch_that_fits_tells_shapes() -> None:
    b = TraceBuilder()
    for i, batch in enumerate((16, 8, 4)):
        capture(b, 200 * i, 10 * i + 1, batch)
    replay(b, 1000, 50, 7)
    replay(b, 1200, 51, 12)
    m = measure(b.build())
    assert operators(m)["gemm"] == "aten::mm"
    assert {row.shapes for row in m.ops_by_shape if row.name == "aten::mm"} == {
        "[[8,4]]",
        "[[16,4]]",
    }


def test_captures_of_another_number_of_launches_name_nothing() -> None:
    b = TraceBuilder()
    capture(b, 0, 1, 8)
    replay(b, 1000, 50, 7, (*KERNELS, "sample"))
    m = measure(b.build())
    assert set(operators(m).values()) == {UNNAMED}
    assert named_in_graphs(m.linked, m.joined.launch_node) == (0, 6)
    assert any("Kernels in CUDA graphs have no operator names" in text for text in sentences(m))
    assert all(not row.name.startswith("execute_") for row in m.ops)


def test_launches_that_ran_at_once_are_not_of_the_graph() -> None:
    """Buffers are filled as a capture begins, and its output is gathered when it has ended."""
    beside = TraceBuilder()
    capture(beside, 0, 10, 8)
    for at, correlation in ((2, 1), (96, 2)):
        beside.call("cudaLaunchKernel", at, at + 1, correlation)
        beside.kernel("fill", at + 2, at + 3, correlation)
    b = TraceBuilder()
    replay(b, 1000, 50, 7)
    m = measure(with_side_files(Run((b.build(), beside.build()))).traces[0])
    assert operators(m)["soft"] == "aten::softmax"
    assert named_in_graphs(m.linked, m.joined.launch_node) == (5, 5)


def test_each_graph_of_a_piecewise_capture_is_told_by_its_own_calls() -> None:
    """One range stands around the captures of two pieces, of two launches and of three."""
    b = TraceBuilder().annotation("capture_8_PIECEWISE", 0, 100)
    for piece, ops in enumerate((OPS[:2], OPS[2:])):
        at = 2 + 50 * piece
        b.call("cudaStreamBeginCapture", at, at + 1, 100 + piece)
        for i, op in enumerate(ops):
            begin = at + 2 + 10 * i
            b.op(op, begin, begin + 8)
            b.call("cudaLaunchKernel", begin + 2, begin + 4, 10 * piece + i + 1)
        b.call("cudaStreamEndCapture", at + 40, at + 41, 200 + piece)
    replay(b, 1000, 50, 7, KERNELS[:2])
    replay(b, 1200, 51, 7, KERNELS[2:])
    m = measure(b.build())
    assert named_in_graphs(m.linked, m.joined.launch_node) == (5, 5)
    assert operators(m)["soft"] == "aten::softmax"
    assert operators(m)["embed"] == "aten::embedding"


def test_a_recording_of_the_capture_given_with_it_names_its_kernels() -> None:
    b = TraceBuilder()
    beside = TraceBuilder()
    capture(beside, 0, 1, 8)
    replay(b, 1000, 50, 7)
    both = with_side_files(Run((b.build(), beside.build())))
    assert len(both.traces) == 1
    m = measure(both.traces[0])
    assert operators(m)["soft"] == "aten::softmax"
    assert {row.shapes for row in m.ops_by_shape if row.name == "aten::mm"} == {"[[8,4]]"}
    assert len(with_side_files(Run((b.build(), b.build()))).traces) == 2


def test_a_recording_without_marks_or_replays_stays_as_it_is() -> None:
    b = TraceBuilder().call("cudaGraphLaunch", 2, 18, 1).kernel("gemm", 20, 30, 1)
    trace = b.build()
    assert measure(trace).trace is trace
    assert TraceJoins(trace).trace is trace
