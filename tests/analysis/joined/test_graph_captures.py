"""Which capture a replay of a CUDA graph is of, and which launch each of its ops."""

from __future__ import annotations

from typing import Any

from tests.analysis.build import TraceBuilder
from tests.analysis.joined.test_graph_names import (
    DECODE,
    KERNELS,
    OPS,
    capture,
    launches,
    operators,
    replay,
)
from traceanalyzer.analysis.joined.graph_names import named_in_graphs
from traceanalyzer.diagnosis.measurements import Measurements, measure
from traceanalyzer.diagnosis.serving.sentences import sentences
from traceanalyzer.ingest.capture import with_side_files
from traceanalyzer.trace import Run

NAMED = {
    "embed": "aten::embedding",
    "gemm": "aten::mm",
    "soft": "aten::softmax",
    "plus": "aten::add",
}
PREFILL = "execute_{0}_context_1(sq{0}sk{0}sqsq{0}sqsk{0})_generation_0(sq0sk0sqsq0sqsk0)"


def beside(*builders: TraceBuilder) -> Measurements:
    run = with_side_files(Run(tuple(one.build() for one in builders)))
    assert len(run.traces) == 1
    return measure(run.traces[0])


def named(m: Measurements) -> tuple[int, int]:
    return named_in_graphs(m.linked, m.joined.launch_node)


def begun(b: TraceBuilder, begin: float, end: float, correlation: int = 90) -> TraceBuilder:
    """The calls around a capture."""
    b.call("cudaStreamBeginCapture", begin, begin + 1, correlation)
    return b.call("cudaStreamEndCapture", end, end + 1, correlation + 1)


def run_of(b: TraceBuilder, rows: list[tuple[str, float, dict[str, Any]]]) -> TraceBuilder:
    """A replay whose kernels start at these times."""
    b.annotation(DECODE.format(8, 100), 1000, 1020).call("cudaGraphLaunch", 1002, 1018, 50)
    for kernel, start, columns in rows:
        b.kernel(kernel, start, start + 8, 50, **columns)
    return b


def test_a_program_that_marks_no_iterations_is_named_by_its_capture() -> None:
    held = begun(TraceBuilder(), 0, 70)
    launches(held, 5, 1, run=False)
    b = TraceBuilder().call("cudaGraphLaunch", 1002, 1018, 50)
    for i, kernel in enumerate(KERNELS):
        b.kernel(kernel, 1020 + 10 * i, 1028 + 10 * i, 50)
    assert operators(beside(b, held)) == NAMED


def test_a_backward_pass_launches_into_the_capture_from_its_own_thread() -> None:
    held = begun(TraceBuilder(), 0, 70)
    for i, op in enumerate(OPS):
        thread = int(i >= 3)
        begin = 5 + 10 * i
        held.op(op, begin, begin + 8, thread)
        held.call("cudaLaunchKernel", begin + 2, begin + 4, i + 1, thread=thread)
    held.call("cudaLaunchKernel", 40, 41, 80, thread=2).kernel("other", 42, 44, 80)
    b = TraceBuilder()
    replay(b, 1000, 50, 7)
    assert operators(beside(b, held)) == NAMED


def test_two_threads_that_capture_at_a_time_have_a_graph_each() -> None:
    held = TraceBuilder()
    for thread, ops in enumerate((OPS, OPS[::-1])):
        held.call("cudaStreamBeginCapture", thread, thread + 1, 90 + thread, thread=thread)
        for i, op in enumerate(ops):
            begin = 5 + 10 * i + thread
            held.op(op, begin, begin + 8, thread)
            held.call("hipLaunchKernel", begin + 2, begin + 4, 10 * thread + i + 1, thread, op[6:])
        held.call("cudaStreamEndCapture", 70, 71, 95 + thread, thread=thread)
    b = TraceBuilder()
    replay(b, 1000, 50, 7, tuple(op[6:] for op in OPS))
    assert named(beside(b, held)) == (5, 5)


