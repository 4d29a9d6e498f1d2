"""What PyTorch's allocator counted in timed steps, where the recorded ones show none of its calls."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.diagnosis.test_remedies import GEMM, Program
from traceanalyzer.diagnosis.diagnose import diagnose
from traceanalyzer.diagnosis.measurements import measure
from traceanalyzer.ingest.unprofiled import stopwatch_of
from traceanalyzer.trace import AllocatorCalls, Device, Stopwatch

STEP_US = 1000
TIMED = {
    "step_time_ms": 1.0,
    "steady": True,
    "low_ms": 0.99,
    "high_ms": 1.01,
    "timed_steps": 10,
}
EMPTIED = {
    "num_device_alloc": 14,
    "num_device_free": 23,
    "num_alloc_retries": 0,
    "num_sync_all_streams": 10,
}


def stopwatch(counted: object) -> Stopwatch:
    found = stopwatch_of(TIMED | {"allocator": counted})
    assert found is not None
    return found


def test_a_capture_tells_the_calls_of_a_step() -> None:
    assert stopwatch(EMPTIED).allocator == AllocatorCalls(1.4, 2.3, 0.0, 1.0)


@pytest.mark.parametrize(
    "counted",
    [None, {}, 7, EMPTIED | {"num_device_free": "many"}, EMPTIED | {"num_device_free": -1}],
)
def test_damaged_counts_are_none(counted: object) -> None:
    assert stopwatch(counted).allocator is None


def told(counted: object, call: str = "cudaStreamIsCapturing") -> dict[str, str]:
    """What the first evidence of each finding says, by the finding."""
    p = Program()
    for i in range(6):
        start = p.now
        p.spend(20).launch(GEMM, STEP_US - 100)
        p.call(call, p.now, p.now + 60)
        p.now = start + STEP_US
        p.annotation(f"ProfilerStep#{i}", start, p.now)
    trace = p.build(devices=(Device(0, "NVIDIA H200"),))
    m = measure(replace(trace, stopwatch=stopwatch(counted)))
    return {one.id: str(one.evidence[0].value) for one in diagnose(m).findings}


def test_an_emptied_cache_is_a_finding_without_a_promise() -> None:
    assert told(EMPTIED)["allocation"] == "1.4 allocated, 2.3 freed"


def test_a_few_calls_are_none() -> None:
    few = dict.fromkeys(EMPTIED, 0) | {"num_device_alloc": 9}
    assert "allocation" not in told(few)
