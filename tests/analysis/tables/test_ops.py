from __future__ import annotations

import pytest

from tests.analysis.build import TraceBuilder
from traceanalyzer.analysis.tables.kernels import kernel_stats
from traceanalyzer.analysis.tables.ops import STEP_NAME, UNATTRIBUTED, OpStats, op_stats
from traceanalyzer.base.figures import definitions
from traceanalyzer.diagnosis.measurements import measure
from traceanalyzer.trace import Device, DeviceOpKind, RangeKind


def rows(builder: TraceBuilder, **options: bool) -> dict[str, OpStats]:
    return {row.name: row for row in op_stats(measure(builder.build()).rated, **options)}


def linear() -> TraceBuilder:
    """aten::linear 0-100 calls aten::t 10-20 and aten::addmm 30-90, which launches two kernels of
    50 and 70 us."""
    b = TraceBuilder().op("aten::linear", 0, 100).op("aten::t", 10, 20)
    b.op("aten::addmm", 30, 90, shapes="[[2,3]]")
    for i, length in ((1, 50), (2, 70)):
        b.call("cudaLaunchKernel", 30 + 10 * i, 35 + 10 * i, i).kernel(
            "k", 100 * i, 100 * i + length, i
        )
    return b


def test_host_and_device_time_of_a_tree() -> None:
    found = rows(linear())
    outer = found["aten::linear"]
    inner = found["aten::addmm"]
    view = found["aten::t"]
    assert (outer.calls, outer.host_total_ms, outer.host_self_ms) == pytest.approx(
        (1, 0.100, 0.030)
    )
    assert (inner.host_total_ms, inner.host_self_ms) == pytest.approx((0.060, 0.050))
    assert (outer.device_total_ms, outer.device_self_ms) == pytest.approx((0.120, 0))
    assert (inner.device_total_ms, inner.device_self_ms) == pytest.approx((0.120, 0.120))
    assert (outer.kernels_per_call, inner.kernels_per_call, view.kernels_per_call) == (2, 2, 0)
    assert outer.device_mean_us == pytest.approx(120)
    assert (outer.device_p50_us, outer.device_p95_us) == pytest.approx((120, 120))
    assert view.device_mean_us is None
    assert inner.shapes == "[[2,3]]"
    assert outer.shapes is None
    assert outer.share_of_step == pytest.approx(120 / 170)


def test_rows_come_by_device_total_then_host_self() -> None:
    assert [r.name for r in op_stats(measure(linear().build()).rated)] == [
        "aten::addmm",
        "aten::linear",
        "aten::t",
    ]


def test_figures_are_per_step_and_warm_up_is_left_out() -> None:
    b = TraceBuilder()
    for step, length in enumerate((900, 100, 100, 100, 100)):
        t = 1000 * step
        b.annotation(f"ProfilerStep#{step}", t, t + 10 + length)
        b.op("aten::mm", t, t + length / 10).call("cudaLaunchKernel", t + 1, t + 2, step + 1)
        b.kernel("k", t + 5, t + 5 + length, step + 1)
    found = rows(b)
    assert found["aten::mm"].calls == 1
    assert STEP_NAME in found
    assert not any(name.startswith("ProfilerStep#") for name in found)


def test_device_work_without_an_operator_is_shown_not_lost() -> None:
    b = linear().kernel("from before the window", 400, 500, 77)
    b.call("cudaLaunchKernel", 200, 205, 3).kernel("launched outside operators", 600, 630, 3)
    found = rows(b)
    assert found[UNATTRIBUTED].device_self_ms == pytest.approx(0.130)
    assert found[UNATTRIBUTED].kind == "none"
    assert sum(r.device_self_ms for r in found.values()) == pytest.approx(0.250)


def test_a_kernel_without_a_call_row_is_joined_by_external_id() -> None:
    b = TraceBuilder().op("aten::mm", 0, 10, external_id=5).kernel("k", 20, 30, 9, external_id=5)
    assert rows(b)["aten::mm"].device_self_ms == pytest.approx(0.010)


def test_an_annotation_gets_what_is_launched_inside_it() -> None:
    b = TraceBuilder().op("MyFunction", 0, 100).annotation("inner", 10, 90)
    b.call("cudaLaunchKernel", 20, 30, 1).kernel("k", 200, 250, 1)
    found = rows(b)
    assert found["inner"].kind == "annotation"
    assert found["inner"].device_total_ms == pytest.approx(0.050)
    assert found["MyFunction"].device_self_ms == pytest.approx(0.050)
    assert found["inner"].device_self_ms == 0


def test_an_operator_whose_only_child_has_its_name_is_one_call() -> None:
    b = TraceBuilder().op("f", 0, 100).op("f", 10, 90).op("f", 20, 80)
    b.call("cudaLaunchKernel", 30, 40, 1).kernel("k", 50, 60, 1)
    row = rows(b)["f"]
    assert (row.calls, row.host_total_ms, row.host_self_ms) == pytest.approx((1, 0.100, 0.090))
    assert (row.device_total_ms, row.device_self_ms) == pytest.approx((0.010, 0.010))


def test_a_call_inside_one_of_its_own_name_counts_its_device_work_once() -> None:
    b = TraceBuilder().op("f", 0, 100).op("f", 10, 60).op("g", 70, 80)
    b.call("cudaLaunchKernel", 20, 30, 1).kernel("k", 0, 100, 1)
    row = rows(b)["f"]
    assert row.calls == 2
    assert (row.device_total_ms, row.share_of_step) == pytest.approx((0.100, 1))
    assert (row.device_mean_us, row.kernels_per_call) == pytest.approx((100, 1))


