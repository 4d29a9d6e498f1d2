"""What kernels and calls tell of operators that were recorded with shapes alone."""

from __future__ import annotations

import pytest

from tests.analysis.build import TraceBuilder
from traceanalyzer.analysis.joined.linked import Linked
from traceanalyzer.analysis.joined.told_inputs import with_told_inputs
from traceanalyzer.trace import Trace


def told(trace: Trace, column: str) -> dict[str, str | None]:
    """By name of the operator a column of its inputs."""
    found = with_told_inputs(Linked(trace))
    assert found is not None
    ranges = found.host_ranges
    codes = getattr(ranges, column)
    return {found.strings[n]: found.text(c) for n, c in zip(ranges.name, codes, strict=True)}


def test_an_operator_has_the_type_of_its_longest_kernel() -> None:
    b = TraceBuilder()
    b.op("aten::linear", 0, 30, shapes="[[4, 8], [2, 8], []]")
    b.op("aten::addmm", 1, 29, shapes="[[2], [4, 8], [8, 2], [], []]")
    b.call("cudaLaunchKernel", 2, 3, correlation=1)
    b.kernel("void fill<float>()", 5, 6, correlation=1)
    b.call("cudaLaunchKernel", 4, 5, correlation=2)
    b.kernel("nvjet_tst_128x64_64x8_2x1_v_bz_TNN", 6, 20, correlation=2)
    types = told(b.build(), "dtypes")
    assert types["aten::linear"] == '["c10::BFloat16","c10::BFloat16",""]'
    assert types["aten::addmm"] == '["c10::BFloat16","c10::BFloat16","c10::BFloat16","",""]'


def test_indices_and_lists_are_no_numbers() -> None:
    b = TraceBuilder()
    b.op("aten::gather", 0, 10, shapes="[[4, 8], [], [4, 2], []]")
    b.call("cudaLaunchKernel", 1, 2, correlation=1)
    b.kernel("void gather<float, long>()", 5, 9, correlation=1)
    b.op("aten::cat", 20, 30, shapes="[[[4, 8], [4, 8]], []]")
    b.call("cudaLaunchKernel", 21, 22, correlation=2)
    b.kernel("void cat<float>()", 25, 29, correlation=2)
    types = told(b.build(), "dtypes")
    assert types["aten::gather"] == '["float","","long int",""]'
    assert types["aten::cat"] == '["TensorList",""]'


def test_a_tensor_is_taken_apart_along_the_dimension_with_as_many_items() -> None:
    b = TraceBuilder()
    b.op("aten::unbind", 0, 30, shapes="[[5, 3], []]")
    for start in (1, 10, 20):
        b.op("aten::select", start, start + 5, shapes="[[5, 3], [], []]")
    assert told(b.build(), "concrete")["aten::unbind"] == '["","1"]'


NARROWED = "void vectorized<bfloat16_copy_kernel_cuda(at::TensorIteratorBase &)::[lambda(float)]>"
PRODUCT = "nvjet_sm90_tst_128x64_NNT"


def product_with_casts(shapes: str, *cast: str, before: str = "") -> str | None:
    """The types of a product that casts tensors of these shapes, before or after another kernel."""
    b = TraceBuilder()
    b.op("aten::linear", 0, 100, shapes=shapes)
    b.op("aten::addmm", 80, 99, shapes=shapes)
    kernels = [before] * bool(before) + [NARROWED] * len(cast) + [PRODUCT]
    for i, kernel in enumerate(kernels):
        at = 10 * i + 1 if kernel is not PRODUCT else 81
        if kernel is NARROWED:
            shape = cast[i - bool(before)]
            b.op("aten::copy_", at, at + 5, shapes=f"[{shape}, {shape}, []]")
        b.call("cudaLaunchKernel", at + 1, at + 2, correlation=i + 1)
        b.kernel(kernel, at + 100, at + (150 if kernel is PRODUCT else 101), correlation=i + 1)
    types = told(b.build(), "dtypes")
    assert types["aten::addmm"] == '["c10::BFloat16","c10::BFloat16","c10::BFloat16"]'
    return types["aten::linear"]


def test_what_an_operator_casts_first_was_given_in_fp32() -> None:
    """As under an autocast, which casts a product's data and weights, or keeps casts of weights."""
    shapes = "[[4, 8], [2, 8], [2]]"
    assert product_with_casts(shapes, "[4, 8]") == '["float","c10::BFloat16","c10::BFloat16"]'
    assert product_with_casts(shapes, "[2, 8]", "[2]") == '["c10::BFloat16","float","float"]'


def test_of_a_cast_of_one_of_two_alike_or_after_a_kernel_nothing_is_known() -> None:
    in_16_bits = '["c10::BFloat16","c10::BFloat16","c10::BFloat16"]'
    alike = "[[8, 8], [8, 8], [8]]"
    assert product_with_casts(alike, "[8, 8]") == in_16_bits
    assert product_with_casts(alike, "[8, 8]", "[8, 8]") == '["float","float","c10::BFloat16"]'
    assert product_with_casts("[[4, 8], [2, 8], [2]]", "[4, 8]", before="fill") == in_16_bits


