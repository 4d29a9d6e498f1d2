from __future__ import annotations

import pytest

from traceanalyzer.analysis.names.kernel_names import streams_weights


@pytest.mark.parametrize(
    ("kernel", "narrow"),
    [
        ("_matmul_ogs_NNT_bf16xbf16xmxfp4_16x128x256x1_swiglu", True),
        ("Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT32x16x256_MI16x16x1", True),
        ("nvjet_tst_128x8_64x12_4x1_v_bz_TNT", True),
        ("sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize64x32x64_warpgroupsize1x1x1", True),
        ("sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1", False),
        (
            "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_bf16_128x64_32x6_nn_align8>",
            False,
        ),
        ("ampere_sgemm_32x32_sliced1x4_tn", False),
        ("gemv", False),
    ],
)
def test_a_tile_of_few_rows_streams_weights(kernel: str, narrow: bool) -> None:
    assert streams_weights(kernel) is narrow
