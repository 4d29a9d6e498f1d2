"""Operators of cuDNN with changing shapes, and kernels that the recording has lost."""

from __future__ import annotations

import numpy as np
import pytest

from tests.analysis.build import TraceBuilder
from traceanalyzer.diagnosis.measurements import measure
from traceanalyzer.diagnosis.rules.host_causes import lost_kernels, new_shapes
from traceanalyzer.trace import Condition

STEP_US = 1000


def drafts(widths: list[int | None], *conditions: Condition):
    """A step for each width, with 600 us in a convolution of it before its kernel, and a product of
    changing shape."""
    b = TraceBuilder()
    for step, width in enumerate(widths):
        at = step * STEP_US
        b.annotation(f"ProfilerStep#{step}", at, at + STEP_US)
        b.op("aten::mm", at + 5, at + 9, shapes=f"[[{step},{step}],[{step},{step}]]")
        if width is not None:
            b.op(
                "aten::cudnn_convolution",
                at + 50,
                at + 650,
                shapes=f"[[8,3,{width},{width}],[64,3,7,7]]",
            )
        b.call("cudaLaunchKernel", at + 640, at + 645, step + 1)
        b.kernel("conv", at + 650, at + STEP_US, step + 1)
    m = measure(b.build(conditions=conditions))
    return list(new_shapes(m, np.ones(len(m.trace.device_ops), bool)))


@pytest.mark.parametrize("conditions", [(Condition("cudnn.benchmark", "on"),), ()])
def test_idle_time_in_convolutions_of_new_shapes(conditions):
    (draft,) = drafts([224, 224, 192, 224], *conditions)
    setting = "on" if conditions else "not known"
    # each step's gap lies before its kernel; 50 us of it come before the operator
    idle = pytest.approx(0.6, rel=0.02)
    assert [e.value for e in draft.evidence] == ["aten::cudnn_convolution", idle, 2, 2, setting]
    assert draft.claim_ms is not None
    assert 0 < draft.claim_ms <= 0.65


@pytest.mark.parametrize("widths", [[224, 224, 224], [None, None], [224, None, 224]])
def test_nothing_is_said_of_constant_shapes(widths):
    assert drafts(widths, Condition("cudnn.benchmark", "on")) == []


def test_idle_time_with_launches_whose_kernels_are_missing_has_no_cause():
    b = TraceBuilder().call("cudaLaunchKernel", 0, 4, 1).kernel("k", 6, 50, 1)
    b.call("cudaLaunchKernel", 60, 64, 2)  # the kernel of this one was lost
    b.call("cudaLaunchKernel", 400, 404, 3).kernel("k", 406, 450, 3)
    (draft,) = lost_kernels(measure(b.build()), np.ones(2, bool))
    assert (draft.id, draft.cls, draft.part) == ("lost-kernels", "inconclusive", "idle.other")
    assert draft.evidence[1].value == pytest.approx(0.356)  # from 50 to 406 us
