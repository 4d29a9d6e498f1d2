"""The pictures behind the charts: true to the report, bounded."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.report.reports import HOSTILE, empty, full, hostile
from traceanalyzer.analysis.ranks.compare import RankRow
from traceanalyzer.analysis.tables.step_figures import Idle
from traceanalyzer.report.html.charts import axis_name
from traceanalyzer.report.html.details import Details, RooflineCeilings
from traceanalyzer.report.html.frame import chart_place
from traceanalyzer.report.html.pictures import colours
from traceanalyzer.report.html.pictures.plot import Dots, Lines, PlotTexts, Rects
from traceanalyzer.report.html.step_charts import (
    MAX_BARS,
    gap_lengths,
    idle_causes,
    rank_bars,
    step_budget,
)
from traceanalyzer.report.html.work_charts import (
    communication,
    kernel_classes,
    memory_chart,
    roofline,
)
from traceanalyzer.report.timeline.distributions import MemoryTrack

TIME = np.arange(3) * 1_000_000
DETAILS = Details(
    memory=[MemoryTrack(0, TIME, np.array([1, 9, 2]) * 10**6, np.full(3, 20 * 10**6), 3)],
    ceilings=RooflineCeilings(
        "H200", 4.8, {"bf16 on tensor cores": 989.0, "fp32 on the ordinary cores": 67.0}
    ),
)


def with_roofline(report):
    rows = [
        replace(row, intensity=2.0, tflops=5.0, bound_by="memory", sol=0.5)
        for row in report.tables["kernels"]
    ]
    return replace(report, tables=report.tables | {"kernels": rows})


def charts(report, details=DETAILS):
    made = [chart(report) for chart in (idle_causes, kernel_classes, communication)]
    made += [chart(report, details) for chart in (gap_lengths, step_budget, rank_bars, roofline)]
    made.append(memory_chart(details))
    return [chart for chart in made if chart is not None]


def marks(chart, kind):
    return [mark for mark in chart.plot.marks if isinstance(mark, kind)]


def lengths(bars, end="1", start="0", axis="y"):
    return [getattr(box, axis + end) - getattr(box, axis + start) for box in bars.boxes]


@pytest.mark.parametrize("report", [with_roofline(full()), hostile()], ids=["full", "hostile"])
def test_every_colour_is_one_of_the_pages_in_light_and_dark(report):
    assert colours.light().keys() == colours.palettes()[1].keys()
    for chart in charts(report):
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


def test_numbers_of_gaps_are_written_in_full():
    report = full()
    rows = [replace(row, gaps=1013.75) for row in report.tables["gap_histogram"]]
    drawn = gap_lengths(replace(report, tables=report.tables | {"gap_histogram": rows}), Details())
    assert "1,014 gaps" in [text for _, _, text in marks(drawn, PlotTexts)[-1].words]


def test_gaps_of_a_length_are_drawn_by_all_their_causes():
    report = full()
    quiet = Idle(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    known = {
        row.length: replace(quiet, host=row.idle_ms / 4, input=row.idle_ms / 2)
        for row in report.tables["gap_histogram"]
    }
    chart = gap_lengths(report, Details(idle_by_length=known))
    drawn = {bars.name: lengths(bars, axis="x") for bars in marks(chart, Rects)}
    assert drawn["host"] == pytest.approx(
        [row.idle_ms / 4 for row in report.tables["gap_histogram"]]
    )
    assert [key[:2] for key in chart.plot.legend] == [
        ("input", "idle-input"),
        ("host", "idle-host"),
    ]


def test_a_report_without_measurements_has_no_charts():
    assert charts(empty(), Details()) == []


def test_the_steps_bars_are_the_budget_of_each_step():
    report = full()
    rows = report.tables["steps"]
    shade, compute, *rest = marks(step_budget(report, Details()), Rects)
    assert [bars.name for bars in (compute, *rest)] == ["compute", "exposed copy", "idle"]
    assert lengths(compute) == pytest.approx([row.compute_ms for row in rows])
    assert [box.y0 for box in rest[0].boxes] == pytest.approx([box.y1 for box in compute.boxes]), (
        "stacked"
    )
    assert lengths(rest[1]) == pytest.approx([row.idle_ms for row in rows])
    assert compute.boxes[0].hint.startswith(f"step {rows[0].step}: compute ")
    assert ([box.x0 for box in shade.boxes], [box.x1 for box in shade.boxes]) == ([-0.5], [1.5]), (
        "warm-up"
    )


def test_idle_time_of_steps_and_ranks_is_drawn_by_cause():
    report = full()
    rows = report.tables["steps"]
    quiet = Idle(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    two = [
        RankRow(rank, 0, 9.0, 9.0, 5.0, 1.0, None, None, idle, False)
        for rank, idle in ((4, 3.0), (7, 2.0))
    ]
    details = Details(
        idle_of_steps={row.step: replace(quiet, sync=row.idle_ms - 0.1, host=0.1) for row in rows},
        idle_of_ranks={4: replace(quiet, launch=3.0), 7: replace(quiet, launch=0.5, input=1.5)},
    )
    drawn = {bars.name: bars for bars in marks(step_budget(report, details), Rects)}
    assert lengths(drawn["idle: host"]) == pytest.approx([0.1] * len(rows))
    assert lengths(drawn["idle: sync"]) == pytest.approx([row.idle_ms - 0.1 for row in rows])
    chart = rank_bars(replace(report, tables={"ranks": two}), details)
    drawn = {bars.name: bars for bars in marks(chart, Rects)}
    assert (lengths(drawn["idle: launch"]), lengths(drawn["idle: input"])) == ([3.0, 0.5], [1.5])
    (above,) = [box for box in drawn["idle: launch"].boxes if box.y1 == 0.5]
    assert drawn["idle: input"].boxes[0][:3:2] == (above.x0, above.y1), "one on top of the other"
    assert [name for name, *_ in chart.plot.legend] == [
        "compute",
        "communication",
        "idle: launch",
        "idle: input",
        "mean step",
    ]


@pytest.mark.parametrize("report", [with_roofline(full()), hostile()], ids=["full", "hostile"])
def test_a_legend_has_what_is_drawn_and_nothing_else(report):
    for chart in charts(report):
        seen = {mark.colour for mark in chart.plot.marks if isinstance(mark, Lines | Dots)}
        for mark in marks(chart, Rects):
            seen |= {
                box.colour or mark.colour
                for box in mark.boxes
                if box.x0 != box.x1 and box.y0 != box.y1
            }
        named = {colour for _, colour, _ in chart.plot.legend}
        assert named <= seen, chart.id
        # Where bars have names of their own, one colour for each is no category.
        assert chart.id == "idle" or len(seen) == 1 or seen - {"shade"} == named, chart.id


def test_many_steps_are_drawn_as_means():
    report = full()
    row = report.tables["steps"][0]
    rows = [
        replace(row, step=i, compute_ms=float(i % 2), warmup=False) for i in range(10 * MAX_BARS)
    ]
    chart = step_budget(replace(report, tables={"steps": rows}), Details())
    compute = marks(chart, Rects)[0]
    assert len(compute.boxes) == MAX_BARS
    assert set(lengths(compute)) == {0.5}
    assert "mean of 10 steps" in chart.caption


def test_steps_of_a_timing_log_are_their_times_alone():
    report = full()
    unknown = {
        "compute_ms": None,
        "exposed_communication_ms": None,
        "exposed_copy_ms": None,
        "idle_ms": None,
    }
    rows = [replace(row, **unknown) for row in report.tables["steps"]]
    (bars,) = [
        b
        for b in marks(step_budget(replace(report, tables={"steps": rows}), Details()), Rects)
        if b.name
    ]
    assert lengths(bars) == pytest.approx([row.duration_ms for row in rows])


def test_idle_causes_are_those_of_the_report_longest_first():
    report = full()
    chart = idle_causes(report)
    (bars,), names = marks(chart, Rects), [text for _, _, text in marks(chart, PlotTexts)[0].words]
    shown = dict(zip(names, lengths(bars, axis="x"), strict=True))
    assert shown == pytest.approx({c: v for c, v in vars(report.metrics.idle_ms).items() if v})
    assert lengths(bars, axis="x") == sorted(shown.values(), reverse=True)
    assert [box.colour for box in bars.boxes] == [f"idle-{name}" for name in names]


def test_ceilings_bend_where_bandwidth_reaches_the_peak():
    for line, peak in zip(
        marks(roofline(with_roofline(full()), DETAILS), Lines), (989.0, 67.0), strict=True
    ):
        assert line.x[1] == pytest.approx(peak / 4.8)
        assert list(line.y[1:]) == [peak, peak]
        assert line.y[0] / line.x[0] == pytest.approx(4.8)


def test_no_roofline_without_a_known_gpu_or_modelled_kernels():
    assert roofline(with_roofline(full()), Details()) is None
    assert roofline(full(), DETAILS) is None


def test_the_kernels_with_most_time_are_named():
    dots = marks(roofline(with_roofline(full()), DETAILS), Dots)
    assert any(dot.text for one in dots for dot in one.dots)


def test_charts_of_the_largest_run_are_small():
    report = with_roofline(full())
    many = {
        "steps": [
            replace(report.tables["steps"][0], step=i, compute_ms=i / 7) for i in range(100_000)
        ],
        "ranks": [RankRow(i, 0, *[10 / 7] * 7, i == 3) for i in range(10_000)],
        "kernels": [
            replace(report.tables["kernels"][0], name="k" * 200, intensity=i / 7 + 1)
            for i in range(300)
        ],
        "collectives": report.tables["collectives"] * 500,
    }
    time = np.arange(1_000) * 1_234_567
    tracks = [MemoryTrack(i, time, time + 7, time + 9, 10**6) for i in range(16)]
    made = charts(replace(report, tables=report.tables | many), replace(DETAILS, memory=tracks))
    assert len(made) == 8
    assert sum(len(chart_place(chart)) for chart in made) < 900_000


def test_memory_is_in_megabytes_over_milliseconds():
    allocated, reserved = marks(memory_chart(DETAILS), Lines)
    assert (allocated.x, allocated.y) == ([0, 1, 2], [1, 9, 2])
    assert reserved.y == [20, 20, 20]


@pytest.mark.parametrize("text", HOSTILE)
def test_a_name_is_short(text):
    assert len(axis_name(text)) <= 60
