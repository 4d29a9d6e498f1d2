"""Notes on recordings that are longer or more finely marked than they need be, and on regions that
a program marks."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

import traceanalyzer as ta
from tests.analysis.build import TraceBuilder
from tests.nsys_builder import Export
from traceanalyzer.base import MinorNote
from traceanalyzer.diagnosis.measurements import measure
from traceanalyzer.diagnosis.rules.recording import (
    MANY_EVENTS,
    MANY_RANGES,
    MANY_STEPS,
    recording_notes,
)
from traceanalyzer.trace import Health

if TYPE_CHECKING:
    from pathlib import Path


def notes(
    count: int, ranges: int = 0, name: str = "block", events: int = 0, step_us: float = 5000
) -> str:
    """Steps with so many short ranges in each."""
    b = TraceBuilder()
    b.op("aten::mm", 0, 1)
    for i in range(count):
        at = 1000 + step_us * i
        b.annotation(f"ProfilerStep#{i}", at, at + step_us)
        for k in range(ranges):
            b.annotation(name, at + 2 * k, at + 2 * k + 1)
        b.call("cudaLaunchKernel", at + 1, at + 3, i + 1).kernel(
            "k", at + 5, at + step_us - 5, i + 1, stream=7
        )
    return " ".join(recording_notes(measure(replace(b.build(), health=Health(events=events)))))


def test_more_steps_than_useful() -> None:
    assert f"{MANY_STEPS} steps were recorded" in notes(MANY_STEPS, events=MANY_EVENTS)
    assert "steps were recorded" not in notes(MANY_STEPS, events=1000)
    assert "steps were recorded" not in notes(8, events=MANY_EVENTS)


def test_too_many_ranges() -> None:
    assert (
        f"{MANY_RANGES} annotated ranges a step cost the CPU about 500 us of each 5.00 ms step"
        in notes(3, MANY_RANGES)
    )
    assert "annotated" not in notes(3, 100)
    assert "annotated" not in notes(3, MANY_RANGES, name="nccl:all_reduce")
    assert "annotated" not in notes(3, MANY_RANGES, step_us=50_000)


def export(*, outside: bool) -> Export:
    """A program that marks a region with two kernels of its own; without, or with two more around
    it."""
    made = Export("3.24.0")
    made.call(1000, 1500, "cudaProfilerStart_v4000", 90)
    for i, at in enumerate((0, 2000, 2400, 9000) if outside else (2000, 2400)):
        made.call(at, at + 10, "cudaLaunchKernel_v7000", i + 1).kernel(
            at + 20, at + 220, correlationId=i + 1
        )
    made.call(5000, 5600, "cudaProfilerStop_v4000", 91)
    return made


@pytest.mark.parametrize("outside", [False, True])
def test_a_programs_own_markers(tmp_path: Path, outside: bool) -> None:
    path = tmp_path / "run.sqlite"
    export(outside=outside).write(path)
    report = ta.analyze(str(path))
    said = [note for note in report.notes if "cudaProfilerStart" in note]
    assert len(said) == outside
    if outside:
        assert "marks 3.50 us for profilers" in said[0]
        assert "2 GPU operations were launched outside" in said[0]
    assert report.metrics.launches is not None
    assert report.metrics.launches.launch_calls == (4 if outside else 2)
    assert report.tables["syncs"] == []


def before_two_steps(name: str, before_us: float) -> list[str]:
    """What is said where a kernel of so long ran before two steps of 1 ms of work each."""
    b = TraceBuilder()
    b.call("cudaLaunchKernel", 1, 3, 9).kernel(name, 5, 5 + before_us, 9, stream=7)
    for i in range(2):
        at = 100_000 + 1200 * i
        b.annotation(f"ProfilerStep#{i}", at, at + 1200)
        b.call("cudaLaunchKernel", at + 1, at + 3, i + 1).kernel(
            "gemm", at + 5, at + 1005, i + 1, stream=7
        )
    return [one for one in recording_notes(measure(b.build())) if "of GPU work is in" in one]


def test_work_outside_of_the_steps_is_a_warning_where_it_is_most_of_it() -> None:
    (little,) = before_two_steps("gemm", 1000)
    assert little == "67% of GPU work is in the 2 steps found."
    assert isinstance(little, MinorNote)
    (much,) = before_two_steps("gemm", 18_000)
    assert much.startswith("Only 10% of GPU work is in the 2 steps found: ")
    assert not isinstance(much, MinorNote)


def test_a_collective_that_waits_before_the_steps_is_no_work() -> None:
    assert before_two_steps("ncclDevKernel_AllReduce_Sum_bf16_RING_LL", 90_000) == []
