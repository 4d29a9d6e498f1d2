"""Attention written out, as one kernel: what goes with it, how long that takes, and where it would
take as long."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from tests.diagnosis.test_remedies import ADD, GEMM, program, within
from traceanalyzer.replay.changes.attention import (
    WITH_GRADIENT,
    attention_fused,
    summed_shapes,
)
from traceanalyzer.replay.recorded import make_tape

if TYPE_CHECKING:
    from tests.analysis.causes.test_gaps import Program
    from traceanalyzer.replay.tape import Tape

SOFTMAX = "void (anonymous namespace)::softmax_warp_forward<c10::BFloat16>"
COPY = "void at::native::elementwise_kernel<128, 4, at::native::gpu_kernel_impl_nocast<at::native::direct_copy_kernel"
SGEMM = "ampere_sgemm_128x64_nn"
BATCH = 64
TOKENS = 2048
SIZE = 64
QUERIES = f"[{BATCH},{TOKENS},{SIZE}]"
SCORES = f"[{BATCH},{TOKENS},{TOKENS}]"
PEAK = 989.5e12
ISSUED = 132 * 128 * 1.98e9
"""Of an H200: FLOP/s in bf16, and issue slots a second at the highest clock."""


def one(
    p: Program, name: str, shapes: str, kernel: str, us: float, dtype: str = "c10::BFloat16"
) -> None:
    tensors = shapes.count("[") - 1
    dtypes = "[" + ",".join([f'"{dtype}"'] * tensors) + "]"
    within(p, name, lambda p: p.spend(5).launch(kernel, us), shapes=shapes, dtypes=p.code(dtypes))


def multiplied(p: Program, left: str, right: str, kernel: str, dtype: str) -> None:
    """A product with the copy of an operand that its operator makes."""
    one(p, "aten::copy_", f"[{left},{left}]", COPY, 50, dtype)
    one(p, "aten::bmm", f"[{left},{right}]", kernel, 300, dtype)


def attention(
    p: Program, *, softmax: str = "aten::_softmax", kernel: str = GEMM, dtype: str = "c10::BFloat16"
) -> None:
    one(p, "aten::mul", f"[{QUERIES},[]]", ADD, 40, dtype)
    turned = f"[{BATCH},{SIZE},{TOKENS}]"
    within(p, "aten::matmul", lambda p: multiplied(p, QUERIES, turned, kernel, dtype))
    one(p, softmax, f"[{SCORES},[],[]]", SOFTMAX, 800, dtype)
    within(p, "aten::matmul", lambda p: multiplied(p, SCORES, QUERIES, kernel, dtype))
    one(p, "aten::copy_", f"[{QUERIES},{QUERIES}]", COPY, 50, dtype)
    p.launch("other", 30)


def tape_of(**kinds: Any) -> Tape:
    tape = make_tape(program(partial(attention, **kinds)).rated)
    assert tape is not None
    return tape


def per_step_us(tape: Tape) -> float:
    return float(tape.duration.sum()) / tape.steps / 1e3


def test_products_passes_and_copies_become_one_kernel() -> None:
    found = attention_fused(tape_of())
    assert found is not None
    assert int((found.duration > 0).sum()) == 2 * found.steps
    scores = BATCH * TOKENS**2
    least = scores * 4 * SIZE / PEAK * 1e6
    assert least < per_step_us(found) - 30 < 3 * least


def test_on_fp32_tensors_it_is_hardly_faster_than_its_products() -> None:
    wide = attention_fused(tape_of(kernel=SGEMM, dtype="float"))
    narrow = attention_fused(tape_of())
    assert wide is not None
    assert narrow is not None
    assert per_step_us(wide) > 3 * per_step_us(narrow)


def test_backward_takes_more_products() -> None:
    forward = attention_fused(tape_of())
    back = attention_fused(tape_of(softmax="aten::_softmax_backward_data"))
    assert forward is not None
    assert back is not None
    assert per_step_us(back) > per_step_us(forward)


@pytest.mark.parametrize(
    ("shape", "share"), [(f"[{TOKENS},{TOKENS}]", 0.5), (f"[{BATCH},{TOKENS},{TOKENS}]", 1.0)]
)
def test_a_mask_for_all_leaves_half_of_the_scores_out(shape: str, share: float) -> None:
    def masked(p: Program) -> None:
        one(p, "aten::bmm", f"[{QUERIES},[{BATCH},{SIZE},{TOKENS}]]", GEMM, 300)
        one(p, "aten::masked_fill_", f"[{SCORES},{shape},[]]", ADD, 800)
        one(p, "aten::_softmax", f"[{SCORES},[],[]]", SOFTMAX, 800)
        one(p, "aten::bmm", f"[{SCORES},{QUERIES}]", GEMM, 300)

    tape = make_tape(program(masked).rated)
    assert tape is not None
    found = attention_fused(tape)
    plain = attention_fused(tape_of())
    assert found is not None
    assert plain is not None
    usual = (per_step_us(plain) - 30) * share
    assert usual <= per_step_us(found) < 2 * usual


def test_what_takes_less_as_it_is_stays() -> None:
    tape = make_tape(
        program(lambda p: one(p, "aten::_softmax", f"[{SCORES},[],[]]", SOFTMAX, 800)).rated
    )
    assert tape is not None
    assert attention_fused(tape) is None
    assert math.isfinite(per_step_us(tape))


def test_a_learned_bias_has_no_flash_kernel() -> None:
    def learned(p: Program) -> None:
        attention(p)
        within(
            p,
            "autograd::engine::evaluate_function: AddBackward0",
            lambda p: one(p, "aten::sum", f"[{SCORES},[],[]]", "reduce_kernel", 200),
        )

    tape = make_tape(program(learned).rated)
    assert tape is not None
    assert summed_shapes(tape) == {(BATCH, TOKENS, TOKENS)}
    found = attention_fused(tape)
    plain = attention_fused(tape_of())
    assert found is not None
    assert plain is not None
    fused_us = per_step_us(found) - 30 - 200
    assert fused_us == pytest.approx(WITH_GRADIENT * (per_step_us(plain) - 30), rel=0.1)