def test_bookkeeping_is_its_parents_own_time() -> None:
    b = (
        TraceBuilder()
        .op("f", 0, 100)
        .op("profiler::_record_function_enter_new", 10, 20)
        .op("g", 12, 15)
    )
    found = rows(b)
    assert set(found) == {"f", "g"}
    assert found["f"].host_self_ms == pytest.approx(0.097)


def test_what_sticks_out_of_the_operator_around_it_is_not_its_time() -> None:
    b = TraceBuilder().op("aten::outer", 0, 10).op("aten::inner", 8, 30).call("cudaFree", 9, 50, -1)
    found = rows(b)
    assert found["aten::outer"].host_self_ms == pytest.approx(0.008)
    assert found["aten::inner"].host_self_ms == pytest.approx(0.001)


def test_by_shape() -> None:
    b = TraceBuilder()
    for i, shape in enumerate(("[[1]]", "[[2]]", "[[2]]")):
        b.op("aten::mm", 100 * i, 100 * i + 10, shapes=shape)
    found = op_stats(measure(b.build()).rated, by_shape=True)
    assert sorted((r.shapes, r.calls) for r in found) == [("[[1]]", 1), ("[[2]]", 2)]
    assert rows(b)["aten::mm"].shapes == "[[2]]"


def forward_and_backward() -> TraceBuilder:
    """linear > (t, addmm) on thread 0; their autograd nodes on thread 1 with kernels of 10 and 40
    us."""
    b = TraceBuilder().op("aten::linear", 0, 100, sequence=4).op("aten::t", 10, 20, sequence=4)
    b.op("aten::addmm", 30, 90, sequence=5).call("cudaLaunchKernel", 40, 45, 1).kernel(
        "k", 50, 70, 1
    )
    for number, at, length in ((5, 200, 40), (4, 300, 10)):
        name = {5: "AddmmBackward0", 4: "TBackward0"}[number]
        node = {"sequence": number, "forward_thread": 1, "thread": 1}
        b.op(f"autograd::engine::evaluate_function: {name}", at, at + 50, **node)
        b.op(name, at + 5, at + 45, **node).op("aten::mm", at + 10, at + 40, thread=1)
        b.call("cudaLaunchKernel", at + 15, at + 20, number + 10, thread=1)
        b.kernel("k", at + 100, at + 100 + length, number + 10)
    return b


def test_forward_operators_are_joined_with_their_autograd_nodes() -> None:
    found = rows(forward_and_backward())
    assert found["aten::addmm"].backward_device_ms == pytest.approx(0.040)
    assert found["aten::t"].backward_device_ms == pytest.approx(0.010)
    assert found["aten::linear"].backward_device_ms == pytest.approx(0.050)
    assert found["AddmmBackward0"].backward_device_ms is None
    assert found["aten::mm"].backward_share == 1
    assert found["aten::addmm"].backward_share == 0


def test_sequence_numbers_are_of_a_thread() -> None:
    b = forward_and_backward()
    b.op("other", 0, 100, thread=2, sequence=5)
    found = rows(b)
    assert found["other"].backward_device_ms is None
    assert found["aten::addmm"].backward_device_ms == pytest.approx(0.040)


def test_library_ranges_are_transparent() -> None:
    b = TraceBuilder().op("aten::mm", 0, 100).op("cublasGemmEx", 10, 90, kind=RangeKind.LIBRARY)
    b.call("cudaLaunchKernel", 20, 30, 1).kernel("k", 100, 150, 1)
    found = rows(b)
    assert set(found) == {"aten::mm"}
    assert found["aten::mm"].host_self_ms == pytest.approx(0.090)
    assert found["aten::mm"].device_self_ms == pytest.approx(0.050)


def test_nothing_recorded() -> None:
    assert op_stats(measure(TraceBuilder().build()).rated) == []


def test_only_device_work() -> None:
    (row,) = op_stats(measure(TraceBuilder().kernel("k", 0, 10).build()).rated)
    assert row.name == UNATTRIBUTED


def test_every_figure_is_defined() -> None:
    assert len(definitions(OpStats)) == len(OpStats.__dataclass_fields__)


def test_operators_and_kernels_agree_on_the_bytes_of_a_call_with_a_memset() -> None:
    b = TraceBuilder()
    types = b.code('["float", "float"]')
    b.op("aten::mm", 0, 50, shapes="[[64, 32], [32, 16]]", dtypes=types)
    b.call("cudaMemsetAsync", 5, 8, 1).kernel(
        "Memset (Device)", 10, 20, 1, kind=DeviceOpKind.MEMSET, bytes=10**6
    )
    b.call("cudaLaunchKernel", 10, 15, 2).kernel("sgemm", 20, 60, 2)
    m = measure(b.build(devices=(Device(0, "NVIDIA H200"),)))
    (kernel,), (op,) = kernel_stats(m.rated), op_stats(m.rated)
    assert op.bytes == kernel.bytes == 4 * (64 * 32 + 32 * 16 + 64 * 16)


def test_by_shape_an_operator_inside_one_of_its_name_and_other_shapes_has_its_time() -> None:
    """`aten::arange` of a number calls `aten::arange` of a tensor, which launches; the two are rows
    of their own, and each has all that is launched inside it."""
    b = TraceBuilder().op("aten::arange", 0, 100, shapes="[[]]")
    b.op("aten::empty", 5, 10).op("aten::arange", 20, 90, shapes="[[5]]")
    b.call("cudaLaunchKernel", 30, 35, 1).kernel("k", 40, 55, 1)
    table = op_stats(measure(b.build()).rated, by_shape=True)
    times = {row.shapes: (row.device_total_ms, row.device_self_ms) for row in table if row.shapes}
    assert times == {"[[]]": (0.015, 0.0), "[[5]]": (0.015, 0.015)}
    assert rows(b)["aten::arange"].device_total_ms == pytest.approx(0.015)
