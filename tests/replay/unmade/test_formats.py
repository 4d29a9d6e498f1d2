"""Programs that leave 16 bits: what was cast, and attention without flash kernels."""

from functools import partial

import numpy as np
import pytest

from tests.analysis.causes.test_gaps import Program
from tests.diagnosis.test_remedies import program, within
from traceanalyzer.replay.changes.precision import SERVING_NORM
from traceanalyzer.replay.recorded import make_tape
from traceanalyzer.replay.tape import Tape
from traceanalyzer.replay.unmade.curve import limits_on, start_ns
from traceanalyzer.replay.unmade.formats import in_format
from traceanalyzer.replay.unmade.work import loads_of_tape

COPY = "void at::native::unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda>"
FLASH = "void pytorch_flash::flash_fwd_kernel<cutlass::bfloat16_t>"
PRODUCT = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64"
VECTOR_H100 = 66.9e12


def launched(
    p: Program, name: str, kernel: str, us: float, shapes: str, types: str, values: str = "[]"
) -> None:
    columns = {"shapes": shapes, "dtypes": p.code(types), "concrete": p.code(values)}
    within(p, name, lambda p: p.spend(10).launch(kernel, us), **columns)


def under_autocast(p: Program) -> None:
    both = "[[1024,1024],[1024,1024],[]]"
    for _ in range(4):
        launched(p, "aten::copy_", COPY, 5, both, '["c10::BFloat16","float","Scalar"]')
        launched(p, "aten::copy_", COPY, 5, both, '["float","float","Scalar"]')
        narrow = '["c10::BFloat16","c10::BFloat16"]'
        launched(p, "aten::mm", PRODUCT, 30, "[[4096,1024],[1024,1024]]", narrow)


def attending(p: Program) -> None:
    heads = "[8,16,1024,64]"
    shapes = f"[{heads},{heads},{heads},[],[]]"
    name = "aten::_scaled_dot_product_flash_attention"
    for _ in range(4):
        types = '["c10::BFloat16","c10::BFloat16","c10::BFloat16","Scalar","Scalar"]'
        launched(p, name, FLASH, 100, shapes, types, '["", "", "", "0.", "False"]')


def tape_of(step: partial[None]) -> Tape:
    tape = make_tape(program(step).rated)
    assert tape is not None
    return tape


def in_fp32(tape: Tape) -> Tape:
    load = loads_of_tape(tape, None).then
    return in_format(tape, load, limits_on(tape, tape.source.linked.gpus), "fp32").tape


def test_what_was_cast_is_not_launched_any_more() -> None:
    tape = tape_of(partial(under_autocast))
    wide = in_fp32(tape)
    gone = (wide.duration == 0).reshape(-1, 3)
    assert gone.all(axis=0).tolist() == [True, False, False]
    assert not gone.any(axis=0)[1:].any()
    before = tape.dispatch[tape.event].reshape(-1, 3)
    after = wide.dispatch[wide.event].reshape(-1, 3)
    # Ten us of the operator, and the four of its launch that are over before the next event.
    assert ((before - after)[1:] / 1e3).tolist() == [[10, 4, 0]] * (len(before) - 1)


def test_attention_in_fp32_runs_on_the_ordinary_cores() -> None:
    tape = tape_of(partial(attending))
    flops = 4 * 8 * 16 * 1024 * 1024 * 64
    expected = start_ns(tape)[0] + flops / (0.28 * VECTOR_H100) * 1e9
    assert np.unique(in_fp32(tape).duration) == pytest.approx(expected, rel=0.01)


EFFICIENT = (
    "fmha_cutlassF_f32_aligned_64x64_rf_sm80(PyTorchMemEffAttention::AttentionKernel<float>)"
)


def attending_in_fp32(p: Program, *, heads: str, dropped: str) -> None:
    shapes = f"[{heads},{heads},{heads},[],[],[],[]]"
    types = '["float","float","float","","Scalar","Scalar","Scalar"]'
    values = f'["", "", "", "", "True", "{dropped}", "False"]'
    name = "aten::_scaled_dot_product_efficient_attention"
    for _ in range(4):
        launched(p, name, EFFICIENT, 4_000, shapes, types, values)


def attended_ns(heads: str, dropped: str = "0.") -> float:
    tape = tape_of(partial(attending_in_fp32, heads=heads, dropped=dropped))
    load = loads_of_tape(tape, None).then
    found = in_format(tape, load, limits_on(tape, tape.source.linked.gpus), "bf16").tape
    return float(np.median(found.duration))


def test_attention_in_16_bits_works_on_whole_tiles() -> None:
    sequences = 4096
    part = attended_ns(f"[{sequences},8,32,24]")
    whole = attended_ns(f"[{sequences},8,64,24]")
    twice = attended_ns(f"[{sequences},8,65,24]")
    assert part == pytest.approx(whole)
    # Two tiles of rows, each over two of the others instead of one, and as long to begin and end.
    assert (twice - 3_000) / (whole - 3_000) == pytest.approx(2 * (2 + 2) / (1 + 2), rel=0.01)


def test_random_numbers_for_dropout_take_longer_than_the_exponential() -> None:
    heads = "[32,16,512,64]"
    without = attended_ns(heads)
    assert attended_ns(heads, "0.10000000000000001") > 2 * without


def normalised(p: Program) -> None:
    norm = "void at::native::batch_norm_transform_input_kernel<c10::BFloat16, float, float, true>"
    maps = "[[32,64,56,56],[64],[64]]"
    narrow = '["c10::BFloat16","c10::BFloat16"]'
    for _ in range(4):
        launched(p, "aten::mm", PRODUCT, 30, "[[4096,1024],[1024,1024]]", narrow)
        launched(p, "aten::batch_norm", norm, 50, maps, '["c10::BFloat16","float","float"]')


def test_batch_norms_of_bf16_are_cudnns_in_fp32() -> None:
    tape = tape_of(partial(normalised))
    share = in_fp32(tape).duration[1] / tape.duration[1]
    assert share == pytest.approx(1 / SERVING_NORM, rel=0.01)
