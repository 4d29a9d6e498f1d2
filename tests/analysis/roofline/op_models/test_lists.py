"""Operators on lists: their type comes from the kernel, lists that were left out from the backward
pass."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from tests.analysis.build import TraceBuilder
from tests.analysis.roofline.op_models.calls import columns, work
from traceanalyzer.analysis.roofline.op_models import Precision, model_ops
from traceanalyzer.analysis.roofline.op_models.optimizer import CHUNK
from traceanalyzer.analysis.roofline.op_models.tensors import element_type
from traceanalyzer.diagnosis.measurements import measure

ADAM = "void multi_tensor_apply_kernel<TensorListMetadata<4>, FusedAdamMathFunctor<float, 4, (ADAM_MODE)1, false>>"
SHAPES = [[CHUNK + 1], [10, 10]]
ELEMENTS = CHUNK + 101


@pytest.mark.parametrize(
    ("kernel", "size"),
    [
        (ADAM, 4),
        (
            "multi_tensor_apply_kernel<TensorListMetadata<2>, UnaryOpFunctor<c10::BFloat16, 2, 1, 1>>",
            2,
        ),
        ("CatArrayBatchedCopy<(anonymous namespace)::OpaqueType<2u>, unsigned int, 4, 64, 64>", 2),
        ("CatArrayBatchedCopy_aligned16_contig<OpaqueType<8>, unsigned int, 1, 128, 1>", 8),
        ("CatArrayBatchedCopy_vectorized<char, unsigned int, 3, 64, 64, 16, 4>", 4),
    ],
)
def test_the_type_in_a_kernels_name(kernel, size):
    assert element_type(kernel).bytes == size


def test_a_kernel_that_names_no_type():
    assert np.isnan(element_type("ncclKernel").bytes)


def adam(b: TraceBuilder, start: float, lists: Any, correlation: int, blocks: int) -> None:
    """A fused optimizer step and its kernel."""
    shapes = [*[lists] * 4, [], lists, *[[]] * 7]
    types = [*["TensorList"] * 6, *["Scalar"] * 7]
    values = ["", "", "", "", "", "", "0.1", "0.9", "0.99", "0.", "0.", "False", "False"]
    b.op("aten::_fused_adam_", start, start + 5, **columns(shapes, types, b.code, values))
    b.call("cudaLaunchKernel", start + 1, start + 2, correlation)
    b.kernel(ADAM, start + 3, start + 4, correlation, blocks=blocks)


def backward(b: TraceBuilder, start: float) -> None:
    """A forward operator on the main thread, then gradients on the backward's."""
    b.op("aten::add", start, start + 1, sequence=7)
    for i, shape in enumerate(SHAPES):
        row = columns([shape], ["float"], b.code)
        b.op("torch::autograd::AccumulateGrad", start + 2 + i, start + 3 + i, thread=1, **row)


def of_optimizer(b: TraceBuilder) -> list[float]:
    ctx = measure(b.build())
    rows = np.flatnonzero(ctx.trace.host_ranges.name == b.code("aten::_fused_adam_"))
    return [float(n) for n in model_ops(ctx.joined).bytes[rows]]


def test_adam_moves_seven_times_its_parameters():
    b = TraceBuilder()
    adam(b, 0, SHAPES, 1, blocks=3)
    assert of_optimizer(b) == [7 * 4 * ELEMENTS]


def test_a_list_that_was_left_out_is_that_of_the_last_backward_pass():
    b = TraceBuilder()
    backward(b, 0)
    backward(b, 10)
    adam(b, 20, [], 1, blocks=3)
    assert of_optimizer(b) == [7 * 4 * ELEMENTS]


@pytest.mark.parametrize("blocks", [1, 2, 4, -1])
def test_it_is_not_believed_where_the_launches_disagree(blocks):
    b = TraceBuilder()
    backward(b, 0)
    adam(b, 20, [], 1, blocks=blocks)
    assert np.isnan(of_optimizer(b)).all()


def test_nothing_is_known_without_a_backward_pass():
    b = TraceBuilder()
    adam(b, 20, [], 1, blocks=3)
    assert np.isnan(of_optimizer(b)).all()


def test_sums_of_lists():
    found = work("aten::_foreach_add_", [[2, 3], [4]], [[2, 3], [4]], "1")
    assert found.flops == 10
    assert np.isnan(found.bytes)
    assert found.precision is Precision.UNKNOWN


def test_the_operator_of_a_list_gets_its_kernels_type():
    b = TraceBuilder()
    shapes = [[[2, 3], [4]], []]
    b.op("aten::cat", 0, 5, shapes=json.dumps(shapes), dtypes=b.code('["TensorList","Scalar"]'))
    b.call("cudaLaunchKernel", 1, 2, 1).kernel(
        "CatArrayBatchedCopy<OpaqueType<2u>, unsigned int>", 3, 4, 1
    )
    assert model_ops(measure(b.build()).joined).bytes.tolist() == [2 * 10 * 2]
