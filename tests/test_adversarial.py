"""Odd recordings that a reviewer tried. `defect` marks what is known to be wrong and not yet mended."""

from __future__ import annotations

import pytest

from tests.analysis.build import TraceBuilder
from traceanalyzer.analysis.context import Context
from traceanalyzer.analysis.measure import Measurements


def defect(what: str) -> pytest.MarkDecorator:
    return pytest.mark.xfail(strict=False, reason=f"known defect: {what}")


@defect("steps._begin takes 'no device op' (int64 max) for a time: the first window starts at the end of time")
def test_a_first_step_without_device_work():
    recording = TraceBuilder()
    for i in range(3):
        recording.annotation(f"ProfilerStep#{i}", 100 * i, 100 * i + 100)
    for i in (1, 2):
        recording.call("cudaLaunchKernel", 100 * i + 10, 100 * i + 15, correlation=i)
        recording.kernel("gemm", 100 * i + 20, 100 * i + 60, correlation=i)
    recording.kernel("gemm", 5, 8)
    steps = Measurements(Context(recording.build())).ctx.steps
    assert (steps.duration > 0).all()
