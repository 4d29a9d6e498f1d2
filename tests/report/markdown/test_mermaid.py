"""Mermaid that draws what it is given, whatever names are in it."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.report.reports import HOSTILE
from traceanalyzer.report.markdown.mermaid import (
    MOST_POINTS,
    MOST_SLICES,
    bar_chart,
    line_chart,
    pie_chart,
    text_bar,
)

SLICE = re.compile(r'    "([\w .,:()/+*=-]+)" : (\d+\.\d\d)')
LABEL = r'"[\w .,:()/+*=-]+"'
NUMBER = r"-?\d+(?:\.\d+)?"
names = st.text(max_size=80) | st.sampled_from(HOSTILE)


def slices(chart):
    return [(m[1], float(m[2])) for line in chart[3:-1] if (m := SLICE.fullmatch(line))]


def test_a_pie_of_shares_the_largest_first():
    chart = pie_chart("Time, %", [("b", 1.0), ("a", 3.0), ("none", 0.0), ("unknown", float("nan"))])
    assert (chart[0], chart[2], chart[-1]) == ("```mermaid", "pie showData title Time,", "```")
    assert slices(chart) == [("a", 75.0), ("b", 25.0)]


def test_a_pie_of_many_has_the_rest_in_one_slice():
    found = slices(pie_chart("t", [(f"n{i}", 1.0) for i in range(100)]))
    assert len(found) == MOST_SLICES
    assert ("all others", 93.0) in found


def test_slices_of_one_name_are_one():
    assert slices(pie_chart("t", [("a|", 1.0), ("a>", 1.0), ("b", 2.0)])) == [
        ("a", 50.0),
        ("b", 50.0),
    ]


@pytest.mark.parametrize(
    "chart",
    [
        pie_chart("t", [("a", 1.0), ("b", 0.0)]),
        bar_chart("t", "x", "ms", []),
        bar_chart("t", "x", "ms", [("a", 0.0)]),
        line_chart("t", "x", "ms", [(0, 1.0)]),
        line_chart("t", "x", "ms", [(0, 0.0), (1, 0.0)]),
        line_chart("t", "x", "ms", [(0, float("nan")), (1, float("inf")), (2, 1.0)]),
    ],
)
def test_nothing_is_drawn_of_nothing(chart):
    assert chart == []


def test_a_line_starts_at_zero_and_is_not_too_long():
    chart = line_chart("Step time", "step", "ms", [(i, 15.0 + i / 1e9) for i in range(1000)])
    assert chart[4:6] == [
        f'    x-axis "step" {1000 - MOST_POINTS} --> 999',
        '    y-axis "ms" 0 --> 15.000001',
    ]
    assert chart[6].count(",") == MOST_POINTS - 1


def test_negative_values_stay_below_zero():
    assert '    y-axis "ms" -2.5 --> 1' in bar_chart("t", "x", "ms", [("a", -2.5), ("b", 1.0)])


@given(names, st.lists(st.tuples(names, st.floats(0, 1e12)), max_size=20))
def test_any_names_make_a_pie(title, parts):
    for line in pie_chart(title, parts)[3:-1]:
        assert SLICE.fullmatch(line)


@given(names, names, names, st.lists(st.tuples(names, st.floats(-1e12, 1e12)), max_size=20))
def test_any_names_make_a_chart(title, axis, unit, bars):
    chart = bar_chart(title, axis, unit, bars)
    if chart:
        kind, shown, x, y, values = chart[2:-1]
        assert kind == "xychart-beta"
        assert re.fullmatch(f"    title {LABEL}", shown)
        assert re.fullmatch(rf"    x-axis {LABEL} \[{LABEL}(?:, {LABEL})*\]", x)
        assert re.fullmatch(f"    y-axis {LABEL} {NUMBER} --> {NUMBER}", y)
        assert re.fullmatch(rf"    bar \[{NUMBER}(?:, {NUMBER})*\]", values)


@pytest.mark.parametrize(
    ("share", "length"), [(0, 0), (0.5, 10), (1, 20), (7, 20), (-1, 0), (float("nan"), 0)]
)
def test_a_bar_of_text(share, length):
    assert len(text_bar(share)) == length