def test_branches_of_a_graph_start_in_another_order_than_they_were_launched_in() -> None:
    """The third kernel, on a stream of its own, begins before the second."""
    starts = (1020, 1060, 1030, 1070, 1080)
    streams = (7, 7, 8, 7, 7)
    rows = list(zip(KERNELS, starts, ({"stream": one} for one in streams), strict=True))
    held = TraceBuilder()
    capture(held, 0, 1, 8)
    unknown = beside(run_of(TraceBuilder(), rows), held)
    assert named(unknown) == (0, 5), "a wrong name is worse than none"
    assert any("parallel branches" in text for text in sentences(unknown))
    with_nodes = [
        (kernel, start, columns | {"graph_node": 3 + i})
        for i, (kernel, start, columns) in enumerate(rows)
    ]
    assert operators(beside(run_of(TraceBuilder(), with_nodes), held)) == NAMED
    stated = TraceBuilder().annotation("capture_8_FULL", 0, 100)
    for i, (op, kernel) in enumerate(zip(OPS, KERNELS, strict=True)):
        begin = 5 + 10 * i
        stated.op(op, begin, begin + 8)
        stated.call("hipLaunchKernel", begin + 2, begin + 4, i + 1, kernel=kernel)
    assert operators(beside(run_of(TraceBuilder(), rows), stated)) == NAMED


def test_a_node_that_runs_again_is_of_one_launch() -> None:
    """The body of a loop in the graph, two kernels, runs twice."""
    nodes = (0, 1, 2, 1, 2, 3, 4)
    rows = [
        (KERNELS[node], 1020.0 + 10 * i, {"graph_node": 30 + node}) for i, node in enumerate(nodes)
    ]
    held = TraceBuilder()
    capture(held, 0, 1, 8)
    m = beside(run_of(TraceBuilder(), rows), held)
    assert operators(m) == NAMED
    assert named(m) == (7, 7)


def test_nodes_without_ids_among_others_stay_at_their_place() -> None:
    """CUPTI tells nodes of kernels, and of copies only in newer versions."""
    from traceanalyzer.trace import DeviceOpKind

    held = TraceBuilder().annotation("capture_8_FULL", 0, 100)
    calls = ("cudaLaunchKernel", "cudaMemcpyAsync", "cudaMemsetAsync", "cudaLaunchKernel")
    for i, (op, call) in enumerate(
        zip(("aten::mm", "aten::copy_", "aten::zero_", "aten::add"), calls, strict=True)
    ):
        held.op(op, 5 + 10 * i, 13 + 10 * i).call(call, 7 + 10 * i, 9 + 10 * i, i + 1)
    rows: list[tuple[str, float, dict[str, Any]]] = [
        ("gemm", 1020, {"graph_node": 31}),
        ("Memcpy DtoD", 1030, {"kind": DeviceOpKind.MEMCPY}),
        ("Memset", 1040, {"kind": DeviceOpKind.MEMSET}),
        ("plus", 1050, {"graph_node": 34}),
    ]
    m = beside(run_of(TraceBuilder(), rows), held)
    assert named(m) == (4, 4)
    assert operators(m) == {"gemm": "aten::mm", "plus": "aten::add"}


def test_amd_copies_and_sets_memory_in_graphs_by_kernels() -> None:
    held = TraceBuilder().annotation("capture_8_FULL", 0, 100)
    for i, (op, call, kernel) in enumerate(
        (
            ("aten::mm", "hipLaunchKernel", "gemm"),
            ("aten::copy_", "hipMemcpyAsync", None),
            ("aten::zero_", "hipMemsetAsync", None),
            ("aten::add", "hipLaunchKernel", "plus"),
        )
    ):
        held.op(op, 5 + 10 * i, 13 + 10 * i)
        held.call(call, 7 + 10 * i, 9 + 10 * i, i + 1, kernel=kernel)
    copies = ("__amd_rocclr_copyBuffer", "__amd_rocclr_fillBufferAligned")
    b = TraceBuilder()
    replay(b, 1000, 50, 8, ("gemm", *copies, "plus"))
    m = beside(b, held)
    assert named(m) == (4, 4)
    assert operators(m)["__amd_rocclr_fillBufferAligned"] == "aten::zero_"