def attention_beside(kernel: str) -> str | None:
    """The types of attention of 16 bits, beside a product of this kernel."""
    b = TraceBuilder()
    b.op("aten::_cudnn_attention_forward", 0, 10, shapes="[[1, 2, 4, 8], []]")
    b.call("cudaLaunchKernel", 1, 2, correlation=1)
    b.kernel(
        "cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7", 3, 9, correlation=1
    )
    b.op("aten::mm", 20, 30, shapes="[[2, 2], [2, 2]]")
    b.call("cudaLaunchKernel", 21, 22, correlation=2)
    b.kernel(kernel, 23, 29, correlation=2)
    return told(b.build(), "dtypes")["aten::_cudnn_attention_forward"]


def test_attention_of_16_bits_has_the_type_of_16_bits_of_the_other_kernels() -> None:
    assert attention_beside("nvjet_sm90_tst_128x64_NNT") == '["c10::BFloat16",""]'
    assert attention_beside("nvjet_sm90_hsh_128x64_NNT") == '["c10::Half",""]'
    assert attention_beside("nvjet_sm90_sss_128x64_NNT") is None


def copied_by(kernel: str, beside: str) -> dict[str, str | None]:
    """The types of a copy within a change of type, and of a product by another kernel."""
    b = TraceBuilder()
    b.op("aten::_to_copy", 0, 10, shapes="[[4, 8], []]")
    b.op("aten::copy_", 1, 9, shapes="[[4, 8], [4, 8], []]")
    b.call("cudaLaunchKernel", 2, 3, correlation=1)
    b.kernel(kernel, 4, 8, correlation=1)
    b.op("aten::mm", 20, 30, shapes="[[2, 2], [2, 2]]")
    b.call("cudaLaunchKernel", 21, 22, correlation=2)
    b.kernel(beside, 23, 29, correlation=2)
    return told(b.build(), "dtypes")


def test_a_copy_to_another_type_reads_one_and_writes_the_other() -> None:
    narrowed = (
        "void vectorized<bfloat16_copy_kernel_cuda(at::TensorIteratorBase &)::[lambda(float)]>"
    )
    types = copied_by(narrowed, "nvjet_sm90_tst_128x64_NNT")
    assert types["aten::copy_"] == '["c10::BFloat16","float",""]'
    assert types["aten::_to_copy"] == '["float",""]'
    widened = (
        "void unrolled<direct_copy_kernel_cuda()::[lambda(float)], (int)4, LoadWithCast<(int)1>>"
    )
    types = copied_by(widened, "nvjet_sm90_hsh_128x64_NNT")
    assert types["aten::copy_"] == '["float","c10::Half",""]'
    assert types["aten::_to_copy"] == '["c10::Half",""]'


@pytest.mark.parametrize(
    ("kernel", "code"),
    [
        (NARROWED, "15"),
        (NARROWED.replace("bfloat16", "float16"), "5"),
        ("void unrolled<direct_copy_kernel_cuda()::[lambda(float)], LoadWithCast<(int)1>>", "6"),
    ],
    ids=["bf16", "fp16", "fp32"],
)
def test_a_change_of_type_has_the_type_that_its_kernel_writes(kernel: str, code: str) -> None:
    b = TraceBuilder()
    for at, name in ((0, kernel), (20, PRODUCT)):
        b.op("aten::_to_copy" if name is kernel else "aten::mm", at, at + 10, shapes="[[4, 8]]")
        b.call("cudaLaunchKernel", at + 2, at + 3, correlation=at + 1)
        b.kernel(name, at + 4, at + 9, correlation=at + 1)
    values = told(b.build(), "concrete")
    assert values["aten::_to_copy"] == f'["","{code}"]'
    assert values["aten::mm"] is None


def test_a_copy_from_a_type_that_nothing_tells_has_none() -> None:
    widened = (
        "void unrolled<direct_copy_kernel_cuda()::[lambda(float)], (int)4, LoadWithCast<(int)1>>"
    )
    assert copied_by(widened, "nvjet_sm90_sss_128x64_NNT")["aten::copy_"] is None
    counted = widened.replace("lambda(float)", "lambda(long)")
    assert copied_by(counted, "nvjet_sm90_hsh_128x64_NNT")["aten::copy_"] is None


@pytest.mark.parametrize(
    ("size", "dtype"), [(1, "bool"), (2, "c10::Half"), (4, "float"), (8, "long int")]
)
def test_rows_picked_by_an_index_have_a_type_of_as_many_bytes(size: int, dtype: str) -> None:
    kernel = f"void index<index_kernel_impl<at::native::OpaqueType<(int){size}>>(long)>"
    types = copied_by(kernel, "nvjet_sm90_hsh_128x64_NNT")
    assert types["aten::copy_"] == f'["{dtype}","{dtype}",""]'


def test_what_was_recorded_stays() -> None:
    b = TraceBuilder()
    b.op("aten::mm", 0, 10, shapes="[[2, 2], [2, 2]]", dtypes=b.code('["float","float"]'))
    assert with_told_inputs(Linked(b.build())) is None
