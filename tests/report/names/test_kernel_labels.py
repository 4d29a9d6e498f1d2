"""A kernel is called the same wherever its name has no room, and no two alike."""

from __future__ import annotations

from traceanalyzer.report.names.kernel_labels import LABEL_WIDTH, kernel_labels

TILES = [
    f"sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize{tile}_stage3_ffma_aligna4_alignc4_cublas"
    for tile in ("64x64x8", "32x32x8", "128x64x8")
]


def test_a_name_that_fits_is_its_own_label() -> None:
    assert kernel_labels(["saxpy", "vectorized_layer_norm_kernel"]) == {
        "saxpy": "saxpy",
        "vectorized_layer_norm_kernel": "vectorized_layer_norm_kernel",
    }


def test_no_two_kernels_have_one_label() -> None:
    gelu = "vectorized_elementwise_kernel<GeluCUDAKernelImpl>"
    # What one becomes without what says nothing is the name of another.
    names = [*TILES, gelu, "vectorized<Gelu>", "x" * 200, "x" * 201, "x" * 202]
    labels = kernel_labels(names)
    assert len(set(labels.values())) == len(names)
    assert max(map(len, labels.values())) <= LABEL_WIDTH
    narrow = kernel_labels(names, 28)
    assert len(set(narrow.values())) == len(names)
    assert max(map(len, narrow.values())) <= 28
    assert labels[TILES[0]] == "sm80_xmma_gem…tilesize64x64x8_stage3_ff…"
    assert labels["vectorized<Gelu>"] == "vectorized<Gelu>"


def test_labels_do_not_depend_on_how_often_a_name_comes() -> None:
    assert kernel_labels([*TILES, *TILES]) == kernel_labels(TILES)
