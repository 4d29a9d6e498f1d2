"""Bytes of torch.compile's kernels, against what their source does with each argument."""

from __future__ import annotations

import pytest

from traceanalyzer.analysis.roofline.op_models.call import Call, Work
from traceanalyzer.analysis.roofline.op_models.inductor import triton
from traceanalyzer.analysis.roofline.op_models.tensors import DTYPES, Tensor

BF16 = DTYPES["c10::BFloat16"]
FP32 = DTYPES["float"]


def work(name: str, *shapes: tuple[int, ...], sizes: tuple[int, ...] = (), dtype=BF16) -> Work:
    tensors = tuple(Tensor(shape, dtype) for shape in shapes)
    values = (*[""] * len(shapes), *map(str, sizes))
    return triton(Call(name, (*tensors, *[None] * len(sizes)), values))


# (in_out_ptr0, in_ptr0, ...) or (in_ptr0, ..., out_ptr0) as Inductor wrote them; read and written
# elements.
@pytest.mark.parametrize(
    ("name", "shapes", "sizes", "elements"),
    [
        (
            "addmm_gelu_view_15",
            [(2, 4096, 9728), (9728,)],
            (2 * 4096 * 9728,),
            2 * 2 * 4096 * 9728 + 9728,
        ),
        ("mul_silu_2", [(8, 4096, 8192), (8, 4096, 8192)], (8 * 4096 * 8192,), 3 * 8 * 4096 * 8192),
        ("add_3", [(64, 4096), (64, 4096)], (64 * 4096,), 3 * 64 * 4096),
        ("add_addmm_4", [(64, 4096), (4096,), (64, 4096)], (64 * 4096,), 3 * 64 * 4096 + 4096),
        ("_to_copy_0", [(64, 4096), (64, 4096)], (64 * 4096,), 2 * 64 * 4096),
        ("mul_1", [(64, 4096), (64, 4096)], (64 * 4096,), 2 * 64 * 4096),
        ("gelu_gelu_backward_1", [(64, 4096)] * 3, (64 * 4096,), 3 * 64 * 4096),
        (
            "add_mul_rsqrt_5",
            [(64, 4096), (64, 1), (4096,), (64, 4096)],
            (64 * 4096,),
            2 * 64 * 4096 + 64 + 4096,
        ),
        ("cat_2", [(64, 1024), (64, 3072), (64, 4096)], (64 * 4096,), 2 * 64 * 4096),
        ("relu_7", [(64, 4096)], (64 * 4096,), 2 * 64 * 4096),
    ],
)
def test_what_a_pointwise_kernel_moves(name, shapes, sizes, elements) -> None:
    assert work(f"triton_poi_fused_{name}", *shapes, sizes=sizes).bytes == 2 * elements


def test_a_slice_counts_as_far_as_the_kernel_goes() -> None:
    half = 2 * 333 * 2432
    found = work(
        "triton_poi_fused_clone_slice_transpose_13",
        (2, 38, 4429, 64),
        (2, 333, 2432),
        sizes=(half,),
    )
    assert found.bytes == 2 * 2 * half
    tiled = work(
        "triton_poi_fused_add_0",
        (1, 36864, 2432),
        (1, 4096, 2432),
        (1, 4096, 2432),
        sizes=(4096, 2432),
    )
    assert (tiled.bytes, tiled.flops) == (3 * 2 * 4096 * 2432, 4096 * 2432)


def test_a_reduction_reads_its_rows() -> None:
    found = work("triton_per_fused_sum_1", (512, 1024), (512,), sizes=(512, 1024), dtype=FP32)
    assert found.bytes == 4 * (512 * 1024 + 512)
    assert (
        work("triton_per_fused_native_layer_norm_0", (512, 1024), sizes=(512, 1024)).bytes
        == 2 * 2 * 512 * 1024
    )


def test_without_sizes_tensors_count_whole() -> None:
    assert work("triton_poi_fused__to_copy_0", (64, 64), (64, 64)).bytes == 2 * 2 * 64 * 64
