"""Which row stands for which work."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tests.analysis.build import TraceBuilder
from tests.analysis.roofline.op_models.calls import columns
from traceanalyzer.analysis.roofline.op_models import OpWork, Precision, WorkColumn, model_ops
from traceanalyzer.diagnosis.measurements import measure


def modelled(builder: TraceBuilder) -> OpWork:
    return model_ops(measure(builder.build()).joined)


def add(b: TraceBuilder, name: str, start: float, end: float, *shapes: list[int]) -> None:
    b.op(name, start, end, **columns(list(shapes), ["float"] * len(shapes), b.code))


def test_the_operator_that_does_the_work_stands_for_it():
    b = TraceBuilder()
    add(b, "aten::linear", 0, 10, [2, 3], [5, 3], [5])
    add(b, "aten::addmm", 1, 9, [5], [2, 3], [3, 5])
    b.call("cudaLaunchKernel", 2, 3, 1).kernel("gemm", 4, 8, 1)
    found = modelled(b)
    assert found.flops.tolist() == [60, 60]
    assert found.counts.tolist() == [False, True]
    assert found.of_device_op.tolist() == [1]
    assert found.of(WorkColumn.PRECISION, np.arange(2)).tolist() == [Precision.FP32] * 2


def test_under_autocast_the_inner_operator_does_the_work():
    b = TraceBuilder()
    shapes = [[5], [2, 3], [3, 5]]
    add(b, "aten::addmm", 0, 20, *shapes)
    b.op("aten::_to_copy", 1, 4)
    b.op("aten::addmm", 5, 19, **columns(shapes, ["c10::BFloat16"] * 3, b.code))
    b.call("cudaLaunchKernel", 6, 7, 1).kernel("gemm", 8, 18, 1)
    found = modelled(b)
    assert found.counts.tolist() == [False, False, True]
    assert found.of_device_op.tolist() == [2]
    assert found.of(WorkColumn.PRECISION, np.array([2])).tolist() == [Precision.BF16]


def test_an_operator_that_calls_nothing_known_speaks_for_itself():
    b = TraceBuilder()
    add(b, "aten::linear", 0, 10, [2, 3], [5, 3], [5])
    add(b, "somebody::gemm", 1, 9, [2, 3], [5, 3])
    b.call("cudaLaunchKernel", 2, 3, 1).kernel("gemm", 4, 8, 1)
    found = modelled(b)
    assert found.counts.tolist() == [True, False]
    assert found.of_device_op.tolist() == [0]


def test_what_has_no_model_or_no_shapes_stays_unmodelled():
    b = TraceBuilder()
    add(b, "somebody::gemm", 0, 4, [2, 3], [5, 3])
    b.call("cudaLaunchKernel", 1, 2, 1).kernel("gemm", 4, 8, 1)
    b.op("aten::mm", 5, 9).call("cudaLaunchKernel", 6, 7, 2).kernel("gemm", 8, 9, 2)
    b.kernel("of nobody", 10, 11)
    found = modelled(b)
    assert np.isnan(found.flops).all()
    assert np.isnan(found.bytes).all()
    assert not found.counts.any()
    assert found.of_device_op.tolist() == [-1, -1, -1]


DAMAGED = [
    "",
    "{}",
    "[[2,-3],[3,5]]",
    "[[2,3]]",
    '[["a"],[3,5]]',
    "[[2.5,3],[3,5]]",
    "__import__('os')",
    "[[[2]],[[3]]]",
]
HUGE = json.dumps([[10**400, 10], [10, 10**400]])


@pytest.mark.parametrize("shapes", [*DAMAGED, HUGE])
def test_damaged_shapes_are_unmodelled(shapes):
    b = TraceBuilder()
    b.op("aten::mm", 0, 1, shapes=shapes, dtypes=b.code('["float","float"]'))
    found = modelled(b)
    assert np.isnan(found.flops).all()


def test_a_trace_without_operators():
    found = modelled(TraceBuilder().kernel("k", 0, 1))
    assert found.of_device_op.tolist() == [-1]
    assert len(found.flops) == 0
