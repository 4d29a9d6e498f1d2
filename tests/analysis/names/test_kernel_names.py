"""The name that a kernel goes by, told from its parameters and its result; mangled names made
legible."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from traceanalyzer.analysis.names.kernel_classes import KernelClasses
from traceanalyzer.analysis.names.kernel_names import own_name, short_name
from traceanalyzer.ingest.mangled import demangled

GEMV = (
    "std::enable_if<(((8)>(0)))&&vllm::_typeConvert<c10::BFloat16>::exists, void>::type "
    "internal::gemvx::kernel<int, float, 8>(cublasGemvParamsEx<int>)"
)


@pytest.mark.parametrize(
    ("name", "own", "short"),
    [
        ("render(vec3*, int, int, curandStateXORWOW*)", "render", "render"),
        ("void kernel_IMGA(float*, curandStateXORWOW*)", "void kernel_IMGA", "kernel_IMGA"),
        ("unsigned int count<int>(cudnn::reduced*)", "count<int>", "count"),
        (GEMV, "internal::gemvx::kernel<int, float, 8>", "internal::gemvx::kernel"),
        (
            "void (anonymous namespace)::soft<float>(float*)",
            "void (anonymous namespace)::soft<float>",
            "soft",
        ),
        ("a::operator<(a const&)", "a::operator<", "a::operator"),
        ("Memcpy HtoD (Pageable -> Device)", "Memcpy HtoD ", "Memcpy HtoD"),
        ("nvjet_tst_192x192_64x4", "nvjet_tst_192x192_64x4", "nvjet_tst_192x192_64x4"),
        ("", "", ""),
    ],
)
def test_a_name_without_what_stands_around_it(name: str, own: str, short: str) -> None:
    assert own_name(name) == own
    assert short_name(name).startswith(short)


@pytest.mark.parametrize(
    ("name", "cls"),
    [
        ("render(vec3*, int, int, curandStateXORWOW*)", "other"),
        ("kernel_IMGA(float*, curandStateXORWOW*)", "other"),
        ("generate_seed_pseudo(unsigned long long, curandStateXORWOW*)", "random"),
        (GEMV, "gemm"),
        ("dag_step(cudnn::reduced_divisor)", "other"),
    ],
)
def test_parameters_do_not_say_what_a_kernel_does(name: str, cls: str) -> None:
    classes = KernelClasses.load()
    assert classes.names[classes.class_of(name)] == cls


@pytest.mark.parametrize(
    ("name", "legible", "cls"),
    [
        (
            "_ZN5cudnn25bn_fw_tr_1C11_kernel_NCHWIffLi512ELb1ELi1EEEv17cudnnTensorStructPKfS1_Pf",
            "void cudnn::bn_fw_tr_1C11_kernel_NCHW<float, float, 512, true, 1>",
            "normalisation",
        ),
        (
            "_ZN7cutlass7Kernel2I54cutlass_80_tensorop_s1688gemm_128x128_16x5_nn_align4_xEEvNT_6ParamsE",
            "void cutlass::Kernel2<cutlass_80_tensorop_s1688gemm_128x128_16x5_nn_align4_x>",
            "gemm",
        ),
        (
            "_ZN14cask__5x_cudnn20computeOffsetsKernelENS_20ComputeOffsetsParamsE",
            "cask__5x_cudnn::computeOffsetsKernel",
            "convolution",
        ),
        (
            "_ZN5aiter24add_rmsnorm_quant_kernelIDF16bDF16bLi64ELi8ELb0EEEvPT0_PT_PfS4_d",
            "void aiter::add_rmsnorm_quant_kernel<__bf16, __bf16, 64, 8, false>",
            "normalisation",
        ),
        ("_Z9vectorAddPKfS0_Pfi", "vectorAdd", "elementwise"),
        ("_ZL6kernelPf.kd", "kernel", "other"),
        (
            "_ZN2at6native12_GLOBAL__N_119CatArrayBatchedCopyINS1_10OpaqueTypeILj16EEEjLi4EEEvPT_",
            "void at::native::(anonymous namespace)::CatArrayBatchedCopy<OpaqueType<16>, unsigned int, 4>",
            "layout",
        ),
        (
            "_ZN17cutlass__5x_cudnn6KernelINS_4conv6kernel23Implicit",
            "cutlass__5x_cudnn::Kernel<conv::kernel::Implicit...",
            "convolution",
        ),
        ("_ZN2at6native4foldIZNS0_3sumEvEUlvE_EEvv", "at::native::fold<sum...", "other"),
        ("_Z", "_Z", "other"),
        ("_Zebra", "_Zebra", "other"),
        ("Zebra", "Zebra", "other"),
    ],
)
def test_mangled_names(name: str, legible: str, cls: str) -> None:
    assert demangled(name) == legible
    if legible != name:
        classes = KernelClasses.load()
        assert classes.names[classes.class_of(legible)] == cls


@given(st.text(alphabet="_ZNIEJLSTPKRFAXDi0123456789abv.", max_size=60))
def test_any_text_is_read_without_an_error(text: str) -> None:
    assert demangled("_Z" + text)
    assert isinstance(own_name(text), str)


def test_a_mangled_name_that_was_cut_anywhere_is_read_without_an_error() -> None:
    name = "_ZN7cutlass6deviceKILi5ELb1EN4cute5tupleIJNS4_1CILi64EEEEEEvT_"
    for end in range(len(name)):
        assert isinstance(demangled(name[:end]), str)


def test_a_plain_name_is_short_as_it_is() -> None:
    assert short_name("triton_poi_fused_add_0") == "triton_poi_fused_add_0"
    assert short_name("k" * 200) == "k" * 119 + "…"
