"""What compute takes without a collective beside it."""

from __future__ import annotations

import numpy as np
import pytest

from tests.analysis.build import TraceBuilder
from traceanalyzer.analysis.joined.alone import alone
from traceanalyzer.diagnosis.measurements import measure

ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"


def alone_us(*kernels: tuple[str, float, float]) -> list[float]:
    """Of each of these kernels (name, start, end in us) beside a collective from 0 to 100 us."""
    b = TraceBuilder().kernel(ALL_REDUCE, 0, 100, 1, stream=20)
    for i, (name, start, end) in enumerate(kernels, 2):
        b.kernel(name, start, end, i, stream=7)
    linked = measure(b.build()).rated.linked
    rows = np.flatnonzero(~linked.is_communication)
    return (alone(linked, rows) / 1e3).tolist()


def test_a_kernel_takes_what_its_like_takes_without_a_collective() -> None:
    assert alone_us(("a", 0, 50), ("a", 120, 160)) == [40, 40]


def test_a_kernel_without_its_like_is_slowed_as_such_kernels_usually_are() -> None:
    found = alone_us(("a", 0, 50), ("a", 60, 110), ("b", 120, 160))
    assert found == pytest.approx([50 - 15, 50 - 12, 40])
