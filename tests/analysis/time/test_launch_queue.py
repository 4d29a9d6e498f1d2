"""How long launches were held by a full queue: by the recorder's word, else by how full it was."""

from __future__ import annotations

import numpy as np
import pytest

from tests.analysis.build import US, TraceBuilder
from traceanalyzer.analysis.names.api import FULL_QUEUE
from traceanalyzer.analysis.time.launch_queue import blocked_time
from traceanalyzer.diagnosis.measurements import measure
from traceanalyzer.trace import OverheadKind

SLOW = 5 * FULL_QUEUE
"""When the one launch begins that takes 100 us, after those that take 2 us each."""


def blocked_us(queued: int, ends: list[float]) -> int:
    """How long the slow launch was blocked, with so many ops queued, of which the first end at
    these times."""
    b = TraceBuilder()
    for i in range(queued):
        end = ends[i] if i < len(ends) else SLOW + 1000 + i
        b.call("cudaLaunchKernel", 4 * i, 4 * i + 2, i + 1).kernel("gemm", 4 * i + 3, end, i + 1)
    b.call("cudaLaunchKernel", SLOW, SLOW + 100, queued + 1).kernel(
        "late", SLOW + 5000, SLOW + 5001, queued + 1
    )
    timed = measure(b.build()).timed
    blocked = blocked_time(timed, np.arange(queued + 1))
    assert not blocked[:queued].any()
    return int(blocked[queued]) // US


@pytest.mark.parametrize(
    ("queued", "ends", "blocked"),
    [
        (FULL_QUEUE, [], 100 - 2),  # but for what a launch usually takes
        (FULL_QUEUE - 1, [], 0),
        (FULL_QUEUE, [SLOW], 0),  # what has ended when it begins is in the queue no more
        (FULL_QUEUE, [SLOW + 1], 100 - 2),
        (FULL_QUEUE + 1, [SLOW], 100 - 2),
    ],
)
def test_a_slow_launch_into_a_full_queue_was_blocked(
    queued: int, ends: list[float], blocked: int
) -> None:
    assert blocked_us(queued, ends) == blocked


def test_where_the_recorder_saw_the_queue_full_that_is_the_time() -> None:
    b = TraceBuilder().call("cudaLaunchKernel", 0, 2, 1).kernel("gemm", 3, 9, 1)
    b.call("cudaLaunchKernel", 10, 50, 2).kernel("gemm", 60, 70, 2)
    b.overhead(OverheadKind.BACK_PRESSURE, 20, 45)
    assert (blocked_time(measure(b.build()).timed, np.arange(2)) // US).tolist() == [0, 25]
