"""What is allocated at the peak, by stack of the program."""

from __future__ import annotations

from pathlib import Path

from traceanalyzer.analysis.memory.measure import measured_memory
from traceanalyzer.ingest.memory import read_snapshot
from traceanalyzer.report.memory.flame import flame

SNAPSHOT = Path(__file__).parents[2] / "data" / "memory" / "kv_cat.base.snapshot.pickle.gz"


def test_stacks_sum_to_the_peak_and_begin_outside() -> None:
    (device,) = measured_memory(read_snapshot(SNAPSHOT))
    assert sum(stack.bytes for stack in device.stacks) == device.peak_bytes
    largest = device.stacks[0]
    assert largest.frames[-1] == "memory_cases.py:72 fwd"
    assert [stack.bytes for stack in device.stacks] == sorted(
        (stack.bytes for stack in device.stacks), reverse=True
    )


def test_a_box_holds_those_within_it() -> None:
    (device,) = measured_memory(read_snapshot(SNAPSHOT))
    chart = flame(device)
    assert chart is not None
    (rects,) = chart.plot.marks
    by_level = {level: [b for b in rects.boxes if int(b.y0) == level] for level in range(2)}
    for inner in by_level[1]:
        assert any(b.x0 <= inner.x0 + 1e-9 and inner.x1 <= b.x1 + 1e-9 for b in by_level[0])
    assert sum(b.x1 - b.x0 for b in by_level[0]) <= device.peak_bytes / 2**30 + 1e-9
