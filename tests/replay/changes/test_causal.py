"""Attention that gets a causal mask as a tensor, in the time of causal kernels."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from tests.diagnosis.test_remedies import program, within
from traceanalyzer.diagnosis.remedies.kernels import fused_attention
from traceanalyzer.diagnosis.remedies.remedy import words
from traceanalyzer.replay.changes.causal import causal_by_name
from traceanalyzer.replay.recorded import make_tape

if TYPE_CHECKING:
    from tests.analysis.causes.test_gaps import Program
    from traceanalyzer.diagnosis.measurements import Measurements

TOKENS = 4096
HEADS = f"[4, 16, {TOKENS}, 64]"
SQUARE = f"[{TOKENS}, {TOKENS}]"
KERNEL = "cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16"
FORWARD_US = 1000
BACKWARD_US = 2600
OTHER_US = 500


def attention(p: Program, mask: str, heads: str) -> None:
    def inner(p: Program) -> None:
        within(p, "aten::_cudnn_attention_forward", lambda p: p.spend(5).launch(KERNEL, FORWARD_US))

    shapes = f"[{heads}, {heads}, {heads}, {mask}, [], [], [], []]"
    within(p, "aten::scaled_dot_product_attention", inner, shapes=shapes, sequence=7)

    def backward(p: Program) -> None:
        name = "aten::_cudnn_attention_backward"
        within(p, name, lambda p: p.spend(5).launch(KERNEL, BACKWARD_US))

    node = "autograd::engine::evaluate_function: ScaledDotProductCudnnAttentionBackward0"
    within(p, node, backward, sequence=7, forward_thread=1)
    within(p, "aten::mm", lambda p: p.spend(5).launch("gemm", OTHER_US))


def learned(mask: str, heads: str = HEADS) -> Measurements:
    return program(partial(attention, mask=mask, heads=heads))


@pytest.mark.parametrize("mask", [SQUARE, f"[1, 1, {TOKENS}, {TOKENS}]"])
def test_half_of_the_scores_and_the_mask_are_gone(mask: str) -> None:
    m = learned(mask)
    tape = make_tape(m.rated)
    assert tape is not None
    found = causal_by_name(tape)
    assert found is not None
    left_us = float(found.duration.sum()) / found.steps / 1e3
    tiles = TOKENS // 128
    half = (tiles + 1) / (2 * tiles)
    assert left_us < OTHER_US + half * (FORWARD_US + BACKWARD_US)
    assert left_us > OTHER_US + 0.5 * half * (FORWARD_US + BACKWARD_US)
    assert fused_attention.offer(m).action == words("fused_attention", "causal")


def test_padding_in_a_mask_with_a_triangle_is_left_out() -> None:
    def step(p: Program) -> None:
        within(p, "aten::triu", lambda p: p.spend(5).launch("triu", 20), shapes=f"[{SQUARE}, []]")
        attention(p, f"[4, 1, {TOKENS}, {TOKENS}]", HEADS)

    m = program(step)
    tape = make_tape(m.rated)
    assert tape is not None
    assert causal_by_name(tape) is not None
    assert fused_attention.offer(m).action == words("fused_attention", "causal")


@pytest.mark.parametrize(
    ("mask", "heads"),
    [
        ("[]", HEADS),
        (f"[1, 16, {TOKENS}, {TOKENS}]", HEADS),
        (f"[4, 1, {TOKENS}, {TOKENS}]", HEADS),
        (f"[4, 1, 1, {TOKENS}]", HEADS),
        ("[128, 128]", "[4, 16, 128, 64]"),
    ],
    ids=["none", "a bias of each head", "of each item", "of padding", "one tile"],
)
def test_other_masks_stay(mask: str, heads: str) -> None:
    m = learned(mask, heads)
    tape = make_tape(m.rated)
    assert tape is not None
    assert causal_by_name(tape) is None
    assert fused_attention.offer(m).action == words("fused_attention")
