"""Programs that leave 16 bits: what was cast, and attention without flash kernels."""

from functools import partial

import numpy as np
import pytest

from tests.analysis.causes.test_gaps import Program
from tests.diagnosis.test_remedies import program, within
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
