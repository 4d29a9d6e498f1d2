"""The figures behind the charts: valid for Plotly, true to the report, bounded."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from importlib.resources import files

import numpy as np
import pytest

from tests.report.reports import HOSTILE, empty, full, hostile
from traceanalyzer.analysis.ranks.compare import RankRow
from traceanalyzer.report.html.charts import name_of
from traceanalyzer.report.html.data import MAX_TIMELINE_BYTES
from traceanalyzer.report.html.details import Ceilings, Details
from traceanalyzer.report.html.step_charts import MAX_BARS, gap_lengths, idle_causes, ranks, step_budget
from traceanalyzer.report.html.work_charts import communication, kernel_classes, memory, roofline
from traceanalyzer.report.timeline.memory_tracks import MemoryTrack

STYLE = (files("traceanalyzer.report.html") / "assets" / "page.css").read_text(encoding="utf-8")
TIME = np.arange(3) * 1_000_000
DETAILS = Details(
    memory=[MemoryTrack(0, TIME, np.array([1, 9, 2]) * 10**6, np.full(3, 20 * 10**6), 3)],
    ceilings=Ceilings("H200", 4.8, {"bf16 on tensor cores": 989.0, "fp32 on the ordinary cores": 67.0}),
)


def with_roofline(report):
    rows = [replace(row, intensity=2.0, tflops=5.0, bound_by="memory", sol=0.5) for row in report.tables["kernels"]]
    return replace(report, tables=report.tables | {"kernels": rows})


def charts(report, details=DETAILS):
    made = [chart(report) for chart in (step_budget, idle_causes, gap_lengths, ranks, kernel_classes, communication)]
    made += [roofline(report, details), memory(details)]
    return [chart for chart in made if chart is not None]


@pytest.mark.parametrize("report", [with_roofline(full()), hostile()], ids=["full", "hostile"])
def test_figures_are_valid(report):
    graph_objects = pytest.importorskip("plotly.graph_objects")
    for chart in charts(report):
        text = re.sub(r'"--[\w-]+"', '"#123456"', json.dumps(chart.figure))
        graph_objects.Figure(json.loads(text))


def test_every_colour_is_one_of_the_pages_in_light_and_dark():
    for chart in charts(with_roofline(full())):
        for name in re.findall(r'"(--[\w-]+)"', json.dumps(chart.figure)):
            assert STYLE.count(f"{name}:") == 2, name


def test_numbers_of_gaps_are_written_in_full():
    report = full()
    rows = [replace(row, gaps=1013.75) for row in report.tables["gap_histogram"]]
    drawn = gap_lengths(replace(report, tables=report.tables | {"gap_histogram": rows}))
    assert drawn is not None
    assert '"1,014"' in json.dumps(drawn.figure)


def test_a_report_without_measurements_has_no_charts():
    assert charts(empty(), Details()) == []


def test_the_steps_bars_are_the_budget_of_each_step():
    report = full()
    data = step_budget(report).figure["data"]
    rows = report.tables["steps"]
    assert [trace["name"] for trace in data] == ["compute", "exposed copy", "idle"]
    assert data[0]["y"] == [row.compute_ms for row in rows]
    assert data[0]["x"] == [row.step for row in rows]


def test_warm_up_is_shaded():
    (shape,) = step_budget(full()).figure["layout"]["shapes"]
    assert (shape["x0"], shape["x1"]) == (-0.5, 1.5)


def test_many_steps_are_drawn_as_means():
    report = full()
    row = report.tables["steps"][0]
    rows = [replace(row, step=i, compute_ms=float(i % 2), warmup=False) for i in range(10 * MAX_BARS)]
    chart = step_budget(replace(report, tables={"steps": rows}))
    compute = chart.figure["data"][0]
    assert len(compute["y"]) == MAX_BARS
    assert set(compute["y"]) == {0.5}
    assert "mean of 10 steps" in chart.caption


def test_steps_of_a_timing_log_are_their_times_alone():
    report = full()
    unknown = {"compute_ms": None, "exposed_communication_ms": None, "exposed_copy_ms": None, "idle_ms": None}
    rows = [replace(row, **unknown) for row in report.tables["steps"]]
    (trace,) = step_budget(replace(report, tables={"steps": rows})).figure["data"]
    assert trace["y"] == [row.duration_ms for row in rows]


def test_idle_causes_are_those_of_the_report_longest_first():
    report = full()
    (data,) = idle_causes(report).figure["data"]
    shown = dict(zip(data["y"], data["x"], strict=True))
    assert shown == pytest.approx({c: v for c, v in vars(report.metrics.idle_ms).items() if v}, rel=1e-5)
    assert data["x"] == sorted(data["x"])


def test_ceilings_bend_where_bandwidth_reaches_the_peak():
    lines = [t for t in roofline(with_roofline(full()), DETAILS).figure["data"] if t["mode"] == "lines"]
    for trace, peak in zip(lines, (989.0, 67.0), strict=True):
        assert trace["x"][1] == pytest.approx(peak / 4.8)
        assert trace["y"][1:] == [peak, peak]
        assert trace["y"][0] / trace["x"][0] == pytest.approx(4.8)


def test_no_roofline_without_a_known_gpu_or_modelled_kernels():
    assert roofline(with_roofline(full()), Details()) is None
    assert roofline(full(), DETAILS) is None


def test_charts_of_the_largest_run_are_small():
    report = with_roofline(full())
    many = {
        "steps": [replace(report.tables["steps"][0], step=i, compute_ms=i / 7) for i in range(100_000)],
        "ranks": [RankRow(i, 0, *[10 / 7] * 7, i == 3) for i in range(10_000)],
        "kernels": [replace(report.tables["kernels"][0], name="k" * 200, intensity=i / 7 + 1) for i in range(300)],
        "collectives": report.tables["collectives"] * 500,
    }
    time = np.arange(1_000) * 1_234_567
    tracks = [MemoryTrack(i, time, time + 7, time + 9, 10**6) for i in range(16)]
    made = charts(replace(report, tables=report.tables | many), replace(DETAILS, memory=tracks))
    assert len(made) == 8
    assert sum(len(json.dumps(chart.figure)) for chart in made) + MAX_TIMELINE_BYTES < 2_000_000


def test_memory_is_in_megabytes_over_milliseconds():
    allocated, reserved = memory(DETAILS).figure["data"]
    assert (allocated["x"], allocated["y"]) == ([0, 1, 2], [1, 9, 2])
    assert reserved["y"] == [20, 20, 20]


@pytest.mark.parametrize("text", HOSTILE)
def test_plotly_finds_no_tag_in_a_name(text):
    assert "<" not in name_of(text)
    assert len(name_of(text)) < 400
