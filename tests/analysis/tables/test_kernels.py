from __future__ import annotations

import pytest

from tests.analysis.build import TraceBuilder
from traceanalyzer.analysis.names.kernel_names import MAX_LENGTH, short_name
from traceanalyzer.analysis.tables.kernels import ClassStats, KernelStats, class_stats, kernel_stats
from traceanalyzer.base.figures import definitions
from traceanalyzer.diagnosis.measurements import measure
from traceanalyzer.trace import DeviceOpKind

GEMM = "nvjet_sm90_tst_128x128_TNT"


def two_steps() -> TraceBuilder:
    """Two steps of 1000 us: a GEMM of 100 us and one of 300 us by aten::mm, a copy of 50 us by
    nobody."""
    b = TraceBuilder()
    for step in range(2):
        t = 1000.0 * step
        b.annotation(f"ProfilerStep#{step}", t, t + 1000)
        for i, (length, at) in enumerate(((100, 10), (300, 200))):
            b.op("aten::mm", t + at, t + at + 20)
            b.call("cudaLaunchKernel", t + at + 5, t + at + 10, correlation=10 * step + i + 1)
            b.kernel(GEMM, t + at + 20, t + at + 20 + length, correlation=10 * step + i + 1)
        b.call("cudaMemcpyAsync", t + 600, t + 605, correlation=10 * step + 9)
        b.kernel(
            "Memcpy HtoD", t + 620, t + 670, correlation=10 * step + 9, kind=DeviceOpKind.MEMCPY
        )
    return b


def test_kernels_by_name() -> None:
    (row,) = kernel_stats(measure(two_steps().build()).rated)
    assert (row.name, row.full_name, row.cls, row.op) == (GEMM, GEMM, "gemm", "aten::mm")
    assert row.calls == 2
    assert row.total_ms == pytest.approx(0.4)
    assert row.share_of_step == pytest.approx(0.4)
    assert row.share_of_device == pytest.approx(1)
    assert (row.mean_us, row.p50_us, row.min_us, row.max_us) == pytest.approx((200, 200, 100, 300))


def test_classes_hold_all_device_work() -> None:
    rows = class_stats(measure(two_steps().build()).timed)
    assert [(r.cls, r.calls) for r in rows] == [("gemm", 2), ("memcpy", 1)]
    assert [r.total_ms for r in rows] == pytest.approx([0.4, 0.05])
    assert sum(r.share_of_device for r in rows) == pytest.approx(1)
    assert rows[0].bound == "compute"


def test_most_time_first_and_graphs_are_rows() -> None:
    b = (
        TraceBuilder()
        .kernel("a", 0, 1)
        .kernel("b", 10, 30)
        .kernel("graph 7", 40, 140, kind=DeviceOpKind.GRAPH)
    )
    rows = kernel_stats(measure(b.build()).rated)
    assert [r.name for r in rows] == ["graph 7", "b", "a"]
    assert [r.cls for r in rows] == ["graph", "other", "other"]
    assert all(r.op is None for r in rows)


def test_a_kernel_without_a_call_row_belongs_to_the_op_with_its_external_id() -> None:
    b = TraceBuilder().op("aten::mm", 0, 10, external_id=7).annotation("phase", 0, 20)
    rows = kernel_stats(measure(b.kernel("k", 12, 15, correlation=99, external_id=7).build()).rated)
    assert rows[0].op == "aten::mm"


def test_a_kernel_launched_outside_operators_belongs_to_the_annotation() -> None:
    b = (
        TraceBuilder()
        .annotation("custom", 0, 10)
        .call("cuLaunchKernel", 2, 4, 1)
        .kernel("k", 5, 9, 1)
    )
    assert kernel_stats(measure(b.build()).rated)[0].op == "custom"


def test_no_device_work() -> None:
    ctx = measure(TraceBuilder().op("aten::mm", 0, 5).build())
    assert kernel_stats(ctx.rated) == class_stats(ctx.timed) == []


def test_every_figure_is_defined() -> None:
    for table in (KernelStats, ClassStats):
        assert len(definitions(table)) == len(table.__dataclass_fields__)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, "
            "std::array<char*, 3ul> >(int, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul>)",
            "vectorized_elementwise_kernel<CUDAFunctor_add>",
        ),
        (
            "void at::native::elementwise_kernel<128, 4, at::native::gpu_kernel_impl_nocast<at::native::direct_copy_"
            "kernel_cuda(at::TensorIteratorBase&)::{lambda()#3}::operator()() const::{lambda(float)#1}>(int)",
            "elementwise_kernel<direct_copy_kernel_cuda>",
        ),
        (
            "void at::native::vectorized_elementwise_kernel<(int)8, at::native::bfloat16_copy_kernel_cuda("
            "at::TensorIteratorBase &)::[lambda(float) (instance 1)], std::array<char *, (unsigned long)2>>(int, T2)",
            "vectorized_elementwise_kernel<bfloat16_copy_kernel_cuda>",
        ),
        (
            "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymous namespace)::"
            "TensorListMetadata<1>, at::native::(anonymous namespace)::BinaryOpScalarFunctor<float, 1, 1, 0>, "
            "std::multiplies<float>, float>(at::native::(anonymous namespace)::TensorListMetadata<1>)",
            "multi_tensor_apply_kernel<BinaryOpScalarFunctor, multiplies>",
        ),
        (
            "void cutlass::Kernel2<cutlass_80_simt_sgemm_64x64_8x5_nn_align1>(T1::Params)",
            "cutlass::Kernel2<cutlass_80_simt_sgemm_64x64_8x5_nn_align1>",
        ),
        (
            "ncclDevKernel_AllReduce_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
            "ncclDevKernel_AllReduce_RING_LL",
        ),
        ("add_one(const float *, float *, int)", "add_one"),
        (
            "void clover::k<PdV_kernel(bool, Buffer2D<double> &)::[lambda(int) (instance 1)]>()",
            "clover::k<PdV_kernel>",
        ),
        ("(odd)", "(odd)"),
        ("", ""),
    ],
)
def test_short_names_keep_what_tells_kernels_apart(name: str, expected: str) -> None:
    assert short_name(name) == expected


def test_short_names_are_cut() -> None:
    assert len(short_name("k" * 500)) == MAX_LENGTH


def test_an_occupancy_of_nought_is_one_that_the_recorder_could_not_tell() -> None:
    b = TraceBuilder()
    b.kernel(GEMM, 0, 10, occupancy=0)
    b.kernel("other", 20, 30, occupancy=40)
    shares = {row.name: row.occupancy_share for row in kernel_stats(measure(b.build()).rated)}
    assert shares == {GEMM: None, "other": 0.4}


def test_occupancy_counts_by_time() -> None:
    b = TraceBuilder()
    b.kernel(GEMM, 0, 900, occupancy=90).kernel(GEMM, 1000, 1100, occupancy=10)
    (row,) = kernel_stats(measure(b.build()).rated)
    assert row.occupancy_share == pytest.approx(0.82)
