"""What a device op is taken to wait for where the recording does not say it."""

from __future__ import annotations

import pytest

from tests.analysis.build import TraceBuilder
from traceanalyzer.diagnosis.measurements import measure

COMPUTE = 7
COMM = 17


def waited_for(wait_at: float) -> list[int]:
    """Of a kernel, a collective and a kernel launched when the collective has long ended, with a
    call that makes a stream wait for an event at `wait_at` us; the collective's call lies from 20
    to 60 us: what each waits for."""
    b = TraceBuilder()
    b.op("record_param_comms", 20, 60).call("cudaStreamWaitEvent", wait_at, wait_at + 1, 9)
    launches = (
        ("k1", COMPUTE, 0, 10),
        ("ncclDevKernel_AllReduce_Sum_f32", COMM, 30, 40),
        ("k2", COMPUTE, 100, 110),
    )
    for correlation, (name, stream, call, start) in enumerate(launches, 1):
        b.call("cudaLaunchKernel", call, call + 2, correlation)
        b.kernel(name, start, start + 20, correlation, stream=stream)
    return measure(b.build()).started.starts.dependencies.also_awaited.tolist()


@pytest.mark.parametrize(("wait_at", "on"), [(50, [-1, -1, -1]), (70, [-1, -1, 1])])
def test_a_wait_within_the_call_of_a_collective_is_not_that_of_the_next_kernel(
    wait_at: float, on: list[int]
) -> None:
    assert waited_for(wait_at) == on
