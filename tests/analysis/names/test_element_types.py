"""Element types by names of kernels, as PyTorch's profiler and Nsight Systems write them."""

from __future__ import annotations

import pytest

from traceanalyzer.analysis.names.element_types import (
    Cast,
    bytes_told,
    cast_told,
    is_of_16_bits,
    type_told,
)

COPY = "at::native::direct_copy_kernel_cuda(at::TensorIteratorBase &)::[lambda(float) (instance 1)]"


@pytest.mark.parametrize(
    ("kernel", "name"),
    [
        ("nvjet_sm90_tst_320x128_64x3_1x2_h_bz_coopB_NNT", "c10::BFloat16"),
        ("nvjet_hsh_128x64_64x8_2x1_v_bz_TNN", "c10::Half"),
        ("sm90_xmma_gemm_f32f32_tf32f32_f32_nt_n_tilesize128x128x32", "float"),
        ("sm90_xmma_gemm_f64f64_f64f64_f64_tn_n_tilesize64x64x16", "double"),
        ("sm80_xmma_gemm_cf32cf32_f32f32_cf32_nt_n_tilesize32x32x8", ""),  # or an FFT of real ones
        ("void cutlass::Kernel2<cutlass_80_simt_sgemm_128x64_8x5_nt_align1>(T1::Params)", "float"),
        (
            "void cutlass::Kernel2<cutlass_75_tensorop_bf16_s1688gemm_bf16_128x128_tn_align1>(T1::Params)",
            "c10::BFloat16",
        ),
        (
            "void at::native::vectorized_elementwise_kernel<(int)4, at::native::CUDAFunctor_add<float>>",
            "float",
        ),
        (
            "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<c10::BFloat16> >",
            "c10::BFloat16",
        ),
        (
            "void at::native::vectorized_elementwise_kernel<(int)4, at::native::CUDAFunctorOnSelf_add<long>>",
            "long int",
        ),
        ("void at::native::elementwise_kernel<(int)128, (bool)1, Equal<int>>(int, T3)", "int"),
        ("void where<at::native::where_kernel_impl()::[lambda(bool, float, float)]>", "float"),
        ("void at::native::vectorized_gather_kernel<(int)16, long>(char *, char *)", ""),
        (f"void at::native::unrolled_elementwise_kernel<{COPY}, LoadWithCast<(int)1>>", ""),
        (f"void at::native::elementwise_kernel<(int)128, {COPY}>", "float"),
        (
            "void cub::detail::scan::DeviceScanKernel<cub::detail::scan::policy_hub<long, long, unsigned int>>",
            "long int",
        ),
        ("void cudnn::fusion::convert_dq_to_16bits<(bool)1>(const void *, void *)", ""),
        ("ncclDevKernel_AllReduce_Sum_f32_RING_LL", ""),
    ],
)
def test_the_type_in_a_kernels_name(kernel: str, name: str) -> None:
    assert type_told(kernel) == name


def test_generated_attention_says_how_many_bits_alone() -> None:
    kernel = (
        "cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7_64x128x64_kernel0_0"
    )
    assert is_of_16_bits(kernel)
    assert type_told(kernel) == ""
    assert not is_of_16_bits("cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f8_knob_7")


def test_copies_to_another_type_say_what_they_write() -> None:
    offsets = "(int)4, TrivialOffsetCalculator<(int)1, unsigned int>"
    kernel = (
        f"void at::native::unrolled_elementwise_kernel<{COPY}, {offsets}, LoadWithCast<(int)1>>"
    )
    assert cast_told(kernel) == Cast("", "float")
    narrowed = "at::native::bfloat16_copy_kernel_cuda(at::TensorIteratorBase &)::[lambda(float)]"
    kernel = f"void at::native::vectorized_elementwise_kernel<(int)8, {narrowed}>"
    assert cast_told(kernel) == Cast("float", "c10::BFloat16")
    halved = kernel.replace("bfloat16", "float16")
    assert cast_told(halved) == Cast("float", "c10::Half")
    assert cast_told(f"void at::native::elementwise_kernel<(int)128, {COPY}>") is None


def test_rows_moved_by_an_index_have_elements_of_so_many_bytes() -> None:
    kernel = "void index_elementwise_kernel<(int)128, index_put_kernel_impl<at::native::OpaqueType<(int)8>>>"
    assert bytes_told(kernel) == 8
    assert bytes_told(kernel.replace("(int)8", "2").replace("index_put", "index")) == 2
    assert bytes_told("void CatArrayBatchedCopy<at::native::OpaqueType<4u>, unsigned int, 3>") == 0
