"""Depthwise convolutions are told by their weights or their kernels, and only where they are slow."""

from __future__ import annotations

import numpy as np
import pytest

from tests.analysis.build import TraceBuilder
from tests.analysis.groups.test_operand_groups import CONV, HALF, measured, operator
from traceanalyzer.analysis.groups.depthwise import DepthwiseConvolutions, depthwise_convolutions
from traceanalyzer.diagnosis.rules.device import depthwise

OWN = "void at::native::conv_depthwise2d_forward_kernel<3, float, int>(T2 *, int)"
OWN_BACKWARD = "void at::native::conv_depthwise2d_grad_weight_kernel<float, int>(T1 *, int)"


def slow(
    name: str, shapes: list[list[int]], kernel: str, dtype: str = "float"
) -> DepthwiseConvolutions | None:
    """What is found of one such operator with a kernel of 100 us, and what the rule says of it."""
    b = TraceBuilder()
    lists = 0 if "backward" in name else 4
    groups = shapes[0][1] // shapes[1][1] if lists else 1
    operator(b, name, kernel, [*shapes, *[[]] * lists], dtype, lists=lists, groups=groups)
    m = measured(b)
    free = np.ones(1, bool)
    found = depthwise_convolutions(m.rated, free)
    assert [draft.id for draft in depthwise(m, free)] == (
        ["depthwise-convolutions"] if found else []
    )
    return found


def test_a_filter_a_channel() -> None:
    found = slow("aten::cudnn_convolution", [[2, 64, 8, 8], [64, 1, 3, 3]], OWN)
    assert found is not None
    assert found.shapes == ["64x1x3x3"]
    assert found.own_share == 1.0
    assert found.kernels.total_ms == pytest.approx(0.1)


def test_two_filters_a_channel_in_a_library() -> None:
    found = slow("aten::cudnn_convolution", [[2, 64, 8, 8], [128, 1, 3, 3]], CONV, HALF)
    assert found is not None
    assert found.own_share == 0.0


def test_dense_and_grouped_ones_and_grey_images_are_none() -> None:
    for weight in ([64, 64, 3, 3], [64, 16, 3, 3]):
        assert slow("aten::cudnn_convolution", [[2, 64, 8, 8], weight], CONV, HALF) is None
    assert slow("aten::cudnn_convolution", [[2, 1, 8, 8], [64, 1, 3, 3]], CONV, HALF) is None


def test_backward_it_is_the_gradient_that_tells_it_from_a_transposed_one() -> None:
    name = "aten::convolution_backward"
    x = [2, 64, 8, 8]
    weight = [64, 1, 3, 3]
    found = slow(name, [[2, 64, 8, 8], x, weight], CONV)
    assert found is not None
    assert found.shapes == ["64x1x3x3"]
    assert slow(name, [[2, 1, 16, 16], x, weight], CONV) is None


def test_without_shapes_the_kernel_tells() -> None:
    found = slow("aten::convolution_backward", [], OWN_BACKWARD)
    assert found is not None
    assert found.reached is None
    assert found.shapes == []


def test_one_near_the_roofline_is_left_alone() -> None:
    weight = [64, 1, 3, 3]
    far = slow("aten::cudnn_convolution", [[256, 64, 16, 16], weight], OWN)
    assert far is not None
    assert far.reached == pytest.approx(0.336, abs=0.001)
    assert slow("aten::cudnn_convolution", [[512, 64, 16, 16], weight], OWN) is None
