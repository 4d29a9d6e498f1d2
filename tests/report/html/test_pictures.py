"""Pictures as SVG: where marks are, that they stand alone, and colours that everyone can tell
apart."""

from __future__ import annotations

import itertools
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.report.html.timelines import timeline
from tests.report.reports import full, hostile
from traceanalyzer.report.figures import step_times
from traceanalyzer.report.html.pictures import colours
from traceanalyzer.report.html.pictures.plot import (
    Axis,
    AxisScale,
    Box,
    Lines,
    Plot,
    Rects,
    scale_of,
    ticks,
)
from traceanalyzer.report.html.pictures.standalone import standalone, strip
from traceanalyzer.report.html.pictures.summary import (
    budget_bar,
    ladder,
    picture,
    predictions_ladder,
    waterfall,
)
from traceanalyzer.report.html.pictures.svg import drawn
from traceanalyzer.report.outline import breakdown, opening

SVG = "{http://www.w3.org/2000/svg}"


def parsed(text):
    return ElementTree.fromstring(text)  # noqa: S314 - our own


def rects(plot):
    return [mark for mark in plot.marks if isinstance(mark, Rects)]


@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e9))
def test_ticks_are_few_in_order_and_on_the_axis(low, length):
    scale = AxisScale(low, low + length, False)
    values = [value for value, _ in ticks(Axis(), scale)]
    assert len(values) <= 12
    assert values == sorted(values)
    assert all(-1e-6 <= (value - low) / length <= 1 + 1e-6 for value in values)


@given(st.floats(1e-9, 1e9), st.floats(1.01, 1e12))
def test_ticks_of_a_logarithmic_axis_are_on_it(low, factor):
    values = [value for value, _ in ticks(Axis(log=True), AxisScale(low, low * factor, True))]
    assert all(low <= value <= low * factor for value in values)


@pytest.mark.parametrize(
    "values", [[], [0.0], [float("nan")], [5.0, 5.0], [-3.0], [5e-324], [-1e308, 1e308], [1e20]]
)
def test_odd_data_have_an_axis(values):
    for log in (False, True):
        scale = scale_of(Axis(log=log), [Lines("", "text", values, values)], "x")
        assert scale.high > scale.low
        assert ticks(Axis(log=log), scale)


def test_a_rectangle_is_where_its_figures_say():
    plot = Plot(
        [Rects("a", "compute", [Box(1.0, 3.0, 0.0, 5.0, "said")])],
        Axis(range=(0, 4)),
        Axis(range=(0, 10)),
    )
    (box,) = parsed(drawn(plot, 142, "label", 500)).iter(f"{SVG}rect")
    inner = 142 - 10 - 22
    assert (box.get("x"), box.get("width")) == ("25%", "50%")
    assert (float(box.get("y")), float(box.get("height"))) == (inner / 2, inner / 2)
    assert box.get("data-def") == "said"


def test_a_waterfall_ends_where_the_other_side_begins():
    plot, _ = waterfall(("A", 10.0), [("less", -4.0), ("more", 1.0), ("again", -0.5)], ("B", 6.5))
    (bars,) = rects(plot)
    spans = [(box.x0, box.x1) for box in bars.boxes]
    assert spans == [(0, 10), (6, 10), (6, 7), (6.5, 7), (0, 6.5)]
    assert [box.colour for box in bars.boxes] == ["neutral", "less", "more", "less", "neutral"]
    assert bars.boxes[1].hint == "less: -4.00 ms"
    assert bars.boxes[2].hint == "more: +1.00 ms"


def test_a_ladder_goes_from_today_to_the_floor():
    plot, _ = ladder(("today", 10.0), [("x", 8.0, (7.0, 9.0)), ("y", 5.0, None)], ("floor", 2.0))
    bars, ranges = rects(plot)
    assert [box.x1 for box in bars.boxes] == [10, 8, 5, 2]
    assert ([box.x0 for box in ranges.boxes], [box.x1 for box in ranges.boxes]) == ([7.0], [9.0])
    assert "1.25x" in bars.boxes[1].hint


