"""What figures are of: marked steps that are all there, one annotation that holds the work, else
the recording."""

from __future__ import annotations

import pytest

from tests.analysis.build import TraceBuilder
from traceanalyzer.analysis.time.steps import Steps
from traceanalyzer.diagnosis.diagnose import diagnose
from traceanalyzer.diagnosis.measurements import Measurements, measure
from traceanalyzer.report.build import build_report
from traceanalyzer.trace import DeviceRanges, Run


def launches(
    b: TraceBuilder, at: float, count: int, first: int, behind: float = 3, run: float = 8
) -> None:
    for i in range(count):
        b.call("cudaLaunchKernel", at + 10 * i, at + 10 * i + 2, first + i)
        b.kernel(f"k{i}", at + behind + 10 * i, at + behind + 10 * i + run, first + i)


def behind(steps: int = 5, period: float = 100) -> TraceBuilder:
    """The host launches ten kernels each 20 us, the device takes `period` for them."""
    b = TraceBuilder()
    for i in range(steps):
        b.annotation(f"ProfilerStep#{i}", 20 * i, 20 * (i + 1))
        for j in range(10):
            number = 10 * i + j
            b.call("cudaLaunchKernel", 20 * i + 2 * j, 20 * i + 2 * j + 1, number)
            b.kernel(f"k{j}", 5 + period * i + 10 * j, 5 + period * i + 10 * j + 9, number)
    return b


def cut(b: TraceBuilder, low: float, high: float) -> TraceBuilder:
    """What lies between two moments, us."""
    b.rows = {
        name: [row for row in rows if low * 1000 <= row["start"] and row["end"] <= high * 1000]
        for name, rows in b.rows.items()
    }
    return b


def built(b: TraceBuilder) -> Measurements:
    return measure(b.build())


def steps_of(b: TraceBuilder) -> Steps:
    return built(b).timed.steps


def test_steps_whose_work_had_not_run_do_not_count() -> None:
    steps = steps_of(cut(behind(), 0, 250))
    assert (steps.names, steps.incomplete) == (("ProfilerStep#0", "ProfilerStep#1"), 3)
    assert steps.duration[1] == 100_000


def test_without_a_whole_step_the_recording_is_the_unit_and_says_why() -> None:
    b = cut(behind(), 0, 80)
    m = built(b)
    assert (m.timed.steps.source, m.timed.steps.incomplete) == ("recording", 4)
    report = build_report(Run((m.trace,)))
    assert any("4 steps at its ends miss GPU work" in note for note in report.notes)


def test_work_launched_before_the_recording_is_no_steps() -> None:
    """The first step's copies run at once on a stream of their own, while the device still works on
    earlier steps."""
    b = TraceBuilder()
    for i in range(2):
        b.kernel("earlier", 100 * i, 100 * i + 99, 900 + i, stream=7)
    for i in range(3):
        at = 200 * i
        b.annotation(f"ProfilerStep#{i}", at, at + 100)
        b.call("cudaMemcpyAsync", at + 1, at + 2, 100 + i).kernel(
            "copy", at + 3, at + 4, 100 + i, stream=9
        )
        b.call("cudaLaunchKernel", at + 5, at + 6, 200 + i).kernel(
            "work", at + 205, at + 395, 200 + i, stream=7
        )
    steps = steps_of(b)
    assert steps.start[0] >= 199_000
    assert steps.of_op.tolist().count(0) == 2


def test_what_is_left_of_a_range_on_the_device_is_no_step() -> None:
    b = TraceBuilder()
    for i in range(3):
        b.kernel("k", 1000 * i, 1000 * i + 300)
        if i:
            b.kernel("ncclDevKernel_AllReduce", 1000 * i - 690, 1000 * i - 10)
    codes = [b.code(f"ProfilerStep#{i}") for i in range(3)]
    start = [0, 1_000_000, 2_000_000]
    end = [300_000, 1_300_000, 2_300_000]
    ranges = DeviceRanges.from_columns(
        {"name": codes, "start": start, "end": end, "device": [0] * 3}
    )
    steps = measure(b.build(device_ranges=ranges)).timed.steps
    assert steps.names == ("ProfilerStep#1", "ProfilerStep#2")
    assert steps.duration.tolist() == [1_000_000, 1_000_000]


@pytest.mark.parametrize("name", ["training_step", "model_inference", "run"])
def test_one_annotation_that_holds_the_work_is_a_step(name: str) -> None:
    b = (
        TraceBuilder()
        .annotation(name, 0, 400)
        .annotation("forward", 5, 150)
        .annotation("backward", 160, 390)
    )
    launches(b, 10, 30, 1)
    steps = steps_of(b)
    assert (steps.names, steps.duration.tolist()) == ((name,), [400_000])


@pytest.mark.parametrize(
    "name", ["forward", "backward", "Optimizer.step#Adam.step", "layers.3", "nccl:all_reduce"]
)
def test_neither_phases_nor_layers_nor_marks_of_libraries_are_a_step(name: str) -> None:
    b = TraceBuilder().annotation(name, 0, 400)
    launches(b, 10, 30, 1)
    assert steps_of(b).source == "recording"


def test_an_annotation_that_holds_half_of_the_work_is_no_step() -> None:
    b = TraceBuilder().annotation("training_step", 0, 160)
    launches(b, 10, 30, 1)
    assert steps_of(b).source == "recording"


def test_a_recording_of_one_pass_has_predictions_with_ranges() -> None:
    """Launches of 8 us for kernels of 1 us: a graph helps, and that is told of the recording."""
    b = TraceBuilder().op("aten::linear", 0, 900)
    launches(b, 5, 80, 1, run=1)
    m = built(b)
    found = diagnose(m)
    assert m.timed.steps.source == "recording"
    assert found.summary.step_ms == m.step.step_ms
    assert "recording" in found.summary.headline
    (graph,) = [one for one in found.recommendations if one.remedy == "cuda_graph"]
    assert graph.predicted_step_ms is not None
    assert graph.low_ms is not None
    assert graph.high_ms is not None
    assert graph.low_ms <= graph.predicted_step_ms <= graph.high_ms


def test_without_device_work_there_is_no_unit() -> None:
    m = built(TraceBuilder().op("aten::mm", 0, 10))
    assert (m.timed.steps.source, m.step_time) == ("none", None)
