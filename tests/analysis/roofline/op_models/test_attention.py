"""Attention by hand: masks, cross lengths, grouped heads, packed sequences."""

from __future__ import annotations

import pytest

from tests.analysis.roofline.op_models.calls import BF16, work
from traceanalyzer.analysis.roofline.op_models import Precision
from traceanalyzer.analysis.roofline.op_models.attention import Mask, visible_pairs
from traceanalyzer.analysis.roofline.op_models.call import UnmodelledError

B = 2
H = 4
S = 8
D = 16
Q = [B, H, S, D]
PAIRS = B * H * S * S


@pytest.mark.parametrize("mask", list(Mask))
@pytest.mark.parametrize(("queries", "keys"), [(1, 1), (5, 5), (3, 7), (7, 3)])
def test_visible_pairs_are_those_of_the_mask_written_out(mask, queries, keys):
    offset = keys - queries if mask is Mask.BOTTOM_RIGHT else 0
    seen = sum(mask is Mask.NONE or k <= q + offset for q in range(queries) for k in range(keys))
    assert visible_pairs(queries, keys, mask) == seen


def test_scaled_dot_product_forward():
    found = work(
        "aten::_scaled_dot_product_flash_attention", Q, Q, Q, "0.", "False", "False", dtype=BF16
    )
    elements = B * H * S * D
    assert found == (4 * PAIRS * D, 4 * elements * 2 + B * H * S * 4, Precision.BF16)


def test_a_causal_mask_leaves_the_triangle():
    found = work("aten::_scaled_dot_product_flash_attention", Q, Q, Q, "0.", "True", "False")
    assert found.flops == 4 * D * B * H * S * (S + 1) / 2


def test_cross_lengths_and_a_wider_value():
    keys = [B, H, 3, D]
    values = [B, H, 3, 2 * D]
    found = work(
        "aten::_scaled_dot_product_efficient_attention", Q, keys, values, "", "True", "0.", "False"
    )
    assert found.flops == 2 * B * H * S * 3 * 3 * D


def test_grouped_heads_count_queries_and_read_fewer_keys():
    keys = [B, 1, S, D]
    found = work(
        "aten::_scaled_dot_product_flash_attention",
        Q,
        keys,
        keys,
        "0.",
        "False",
        "False",
        dtype=BF16,
    )
    assert found.flops == 4 * PAIRS * D
    assert found.bytes == 2 * (2 * B * H * S * D + 2 * B * S * D) + B * H * S * 4


def test_backward_takes_five_products():
    lse = ([B, H, S], "float")
    found = work(
        "aten::_scaled_dot_product_flash_attention_backward", Q, Q, Q, Q, Q, lse, *_flags("False")
    )
    causal = work(
        "aten::_scaled_dot_product_flash_attention_backward", Q, Q, Q, Q, Q, lse, *_flags("True")
    )
    assert found.flops == 10 * PAIRS * D
    assert causal.flops == 10 * D * B * H * S * (S + 1) / 2
    assert found.bytes == 8 * B * H * S * D * 4 + B * H * S * 4


def _flags(causal: str) -> list[str]:
    return ["", "", "8", "8", "0.", causal]


def test_layouts_agree():
    """The operators beneath take [batch, sequence, heads, d] and other places for the flag."""
    turned = [B, S, H, D]
    flash = work(
        "aten::_flash_attention_forward",
        turned,
        turned,
        turned,
        "",
        "",
        "8",
        "8",
        "0.",
        "True",
        "False",
    )
    middle = ["", "", "", "8", "8", "0."]
    efficient = work(
        "aten::_efficient_attention_forward", turned, turned, turned, *middle, "1", "True"
    )
    cudnn = work(
        "aten::_cudnn_attention_forward",
        Q,
        Q,
        Q,
        "",
        "",
        "",
        "8",
        "8",
        "True",
        "0.",
        "True",
        "False",
    )
    assert flash.flops == efficient.flops == cudnn.flops == 4 * D * B * H * S * (S + 1) / 2


def test_packed_sequences_have_the_mean_length():
    tokens = [6, H, D]
    ends = ([4], "int")
    found = work(
        "aten::_flash_attention_forward",
        tokens,
        tokens,
        tokens,
        ends,
        ends,
        "3",
        "3",
        "0.",
        "False",
        "False",
    )
    assert found.flops == 4 * D * H * 3 * 2 * 2


def test_without_recorded_values_a_mask_is_not_guessed():
    with pytest.raises(UnmodelledError):
        work("aten::_scaled_dot_product_flash_attention", Q, Q, Q)
