"""Matrix products by hand."""

from __future__ import annotations

import pytest

from tests.analysis.roofline.op_models.calls import BF16, work
from traceanalyzer.analysis.roofline.op_models import Precision


def test_mm():
    assert work("aten::mm", [2, 3], [3, 5]) == (2 * 2 * 3 * 5, 4 * (6 + 15 + 10), Precision.FP32)


def test_a_product_in_bfloat16_moves_half_the_bytes():
    assert work("aten::mm", [2, 3], [3, 5], dtype=BF16) == (60, 2 * 31, Precision.BF16)


def test_addmm_reads_a_broadcast_bias_as_it_is_stored():
    row = work("aten::addmm", [5], [2, 3], [3, 5], "1", "1")
    expanded = work("aten::addmm", ([2, 5], "float", [0, 1]), [2, 3], [3, 5], "1", "1")
    assert row == expanded == (60, 4 * (5 + 31), Precision.FP32)


def test_bmm_reads_an_expanded_operand_once():
    flops, traffic, _ = work("aten::bmm", [4, 2, 3], ([4, 3, 5], "float", [0, 5, 1]))
    assert flops == 4 * 60
    assert traffic == 4 * (24 + 15 + 40)


@pytest.mark.parametrize(
    ("a", "b", "flops"),
    [
        ([2, 3], [3, 5], 60),
        ([7, 1, 2, 3], [4, 3, 5], 28 * 60),
        ([3], [3, 5], 30),
        ([2, 3], [3], 12),
        ([3], [3], 6),
    ],
)
def test_matmul_broadcasts(a, b, flops):
    assert work("aten::matmul", a, b).flops == flops


def test_linear_and_its_bias():
    assert work("aten::linear", [7, 2, 3], [5, 3], [5]) == (
        7 * 60,
        4 * (42 + 15 + 5 + 70),
        Precision.FP32,
    )


def test_scaled_mm_counts_in_eight_bits():
    e4m3 = "c10::Float8_e4m3fn"
    found = work("aten::_scaled_mm", ([2, 3], e4m3), ([3, 5], e4m3), [], [], "", "", "15")
    assert found == (60, 6 + 15 + 4 + 4 + 2 * 10, Precision.FP8)


def test_grouped_mm():
    offsets = ([4], "int")
    assert (
        work("aten::_grouped_mm", ([8, 3], BF16), ([4, 3, 5], BF16), offsets).flops == 2 * 8 * 3 * 5
    )
    assert work("aten::_grouped_mm", ([6, 8], BF16), ([8, 5], BF16), offsets).flops == 2 * 8 * 6 * 5
