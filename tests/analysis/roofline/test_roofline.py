"""The roofline against arithmetic by hand, on a GPU of round figures: 100 TFLOP/s bf16, 10 fp32, 1
TB/s, 10 SMs."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.analysis.build import TraceBuilder
from traceanalyzer.analysis.joined.knowledge import Knowledge
from traceanalyzer.analysis.roofline.bounds import NO, UNKNOWN, YES, Bound, tensor_cores
from traceanalyzer.analysis.roofline.op_models import Precision
from traceanalyzer.analysis.roofline.roofline_rows import roofline_step
from traceanalyzer.analysis.tables.kernels import kernel_stats
from traceanalyzer.analysis.tables.ops import op_stats
from traceanalyzer.diagnosis.measurements import Measurements, measure
from traceanalyzer.trace import Ceilings, Collectives, CopyKind, Device, DeviceOpKind
from traceanalyzer.trace.hardware import Hardware, HardwareTable

GPU = Hardware(
    name="round",
    source="made up",
    match=(re.compile("round"),),
    memory_gb=(1,),
    bandwidth=1e12,
    tensor={"bf16": 100e12, "tf32": 50e12},
    vector={"fp32": 10e12, "fp64": 5e12},
    sms=10,
    cache_bytes=1 << 20,
    link=100e9,
    host=10e9,
    threads_per_sm=2048,
    shared_per_sm=100_000,
)
TABLE = HardwareTable((GPU,))
GEMM = "ampere_bf16_s16816gemm_bf16_128x64"
ADD = "void at::native::vectorized_elementwise_kernel<4, add>"


def context(builder: TraceBuilder, name: str | None = "round") -> Measurements:
    return measure(builder.build(devices=(Device(0, name),)), Knowledge(hardware=TABLE))


def op(
    builder: TraceBuilder, name: str, at: float, shapes: str, dtypes: str, *kernels: tuple[Any, ...]
) -> None:
    """An operator that launches kernels (name, start, end, columns)."""
    builder.op(name, at, at + 10, shapes=shapes, dtypes=builder.code(dtypes))
    for i, (kernel, start, end, columns) in enumerate(kernels):
        correlation = int(at * 100) + i + 1
        builder.call("cudaLaunchKernel", at + 1 + i, at + 1.5 + i, correlation)
        builder.kernel(kernel, start, end, correlation, **columns)


def mm(
    builder: TraceBuilder,
    n: int,
    *kernels: tuple[Any, ...],
    at: float = 0,
    dtype: str = "c10::BFloat16",
) -> None:
    op(builder, "aten::mm", at, f"[[{n},{n}],[{n},{n}]]", f'["{dtype}","{dtype}"]', *kernels)


def test_compute_bound_product() -> None:
    b = TraceBuilder()
    mm(b, 1000, (GEMM, 20, 50, {"blocks": 100, "threads": 256}))
    r = context(b).rated.roofline
    assert r.flops[0] == 2e9
    assert r.bytes[0] == 3 * 2e6
    assert r.attainable[0] == pytest.approx(20_000)  # 2e9 / 100e12
    assert (r.bound[0], r.tensor[0], r.precision[0]) == (Bound.COMPUTE, YES, Precision.BF16)


def test_memory_bound_copy_and_memset_and_host_copy() -> None:
    b = TraceBuilder()
    copy = {"kind": DeviceOpKind.MEMCPY, "bytes": 50_000_000}
    b.kernel("Memcpy DtoD", 0, 200, copy_kind=CopyKind.DEVICE_TO_DEVICE, **copy)
    b.kernel("Memset", 300, 400, kind=DeviceOpKind.MEMSET, bytes=50_000_000)
    b.kernel("Memcpy HtoD", 500, 15_500, copy_kind=CopyKind.HOST_TO_DEVICE, **copy)
    r = context(b).rated.roofline
    assert r.attainable.tolist() == pytest.approx([100_000, 50_000, 5_000_000])
    assert r.bound.tolist() == [Bound.MEMORY, Bound.MEMORY, Bound.LINK]


@pytest.mark.parametrize(
    ("kernel", "attainable_us", "precision"),
    [
        ("sm80_xmma_gemm_f32f32_f32f32_f32_nn", 200, Precision.FP32),
        ("sm90_xmma_gemm_f32f32_tf32f32_f32_nn", 40, Precision.TF32),
        ("void cutlass::Kernel2<cutlass_80_simt_sgemm_64x64>", 200, Precision.FP32),
    ],
)
def test_fp32_product_is_held_against_the_cores_that_it_uses(
    kernel: str, attainable_us: float, precision: int
) -> None:
    b = TraceBuilder()
    mm(b, 1000, (kernel, 20, 320, {}), dtype="float")
    r = context(b).rated.roofline
    assert r.attainable[0] == pytest.approx(attainable_us * 1000)
    assert r.precision[0] == precision


def test_too_small_to_fill_the_gpu() -> None:
    b = TraceBuilder()
    mm(b, 1000, (GEMM, 20, 220, {"blocks": 4, "threads": 256}))
    mm(b, 16, (GEMM, 300, 310, {"blocks": 64, "threads": 256}), at=100)
    mm(b, 1000, (GEMM, 400, 425, {"blocks": 4, "threads": 256}), at=200)
    r = context(b).rated.roofline
    assert r.bound.tolist() == [Bound.LATENCY, Bound.LATENCY, Bound.COMPUTE]


def test_kernels_of_one_operator_share_its_work() -> None:
    b = TraceBuilder()
    mm(b, 1000, (GEMM, 20, 50, {}), ("void cublasLt::splitKreduce_kernel<32>", 50, 60, {}))
    r = context(b).rated.roofline
    assert r.flops.sum() == 2e9
    assert r.bytes.tolist() == pytest.approx([4.5e6, 1.5e6])
    assert r.attainable.sum() == pytest.approx(20_000)


def test_waves_from_the_grid_and_what_an_sm_holds() -> None:
    b = TraceBuilder()
    b.kernel(GEMM, 0, 10, blocks=30, threads=1024, registers=64, shared_bytes=0)
    b.kernel(GEMM, 20, 30, blocks=30, threads=128, registers=64, shared_bytes=60_000)
    b.kernel(GEMM, 40, 50)
    assert context(b).rated.roofline.waves.tolist() == pytest.approx([3, 3, np.nan], nan_ok=True)


@pytest.mark.parametrize("name", [None, "square"])
def test_unknown_gpu_has_no_roofline_but_work(name: str | None) -> None:
    b = TraceBuilder()
    mm(b, 1000, (GEMM, 20, 60, {}))
    r = context(b, name).rated.roofline
    assert r.flops[0] == 2e9
    assert np.isnan(r.attainable).all()
    assert r.bound.tolist() == [Bound.UNKNOWN]


def test_unmodelled_kernel_gets_nothing() -> None:
    b = TraceBuilder()
    op(b, "mine::op", 0, "[[8]]", '["float"]', ("my_kernel", 20, 60, {}))
    r = context(b).rated.roofline
    assert not r.modelled.any()
    assert r.bound.tolist() == [Bound.UNKNOWN]


@pytest.mark.parametrize(
    ("name", "use"),
    [
        ("ampere_sgemm_128x64_tn", NO),
        ("volta_sgemm_128x64_nn", NO),
        ("sm80_xmma_gemm_f32f32_f32f32_f32_nn_n_tilesize256x128x8", NO),
        ("void gemv2T_kernel_val<int, int, __nv_bfloat16>", NO),
        ("cutlass_80_tensorop_s1688gemm_128x128_16x4_nn_align4", YES),
        ("nvjet_sm90_tst_192x192_64x4_2x1_v_bz_coopB_bias_TNN", YES),
        ("cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16", YES),
        ("Cijk_Ailk_Bljk_BBS_BH_MT128x128x32_MI16x16x16x1_SN", YES),
        ("volta_fp16_s884gemm_fp16_128x128", YES),
        ("my_gemm", UNKNOWN),
    ],
)
def test_tensor_cores_are_told_from_the_name(name: str, use: int) -> None:
    assert tensor_cores(name) == use


def test_step_adds_up_and_says_what_it_does_not_know() -> None:
    b = TraceBuilder()
    mm(b, 1000, (GEMM, 20, 60, {}))
    op(b, "mine::op", 100, "[[8]]", '["float"]', ("my_kernel", 120, 160, {}))
    step = roofline_step(context(b).rated)
    assert step is not None
    assert step.gpu == "round"
    assert step.modelled_share == pytest.approx(0.5)
    assert (step.unmodelled_ms, step.latency_bound_ms) == (pytest.approx(0.04), pytest.approx(0.04))
    assert step.ideal_ms == pytest.approx(0.02 + 0.04)
    assert step.headroom_ms == pytest.approx(0.02)
    assert step.tflop == pytest.approx(0.002)
    assert step.mfu == pytest.approx(2e9 / 100e12 / 140e-6)
    assert step.hfu is None
    assert step.bandwidth_share == pytest.approx(6e6 / 1e12 / 140e-6)


def test_forward_operators_in_the_backward_pass_count_for_hfu_alone() -> None:
    b = TraceBuilder()
    mm(b, 1000, (GEMM, 20, 60, {}))
    b.op("autograd::engine::evaluate_function: CheckpointFunctionBackward", 90, 130)
    b.op("aten::linear", 95, 115)
    mm(b, 1000, (GEMM, 120, 160, {}), at=100)
    step = roofline_step(context(b).rated)
    assert step is not None
    assert step.hfu == pytest.approx(2 * 2e9 / 100e12 / 140e-6)
    assert step.mfu == pytest.approx(step.hfu / 2)


def test_measured_ceilings_stand_beside_the_datasheet() -> None:
    b = TraceBuilder()
    mm(b, 1000, (GEMM, 20, 60, {}))
    b.kernel("Memset", 70, 90, kind=DeviceOpKind.MEMSET, bytes=5_000_000)
    trace = b.build(devices=(Device(0, "round"),))
    ceilings = Ceilings(bandwidth=0.5e12, matmul={"bf16": 80e12, "tf32": 1e9})
    ctx = measure(replace(trace, ceilings=ceilings), Knowledge(hardware=TABLE))
    assert ctx.rated.roofline.attainable.tolist() == pytest.approx([20_000, 5_000])
    assert ctx.rated.roofline.reachable.tolist() == pytest.approx([25_000, 10_000])
    step = roofline_step(ctx.rated)
    assert step is not None
    assert (step.ideal_ms, step.reachable_ms) == (pytest.approx(0.025), pytest.approx(0.035))
    assert np.isnan(context(b).rated.roofline.reachable).all()


def test_unknown_gpu_has_work_but_no_ideal_time() -> None:
    b = TraceBuilder()
    mm(b, 1000, (GEMM, 20, 60, {}))
    step = roofline_step(context(b, "square").rated)
    assert step is not None
    assert (step.gpu, step.ideal_ms, step.mfu, step.compute_bound_ms) == (None, None, None, None)
    assert step.tflop == pytest.approx(0.002)
    assert step.unmodelled_ms == pytest.approx(0.04)


def test_rows_of_kernels_and_operators_carry_the_roofline() -> None:
    b = TraceBuilder()
    mm(b, 1000, (GEMM, 20, 60, {"blocks": 30, "threads": 1024, "occupancy": 50}))
    ctx = context(b)
    (kernel,), (operator,) = kernel_stats(ctx.rated), op_stats(ctx.rated)
    for row in (kernel, operator):
        assert row.bound_by == "latency"  # half of the tensor cores' peak
        assert row.sol == pytest.approx(0.5)
        assert row.gflop == pytest.approx(2)
        assert row.tflops == pytest.approx(50)
        assert row.headroom_ms == pytest.approx(0.02)
        assert row.intensity == pytest.approx(2e9 / 6e6)
        assert row.traffic_gbs == pytest.approx(6e6 / 40e-6 / 1e9)
    assert (kernel.tensor_cores, kernel.waves, kernel.occupancy_share) == (
        True,
        pytest.approx(1.5),
        0.5,
    )


def test_a_step_that_is_mostly_unmodelled_has_no_ideal_time() -> None:
    b = TraceBuilder()
    mm(b, 1000, (GEMM, 20, 60, {}))
    op(b, "mine::op", 100, "[[8]]", '["float"]', ("my_kernel", 120, 220, {}))
    step = roofline_step(context(b).rated)
    assert step is not None
    assert (step.ideal_ms, step.mfu, step.bandwidth_share) == (None, None, None)
    assert step.headroom_ms == pytest.approx(0.02)


def test_collectives_are_held_against_the_links_and_use_few_blocks_on_purpose() -> None:
    b = TraceBuilder()
    columns = {"collective": 0, "blocks": 2, "threads": 512}
    b.kernel("ncclDevKernel_AllReduce_Sum_bf16_RING_LL", 0, 100, **columns)
    b.kernel("ncclDevKernel_AllReduce_Sum_bf16_RING_LL", 200, 220, **columns | {"collective": 1})
    codes = [b.code(text) for text in ("allreduce", "BFloat16")]
    table = {
        "name": codes[:1] * 2,
        "in_elements": [10**6] * 2,
        "out_elements": [10**6] * 2,
        "dtype": codes[1:] * 2,
    }
    trace = b.build(
        devices=(Device(0, "round"),),
        collectives=Collectives.from_columns(table | {"group_size": [2, 64]}),
    )
    r = measure(trace, Knowledge(hardware=TABLE)).rated.roofline
    assert r.bytes[0] == pytest.approx(2e6)  # 2(n-1)/n of 2 MB
    assert r.attainable[0] == pytest.approx(20_000)
    assert r.bound.tolist() == [Bound.LINK, Bound.UNKNOWN]