def test_the_budget_bar_is_the_budget_with_idle_time_by_cause():
    report = full()
    shares = breakdown.budget(report)
    causes = [share for share in shares if share.within]
    marks = rects(budget_bar(report))
    assert [mark.colour for mark in marks if mark.colour.startswith("idle-")] == [
        f"idle-{s.label}" for s in causes
    ]
    assert marks[-1].boxes[0].x1 == pytest.approx(step_times.step_ms(report), rel=1e-2)
    assert "idle" not in {mark.colour for mark in marks}


def test_predictions_are_those_of_the_report():
    report = full()
    plot, _ = predictions_ladder(report)
    assert [box.x1 for box in rects(plot)[0].boxes[1:3]] == [
        advice.predicted_step_ms for advice in report.recommendations
    ]
    assert predictions_ladder(replace(report, recommendations=[])) is None


def test_the_still_timeline_covers_what_the_events_do():
    one = timeline(2_000)
    one = replace(one, events=replace(one.events, end=one.events.start + 100))
    (bar,) = rects(strip(one)[0])
    assert sum(box.x1 - box.x0 for box in bar.boxes) == pytest.approx(one.window[1] / 1e6, rel=0.01)
    assert len(bar.boxes) == 1, "neighbours are one box"


@pytest.mark.parametrize("report", [full(), hostile()], ids=["full", "hostile"])
def test_a_picture_stands_alone(report):
    text = picture(report, timeline())
    root = parsed(text)
    assert {element.tag.removeprefix(SVG) for element in root.iter()} <= {
        "svg",
        "g",
        "rect",
        "line",
        "text",
        "title",
    }
    assert "var(" not in text
    assert "nan" not in {value for element in root.iter() for value in element.attrib.values()}
    named = {name for element in root.iter() for name in element.attrib}
    assert not {name for name in named if "href" in name or name.startswith("on") or name == "src"}
    assert int(root.get("height")) < 2_000
    assert any(
        opening.verdict(report).split()[0] in (element.text or "")
        for element in root.iter(f"{SVG}text")
    )


# Machado, Oliveira, Fernandes 2009, severity 1: what is left of red, green and blue.
SEEN_BY = {
    "all": np.eye(3),
    "protanopes": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "deuteranopes": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.01182, 0.04294, 0.968881],
    ],
}
BESIDE = (
    "compute",
    "communication",
    "copy",
    "idle-launch",
    "idle-sync",
    "idle-input",
    "idle-host",
    "idle-communication",
    "idle-profiler",
    "idle-other",
)
LEAST_APART = 14.0
"""CIELAB distance; colours nearer than this are taken for one where they are not side by side."""


def lab(colour, seen):
    rgb = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    linear = np.clip(np.array(seen) @ linear, 0, 1)
    xyz = (
        np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
        @ linear
    )
    f = np.cbrt(xyz / [0.9505, 1.0, 1.089])
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize("seen", SEEN_BY)
@pytest.mark.parametrize("values", [colours.light(), colours.palettes()[1]], ids=["light", "dark"])
def test_colours_of_the_budget_and_the_timeline_are_told_apart_by_everyone(values, seen):
    near = {
        (a, b): distance
        for a, b in itertools.combinations(BESIDE, 2)
        if (
            distance := float(
                np.linalg.norm(lab(values[a], SEEN_BY[seen]) - lab(values[b], SEEN_BY[seen]))
            )
        )
        < LEAST_APART
    }
    assert near == {}


def luminance(colour):
    rgb = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


@pytest.mark.parametrize("name", [*BESIDE, "operator", "exposed-communication"])
def test_text_in_a_box_can_be_read_on_light_and_dark_pages(name):
    said = colours.on(name).removeprefix("light-dark(").removesuffix(")").split(",")
    for text, values in zip(
        (said[0], said[-1]), (colours.light(), colours.palettes()[1]), strict=True
    ):
        low, high = sorted((luminance(text), luminance(values[name])))
        assert (high + 0.05) / (low + 0.05) > 2.8, (
            "of large text 3 is asked, of none less than this"
        )


def test_a_picture_alone_has_light_colours_only():
    assert "light-dark" in drawn(Plot([box("idle-sync")]), 60, "label")
    assert "light-dark" not in standalone("title", [], [("", Plot([box("idle-sync")]), 60)])


def box(colour):
    return Rects("", colour, [Box(0.0, 1.0, 0.0, 1.0, text="text")])