def test_parts_of_a_model_are_captured_in_the_order_in_which_they_are_replayed() -> None:
    """Three layers with the same kernels, each captured by itself, for two batches."""
    held = TraceBuilder()
    for batch, start in ((8, 0), (16, 400)):
        held.annotation(f"capture_{batch}_PIECEWISE", start, start + 400)
        for layer in range(3):
            at = start + 2 + 100 * layer
            begun(held, at, at + 70, 300 + at)
            held.python(f"nn.Module: Layer_{layer}", at + 2, at + 60)
            for i, op in enumerate(OPS):
                begin = at + 4 + 10 * i
                held.op(op, begin, begin + 8, shapes=f"[[{batch},{layer}]]")
                held.call("cudaLaunchKernel", begin + 2, begin + 4, 1000 * layer + begin)
    b = TraceBuilder().annotation(DECODE.format(7, 100), 1000, 1500)
    for layer in range(3):
        at = 1000 + 100 * layer
        b.call("cudaGraphLaunch", at + 2, at + 18, 50 + layer)
        for i, kernel in enumerate(KERNELS):
            b.kernel(kernel, at + 20 + 10 * i, at + 28 + 10 * i, 50 + layer)
    m = beside(b, held)
    assert named(m) == (15, 15)
    shapes = {row.shapes for row in m.ops_by_shape if row.name == "aten::mm"}
    assert shapes == {"[[8,0]]", "[[8,1]]", "[[8,2]]"}


def test_captures_for_prefills_are_named_for_their_tokens() -> None:
    held = TraceBuilder()
    for i, batch in enumerate((8, 512)):
        capture(held, 200 * i, 10 * i + 1, batch)
    b = TraceBuilder().annotation(PREFILL.format(500), 1000, 1020)
    b.call("cudaGraphLaunch", 1002, 1018, 50)
    for i, kernel in enumerate(KERNELS):
        b.kernel(kernel, 1020 + 10 * i, 1028 + 10 * i, 50)
    m = beside(b, held)
    assert {row.shapes for row in m.ops_by_shape if row.name == "aten::mm"} == {"[[512,4]]"}


def test_captures_that_differ_in_operators_name_nothing_where_no_batch_tells() -> None:
    held = TraceBuilder()
    for i, ops in enumerate((OPS, OPS[::-1])):
        begun(held, 200 * i, 200 * i + 70, 90 + 2 * i)
        for j, op in enumerate(ops):
            begin = 200 * i + 5 + 10 * j
            held.op(op, begin, begin + 8).call("cudaLaunchKernel", begin + 2, begin + 4, begin)
    b = TraceBuilder()
    replay(b, 1000, 50, 7)
    assert named(beside(b, held)) == (0, 5)


def test_a_capture_that_also_replays_once_is_no_recording_of_its_own() -> None:
    held = TraceBuilder()
    capture(held, 0, 1, 8)
    held.call("cudaGraphLaunch", 300, 310, 70)
    for i, kernel in enumerate(KERNELS):
        held.kernel(kernel, 320 + 10 * i, 328 + 10 * i, 70)
    b = TraceBuilder()
    replay(b, 1000, 50, 7)
    assert operators(beside(b, held)) == NAMED


def test_a_capture_of_other_graphs_is_not_asked_for_again() -> None:
    held = TraceBuilder()
    capture(held, 0, 1, 8)
    b = TraceBuilder()
    replay(b, 1000, 50, 7, (*KERNELS, "sample"))
    said = list(sentences(beside(b, held)))
    assert any("is of other graphs" in text for text in said)
    assert not any("add the capture" in text for text in said)


def test_kernels_of_other_names_are_of_another_graph() -> None:
    held = TraceBuilder().annotation("capture_8_FULL", 0, 100)
    for i, op in enumerate(OPS):
        begin = 5 + 10 * i
        held.op(op, begin, begin + 8)
        held.call("hipLaunchKernel", begin + 2, begin + 4, i + 1, kernel=f"other {i}")
    b = TraceBuilder()
    replay(b, 1000, 50, 7)
    assert named(beside(b, held)) == (0, 5)
