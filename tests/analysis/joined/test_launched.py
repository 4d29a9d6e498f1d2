"""Whether the host's records are missing, or the device is behind the host."""

from __future__ import annotations

import pytest

from tests.analysis.build import TraceBuilder
from traceanalyzer.analysis.joined.knowledge import Knowledge
from traceanalyzer.analysis.joined.launched import host_was_lost
from traceanalyzer.analysis.joined.linked import TraceJoins


@pytest.mark.parametrize(
    ("launched", "calls", "lost"),
    [
        ([], 0, True),
        ([], 2, False),  # there are calls, and none has its work: that runs after the recording
        ([0], 1, True),
        ([0, 1, 2, 3, 4], 5, False),
        ([9], 1, False),  # what ran before was launched before the recording began
        ([0], 9, False),  # as many calls as kernels: it is the join that fails
    ],
)
def test_of_ten_kernels(launched: list[int], calls: int, lost: bool) -> None:
    b = TraceBuilder()
    for i in range(10):
        b.kernel("k", 100 + 10 * i, 105 + 10 * i, i + 1 if i in launched else -1)
    for i, kernel in enumerate([*launched, *[50] * 9][:calls]):
        b.call("cudaLaunchKernel", 5 * i, 5 * i + 4, kernel + 1 + (i if kernel == 50 else 0))
    assert host_was_lost(TraceJoins(b.build(), Knowledge())) is lost
