"""The timeline of one step: which step, which events, in which lane, and how many of how many."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given

from tests.analysis.build import TraceBuilder
from tests.analysis.test_any_trace import any_rows, measure_rows
from tests.examples import tried
from tests.report.timeline.builders import GEMM, three_steps
from traceanalyzer.diagnosis.measurements import measure
from traceanalyzer.report.timeline import step_timeline as module
from traceanalyzer.report.timeline.lanes import Category, Shown, representative
from traceanalyzer.report.timeline.step_timeline import step_timeline


@pytest.fixture
def timeline():
    return step_timeline(measure(three_steps().build()))


def events(timeline, title):
    """Name, category, start and end in us of the events in the lanes of a title."""
    lanes = [i for i, lane in enumerate(timeline.lanes) if lane.title == title]
    e = timeline.events
    return [
        (timeline.names[e.name[i]], Category(e.category[i]).label, e.start[i] / 1e3, e.end[i] / 1e3)
        for i in np.flatnonzero(np.isin(e.lane, lanes))
    ]


def test_the_step_closest_to_the_median_is_shown(timeline):
    assert timeline.step == 2
    assert timeline.origin_ns == 240_000
    assert timeline.window == (0, 120_000)


def test_device_work_stands_in_the_lane_of_its_stream(timeline):
    assert events(timeline, "GPU 0 stream 7") == [
        ("cutlass::Kernel2<cutlass_80_tensorop_bf16>", "compute", 10, 40)
    ]
    ((name, category, *when),) = events(timeline, "GPU 0 stream 20")
    assert (name[:4], category, when) == ("nccl", "communication", [60, 118])


def test_kernels_keep_their_full_name_beside_the_short_one(timeline):
    assert GEMM in timeline.detail


def test_gaps_have_their_cause_and_say_why(timeline):
    gaps = events(timeline, "GPU 0 idle")
    assert [gap[2:] for gap in gaps] == [(-2, 10), (40, 60), (118, 120)]
    assert gaps[1][:2] == ("idle: sync", "idle: sync")
    assert any(
        text.startswith("queue drained by cudaStreamSynchronize") for text in timeline.detail
    )


def test_host_events_are_nested_and_waits_told_from_other_calls(timeline):
    host = events(timeline, "thread 0")
    assert ("ProfilerStep#2", "annotation", 0, 120) in host
    assert ("cudaStreamSynchronize", "wait", 31, 42) in host
    assert ("cudaLaunchKernel", "api call", 2, 6) in host
    levels = [lane.level for lane in timeline.lanes if lane.title == "thread 0"]
    assert levels == [0, 1, 2]


def test_the_critical_path_fills_the_step_without_holes(timeline):
    path = sorted((start, end) for _, _, start, end in events(timeline, "critical path"))
    assert path[0][0] <= 0
    assert path[-1][1] >= 120
    assert all(one[1] == following[0] for one, following in pairwise(path))


def test_all_that_is_there_is_counted_as_shown(timeline):
    assert all(shown.shown == shown.total for shown in timeline.shown)


def test_of_too_many_the_longest_are_kept_and_the_rest_is_counted(monkeypatch):
    builder = TraceBuilder()
    for i in range(20):
        builder.kernel("k", 10 * i, 10 * i + (8 if i == 13 else 1), stream=7)
    monkeypatch.setattr(module, "MAX_DEVICE_OPS", 3)
    timeline = step_timeline(measure(builder.build()))
    assert Shown("device ops", 3, 20) in timeline.shown
    assert max(end - start for *_, start, end in events(timeline, "GPU 0 stream 7")) == 8


def test_without_events_of_host_or_device_there_is_no_timeline():
    assert step_timeline(measure(TraceBuilder().build())) is None


def test_without_steps_it_shows_all_of_it():
    timeline = step_timeline(measure(TraceBuilder().kernel("k", 5, 9, stream=1).build()))
    assert timeline.step is None
    assert timeline.window == (0, 4_000)


def test_a_host_alone_has_a_timeline():
    timeline = step_timeline(measure(TraceBuilder().op("aten::mm", 0, 5).build()))
    assert [lane.title for lane in timeline.lanes] == ["thread 0"]


@tried(0.6)
@given(any_rows)
def test_every_event_of_any_trace_has_a_lane_and_a_name(rows):
    measured = measure_rows(rows)
    timeline = step_timeline(measured)
    if timeline is None:
        return
    e = timeline.events
    assert np.isin(e.lane, range(len(timeline.lanes))).all()
    assert np.isin(e.name, range(len(timeline.names))).all()
    assert ((e.detail >= -1) & (e.detail < len(timeline.detail))).all()
    assert (e.end >= e.start).all()
    assert (e.end > timeline.extent[0]).all()
    assert (e.start < timeline.extent[1]).all()
    assert set(e.category.tolist()) <= {int(c) for c in Category}
    steps = measured.timed.steps
    assert steps.warmup <= representative(steps) < len(steps)
