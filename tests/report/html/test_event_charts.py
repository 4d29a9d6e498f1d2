"""Charts of single events: only where they have something to say, and saying what was measured."""

from __future__ import annotations

import dataclasses

import pytest

from tests.report.html.conftest import SAMPLES, report_and_details
from tests.report.reports import empty, full, hostile
from traceanalyzer.report.html import event_charts, rank_charts
from traceanalyzer.report.html.details import Details
from traceanalyzer.report.html.frame import chart_place
from traceanalyzer.report.html.pictures import colours
from traceanalyzer.report.html.pictures.plot import Dots, Lines, PlotTexts, Rects

OF_REPORT = (
    event_charts.idle_places,
    event_charts.step_times_chart,
    rank_charts.bandwidths,
    rank_charts.traffic_chart,
)
OF_DETAILS = (
    event_charts.launch_queue_chart,
    event_charts.logged_chart,
    event_charts.icicle,
    event_charts.idle_icicle,
    rank_charts.ranks_by_step,
    rank_charts.waiting_by_step,
    rank_charts.overlap,
)


def all_of(report, details):
    made = [make(report) for make in OF_REPORT] + [make(details) for make in OF_DETAILS]
    made.append(event_charts.kernel_lengths_chart(report, details))
    return {chart.id: chart for chart in made if chart is not None}


def length(mark):
    return sum(box.x1 - box.x0 for box in mark.boxes)


def rects(chart):
    return [mark for mark in chart.plot.marks if isinstance(mark, Rects)]


@pytest.fixture(
    scope="module",
    params=["sync_bound_stacks", "tensor_parallel", "communication_bound", "cuda_graph"],
)
def shown(request):
    return report_and_details(SAMPLES / request.param)


def test_what_is_drawn_is_in_the_colours_of_the_page_and_small(shown):
    for chart in all_of(*shown).values():
        for mark in chart.plot.marks:
            used = (
                []
                if isinstance(mark, PlotTexts)
                else [
                    mark.colour,
                    *(box.colour for box in getattr(mark, "boxes", ()) if box.colour),
                ]
            )
            assert set(used) <= colours.light().keys(), chart.id
        assert len(chart_place(chart)) < 80_000


@pytest.mark.parametrize("report", [full(), empty(), hostile()], ids=["full", "empty", "hostile"])
def test_of_a_report_alone_there_is_little(report):
    assert set(all_of(report, Details())) <= {"places", "times", "bandwidths"}


def test_overlap_is_the_communication_of_the_step_hidden_and_exposed():
    report, details = report_and_details(SAMPLES / "communication_bound")
    marks = {mark.name: mark for mark in rects(rank_charts.overlap(details))}
    whole = marks["exposed communication"]
    named = marks[""]
    # Of one step, not of the mean; nothing of it is hidden in this recording.
    assert length(whole) == pytest.approx(report.metrics.communication.total_ms, rel=0.2)
    assert length(whole) == pytest.approx(report.metrics.communication.exposed_ms, rel=0.2)
    assert "communication beside compute" not in marks
    assert named.boxes[1].text.startswith("all_reduce 2/")
    assert " of it exposed" in named.boxes[1].hint
    start, end = details.timeline.window
    all_step = dataclasses.replace(details.messages[0], start=start, end=end)
    marks = {
        mark.name: mark
        for mark in rects(rank_charts.overlap(dataclasses.replace(details, messages=[all_step])))
    }
    assert length(marks["communication beside compute"]) == pytest.approx(length(marks["compute"]))
    assert rank_charts.overlap(report_and_details(SAMPLES / "sync_bound_stacks")[1]) is None


def test_places_of_idle_time_are_those_with_the_most_of_it():
    report, _ = report_and_details(SAMPLES / "sync_bound_stacks")
    (bars,) = rects(event_charts.idle_places(report))
    rows = report.tables["gap_places"]
    assert [box.x1 for box in bars.boxes] == pytest.approx(
        [row.idle_ms for row in rows[: len(bars.boxes)]]
    )
    assert [box.colour for box in bars.boxes] == [
        f"idle-{row.cause}" for row in rows[: len(bars.boxes)]
    ]


def test_the_cost_of_a_launch_is_a_line_among_the_kernels():
    report, details = report_and_details(SAMPLES / "sync_bound_stacks")
    (line,) = [
        m
        for m in event_charts.kernel_lengths_chart(report, details).plot.marks
        if isinstance(m, Lines)
    ]
    assert list(line.x) == [report.metrics.launches.launch_mean_us] * 2


def test_the_longest_step_of_all_ranks_is_the_darkest():
    _, details = report_and_details(SAMPLES / "tensor_parallel")
    (cells,) = rects(rank_charts.ranks_by_step(details))
    times = [time for row in details.by_rank for time in row.times_ms]
    assert [box.strength for box in cells.boxes][times.index(max(times))] == pytest.approx(1.0)
    assert min([box.strength for box in cells.boxes]) > 0
    (waits,) = rects(rank_charts.waiting_by_step(details))
    waited = [time for row in details.by_rank for time in row.waiting_ms]
    assert [box.strength for box in waits.boxes][waited.index(max(waited))] == pytest.approx(1.0)
    assert len([box.hint for box in waits.boxes]) == len([box.hint for box in cells.boxes])


def test_a_logs_steps_are_data_and_the_rest():
    report, details = report_and_details(SAMPLES / "timing_input_bound")
    data, rest = rects(event_charts.logged_chart(details))
    assert (data.name, data.colour) == ("waiting for data", "idle-input")
    assert [box.y1 for box in rest.boxes] == pytest.approx([row.time_ms for row in details.logged])
    assert not [m for m in event_charts.logged_chart(details).plot.marks if isinstance(m, Dots)]
    assert report.tables["steps"]
