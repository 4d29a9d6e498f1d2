"""Which ceiling a kernel is nearest to, and the expected traffic and instructions that this is told
by."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.analysis.build import TraceBuilder
from tests.analysis.roofline.test_roofline import GPU, mm, op
from traceanalyzer.analysis.joined.knowledge import Knowledge
from traceanalyzer.analysis.roofline.bounds import Bound, Reached, bounds
from traceanalyzer.analysis.roofline.traffic import PASSES, SLOTS, tile
from traceanalyzer.diagnosis.measurements import Measurements, measure
from traceanalyzer.trace import Device
from traceanalyzer.trace.hardware import HardwareTable

# 1,280e9 instructions a second: 4 schedulers of 32 threads, half of 10 TFLOP/s over 500 lanes
LARGE = replace(GPU, fp32_lanes_per_sm=500, cache_bytes=1_000_000)


def context(builder: TraceBuilder) -> Measurements:
    return measure(
        builder.build(devices=(Device(0, "round"),)), Knowledge(hardware=HardwareTable((LARGE,)))
    )


def kernel(
    name: str,
    operator: str,
    shapes: list[list[int]],
    us: float,
    dtype: str = "float",
    **columns: Any,
) -> Measurements:
    b = TraceBuilder()
    dtypes = json.dumps([dtype if shape else "Scalar" for shape in shapes])
    op(
        b,
        operator,
        0,
        json.dumps(shapes),
        dtypes,
        (name, 100, 100 + us, {"blocks": 1000, "threads": 128, **columns}),
    )
    return context(b)


@pytest.mark.parametrize(
    ("arithmetic", "tensor", "instructions", "memory", "bound"),
    [
        (0.7, False, 0.2, 0.3, Bound.COMPUTE),
        (0.56, True, np.nan, 0.3, Bound.COMPUTE),
        (0.56, False, np.nan, 0.3, Bound.LATENCY),
        (0.1, False, 0.8, 0.7, Bound.INSTRUCTIONS),
        (0.1, False, 0.7, 0.8, Bound.MEMORY),
        (0.57, True, 0.0, 0.61, Bound.COMPUTE),
        (np.nan, False, np.nan, np.nan, Bound.LATENCY),
    ],
)
def test_the_nearest_ceiling_counts(arithmetic, tensor, instructions, memory, bound):
    arrays = [np.array([value], np.float64) for value in (arithmetic, instructions, memory)]
    assert bounds(Reached(arrays[0], np.array([tensor]), arrays[1], arrays[2])).tolist() == [bound]


def test_instructions_of_known_kernels_are_a_ceiling():
    name = "void at::native::vectorized_elementwise_kernel<4, at::native::GeluCUDAKernelImpl(int)>(int)"
    ctx = kernel(
        name, "aten::gelu", [[1000, 1000]], 30
    )  # 30 slots x 1e6 / 1.28e12 = 23.4 us, memory 8 us
    assert ctx.rated.roofline.bound.tolist() == [Bound.INSTRUCTIONS]
    assert ctx.rated.roofline.attainable[0] == pytest.approx(8_000)
    assert (
        kernel(
            name.replace("Gelu", "Unlisted"), "aten::gelu", [[1000, 1000]], 30
        ).rated.roofline.bound[0]
        == Bound.LATENCY
    )


def test_kernels_that_cannot_have_gone_over_all_elements_are_not_judged_by_them():
    name = "void at::native::reduce_kernel<512, 1, at::native::ArgMaxOps>(int)"
    slow, quick = (
        kernel(name, "aten::argmax", [[1000, 1000]], us).rated.roofline.bound[0] for us in (40, 20)
    )
    assert (slow, quick) == (Bound.INSTRUCTIONS, Bound.LATENCY)  # 39e6 / 1.28e12 = 30 us


def test_instructions_a_block():
    name = "void at::native::vectorized_layer_norm_kernel<float, float, false>(int)"
    # (28e6 + 4.4e6) / 1.28e12 = 25 us, (28e6 + 44e6) / 1.28e12 = 56 us; as softmax, whose model
    # needs no values
    few = kernel(name, "aten::_softmax", [[1000, 1000]], 80, blocks=100)
    many = kernel(name, "aten::_softmax", [[1000, 1000]], 80, blocks=1000)
    assert (few.rated.roofline.bound[0], many.rated.roofline.bound[0]) == (
        Bound.LATENCY,
        Bound.INSTRUCTIONS,
    )


def test_data_that_the_cache_keeps_does_not_wait_for_the_memory():
    name = "void at::native::vectorized_elementwise_kernel<4, at::native::neg>(int)"
    assert kernel(name, "aten::neg", [[1000, 1000]], 10).rated.roofline.bound[0] == Bound.MEMORY
    assert kernel(name, "aten::neg", [[50, 1000]], 0.5).rated.roofline.bound[0] == Bound.LATENCY


def test_products_read_their_operands_wave_by_wave_when_the_cache_does_not_hold_them():
    b = TraceBuilder()
    mm(
        b,
        4096,
        (
            "nvjet_sm90_tst_128x64_64x8_1x2_h_bz_NNT",
            100,
            2000,
            {"blocks": 10, "threads": 512, "registers": 128},
        ),
    )
    ctx = context(b)  # 10 tiles at a time: 8 x 1.25
    reads = 4096**3 * 2 * (8 + 10 / 8) * (128 + 64) / 2 / (10 * 128 * 64)
    assert ctx.rated.roofline.expected[0] == pytest.approx(reads + 4096**2 * 2)
    assert ctx.rated.roofline.bytes[0] == 3 * 4096**2 * 2
    by_rows = TraceBuilder()
    columns = {"blocks": 2048, "threads": 512, "registers": 128}
    shapes = "[[4096,1024],[1024,2048]]"
    dtypes = '["float","float"]'
    op(by_rows, "aten::mm", 0, shapes, dtypes, ("ampere_sgemm_128x64_nn", 100, 9000, columns))
    area = (
        10 * 128 * 64
    )  # more blocks than run at a time: a wave is a part of rows or columns of tiles
    sides = (4096 + area / 4096 + 2048 + area / 2048) / 2
    reads = 4096 * 1024 * 2048 * 4 * sides / area
    assert context(by_rows).rated.roofline.expected[0] == pytest.approx(reads + 4096 * 2048 * 4)
    small = TraceBuilder()
    mm(
        small,
        256,
        ("nvjet_sm90_tst_128x64_64x8_1x2_h_bz_NNT", 100, 2000, {"blocks": 10, "threads": 512}),
    )
    assert context(small).rated.roofline.expected[0] == 3 * 256**2 * 2


def test_kernels_of_one_operator_go_over_its_tensors_as_their_algorithm_tells():
    b = TraceBuilder()
    sizes = json.dumps([[8, 32, 1000], [8, 32, 1000], [8], [8], [8], [8], [8]])
    reduce = "batch_norm_backward_reduce_channels_last_kernel"
    apply = "batch_norm_backward_elemt_channels_last_kernel"
    kernels = ((reduce, 50, 60, {}), (apply, 60, 70, {}), ("void FillFunctor", 70, 71, {}))
    op(b, "aten::native_batch_norm_backward", 0, sizes, json.dumps(["float"] * 7), *kernels)
    expected = context(b).rated.roofline.expected
    assert expected.tolist() == [2 * 256_000 * 4, 3 * 256_000 * 4, 0]


def test_kernels_around_convolutions():
    b = TraceBuilder()
    image = [8, 64, 50, 50]
    filters = [64, 64, 3, 3]
    values = ["", "", "", "[]", "[1]", "[1]", "[1]", "False", "[0]", "1", "[True, True, False]"]
    columns = {
        "shapes": json.dumps([image, image, filters, *[[]] * 8]),
        "concrete": b.code(json.dumps(values)),
    }
    b.op(
        "aten::convolution_backward",
        0,
        10,
        dtypes=b.code(json.dumps(["float"] * 3 + [""] * 8)),
        **columns,
    )
    kernels = (
        ("nchwToNhwcKernel<float>", 1250),
        ("nchwToNhwcKernel<float>", 36),
        ("sm80_xmma_dgrad", 99),
    )
    for i, (name, blocks) in enumerate(kernels):
        b.call("cudaLaunchKernel", 1 + i, 2 + i, i + 1)
        b.kernel(name, 100 * i + 20, 100 * i + 110, i + 1, blocks=blocks, threads=256)
    inputs = (2 * 8 * 64 * 50 * 50 + 64 * 64 * 9) * 4
    layouts = [
        2 * 4 * blocks * 256 * 4 for blocks in (1250, 36)
    ]  # four elements a thread, read and written
    assert context(b).rated.roofline.expected.tolist() == [*layouts, inputs]


def test_instructions_a_thread_and_an_operation():
    b = TraceBuilder()
    sizes = json.dumps([[1000, 100, 100], [], [], [], []])
    values = json.dumps(["", "[2, 2]", "[2, 2]", "[]", "False"])
    columns = {
        "shapes": sizes,
        "dtypes": b.code('["float","","","",""]'),
        "concrete": b.code(values),
    }
    b.op("aten::avg_pool2d", 0, 10, **columns)
    b.call("cudaLaunchKernel", 1, 2, 1).kernel(
        "avg_pool2d_out_cuda_frame", 20, 920, 1, blocks=1000, threads=128
    )
    time = 73 * 1000 * 50 * 50 * 4 / LARGE.issue_rate * 1e9  # 570 of 900 us
    assert time / 900_000 == pytest.approx(0.634, abs=1e-3)
    assert context(b).rated.roofline.bound.tolist() == [Bound.INSTRUCTIONS]


def test_rows_are_read_again_where_the_running_blocks_exceed_the_cache():
    name = "void at::native::cunn_SoftMaxForward<4, float>(int)"
    held = {"blocks": 1000, "threads": 1024, "registers": 16}  # 20 blocks at a time, 1 MB of cache
    assert kernel(name, "aten::_softmax", [[1000, 1000]], 90, **held).rated.roofline.expected[
        0
    ] == pytest.approx(8e6)
    long = kernel(name, "aten::_softmax", [[1000, 20000]], 900, **held)  # 20 x 80 kB
    assert long.rated.roofline.expected[0] == pytest.approx(4 * 80e6)


def test_no_kernel_is_expected_to_move_more_than_the_memory_can():
    name = "void at::native::cunn_SoftMaxForward<4, float>(int)"
    quick = kernel(
        name, "aten::_softmax", [[1000, 20000]], 200, blocks=1000, threads=1024, registers=16
    )
    assert quick.rated.roofline.expected[0] == pytest.approx(200e6)


def test_look_ups_miss_the_cache_as_far_as_it_does_not_hold_the_table():
    b = TraceBuilder()
    shapes = json.dumps([[10_000, 100], [20_000]])
    dtypes = json.dumps(["float", "long int"])
    op(b, "aten::embedding", 0, shapes, dtypes, ("void vectorized_gather_kernel<16>", 50, 90, {}))
    table = 4e6
    written = 8e6
    index = 160e3
    expected = context(b).rated.roofline.expected[0]
    assert expected == pytest.approx(written + written * (1 - 1e6 / (table + index)))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("nvjet_sm90_tst_320x128_64x3_1x2_h_bz_coopB_NNT", (320, 128)),
        (
            "sm80_xmma_gemm_f32f32_f32f32_f32_nn_n_tilesize256x64x8_stage3_warpsize4x2x1_ffma_cublas",
            (256, 64),
        ),
        ("void cutlass::Kernel2<cutlass_80_tensorop_s1688gemm_128x64_16x6_nn_align4>", (128, 64)),
        ("ampere_bf16_s16816gemm_bf16_64x128_ldg8_f2f_stages_64x3_nn", (64, 128)),
        ("volta_sgemm_32x128_nn", (32, 128)),
        ("Cijk_Ailk_Bljk", (128, 128)),
    ],
)
def test_tiles_by_name(name, expected):
    assert tile(name) == expected


def test_tables_hold_no_pattern_twice():
    for table in (SLOTS, PASSES):
        patterns = [entry.kernel.pattern for entry in table]
        assert len(patterns) == len(set(patterns))
        assert all(isinstance(entry.kernel, re.Pattern) for entry in table)


def test_products_of_a_batch_find_their_own_operands_in_the_cache():
    """Sixteen products of 0.5 MB each: a cache of 1 MB holds those of one, not all."""
    columns = {"blocks": 256, "threads": 512, "registers": 128}
    many = kernel(
        "ampere_sgemm_64x64_nn", "aten::bmm", [[16, 256, 256], [16, 256, 256]], 9000, **columns
    )
    assert many.rated.roofline.expected[0] == 16 * 3 * 256**2 * 4
    one = kernel(
        "ampere_sgemm_64x64_nn", "aten::bmm", [[1, 1024, 1024], [1, 1024, 1024]], 9000, **columns
    )
    assert one.rated.roofline.expected[0] > 3 * 1024**2 * 4


def test_matrix_kernels_of_an_operator_share_its_traffic_beside_kernels_that_are_described():
    b = TraceBuilder()
    image = [1, 64, 20, 20]
    filters = [64, 64, 3, 3]
    values = ["", "", "", "[]", "[1]", "[1]", "[1]", "False", "[0]", "1", "[True, True, False]"]
    columns = {
        "shapes": json.dumps([image, image, filters, *[[]] * 8]),
        "concrete": b.code(json.dumps(values)),
    }
    b.op(
        "aten::convolution_backward",
        0,
        10,
        dtypes=b.code(json.dumps(["float"] * 3 + [""] * 8)),
        **columns,
    )
    kernels = (
        ("nchwToNhwcKernel<float>", 1250),
        ("ampere_sgemm_128x64_nn", 99),
        ("ampere_sgemm_64x64_nn", 99),
    )
    for i, (name, blocks) in enumerate(kernels):
        b.call("cudaLaunchKernel", 1 + i, 2 + i, i + 1)
        b.kernel(name, 100 * i + 20, 100 * i + 110, i + 1, blocks=blocks, threads=256)
    least = (4 * 64 * 20 * 20 + 2 * 64 * 64 * 9) * 4
    assert context(b).rated.roofline.expected[1:].tolist() == pytest.approx([least / 2] * 2)
