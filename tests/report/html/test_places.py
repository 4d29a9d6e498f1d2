"""From a finding's words to its place on the timeline."""

from __future__ import annotations

import pytest

from tests.analysis.build import TraceBuilder
from tests.report.timeline.builders import three_steps
from traceanalyzer.diagnosis.finding import Evidence, Finding
from traceanalyzer.diagnosis.measurements import measure
from traceanalyzer.report.html.finding_section import (
    TimelinePlace,
    of_evidence,
    of_finding,
    of_moment,
)
from traceanalyzer.report.timeline.step_timeline import step_timeline


@pytest.fixture(scope="module")
def timeline():
    return step_timeline(measure(three_steps().build()))


def finding(cls, *where, id_="x"):
    return Finding(
        id_, cls, "title", "high", 1.0, [Evidence("time", 1.0, "ms", words) for words in where]
    )


@pytest.mark.parametrize(
    ("where", "place"),
    [
        (
            "cudaStreamSynchronize in aten::item > aten::_local_scalar_dense",
            TimelinePlace(31_000, 42_000),
        ),
        ("void cutlass::Kernel2<cutlass_80_tensor…", TimelinePlace(10_000, 40_000)),
        (
            "cutlass::Kernel2<cutlass_80_tensorop_bf16> (memory-bound)",
            TimelinePlace(10_000, 40_000),
        ),
        ("aten::mm", TimelinePlace(1_000, 30_000)),
        ("of the mean steady-state step", None),
        ("", None),
        ("void…", None),
    ],
)
def test_evidence_names_its_event(timeline, where, place):
    assert of_evidence(timeline, Evidence("time", 1.0, "ms", where)) == place


@pytest.mark.parametrize(
    ("cls", "place"),
    [
        ("sync", TimelinePlace(40_000, 60_000)),
        ("communication", TimelinePlace(60_000, 118_000)),
        ("compute", None),
        ("transfer", None),
        ("inconclusive", None),
    ],
)
def test_a_finding_is_where_its_class_costs_most(timeline, cls, place):
    assert of_finding(timeline, finding(cls, "steady state")) == place


def test_a_finding_on_kernels_is_at_the_kernel_that_it_names(timeline):
    assert of_finding(timeline, finding("memory", "steady state", "aten::mm")) == TimelinePlace(
        1_000, 30_000
    )


@pytest.mark.parametrize("id_", ["profiler-cost", "condition-clock"])
def test_what_is_about_the_whole_recording_has_no_place(timeline, id_):
    assert of_finding(timeline, finding("inconclusive", "aten::mm", id_=id_)) is None


def test_a_moment_of_another_step_is_not_shown(timeline):
    assert of_moment(timeline, 250_000, 1_000) == TimelinePlace(10_000, 11_000)
    assert of_moment(timeline, 50_000, 1_000) is None
    assert TimelinePlace(-5, 7).anchor == "#at=-5-7"


def test_pauses_between_queued_ops_are_told_from_late_launches():
    builder = TraceBuilder()
    for correlation, (launched, start, end) in enumerate(
        ((0, 10, 20), (1, 22, 30), (80, 90, 99)), 1
    ):
        builder.call("cudaLaunchKernel", launched, launched + 1, correlation)
        builder.kernel("k", start, end, correlation, stream=7)
    timeline = step_timeline(measure(builder.build()))
    assert of_finding(timeline, finding("launch", id_="launch-bound")) == TimelinePlace(
        20_000, 80_000
    )
    assert of_finding(timeline, finding("launch", id_="launch-latency")) == TimelinePlace(
        10_000, 12_000
    )
