"""The report in a terminal."""

from dataclasses import replace
from itertools import pairwise

import pytest

from tests.analyzed import reported
from tests.recorded import ROOT
from tests.report.reports import empty, full, hostile
from tests.report.snapshots import matches_snapshot
from traceanalyzer.report.document import Fact
from traceanalyzer.report.outline import step_facts
from traceanalyzer.report.outline.step_facts import with_basis
from traceanalyzer.report.terminal.screen import render_screen, render_terminal
from traceanalyzer.report.whole import _without_nothing

SAMPLE = ROOT / "sample_traces" / "sync_bound"
SECTIONS = [
    "Summary",
    "Metrics",
    "Findings",
    "Recommendations",
    "How to reproduce",
    "Recording health",
    "Details",
]


def test_a_full_report():
    assert matches_snapshot(render_terminal(full()), "full.txt")


def test_the_first_screen():
    assert matches_snapshot(render_screen(full()), "screen.txt")


@pytest.mark.parametrize("report", [full(), empty(), hostile()], ids=["full", "empty", "hostile"])
@pytest.mark.parametrize("width", [60, 80, 140])
def test_the_answer_is_one_screen(report, width):
    lines = render_screen(report, width).splitlines()
    # a command is copied whole
    prose = [line for line in lines if not line.startswith(("Next: ", "      traceanalyzer "))]
    assert max(map(len, prose)) <= width
    assert len(lines) <= (30 if width >= 80 else 40)


def test_a_report_that_knows_nothing():
    assert matches_snapshot(render_terminal(empty()), "empty.txt")


@pytest.mark.parametrize("report", [full(), empty(), hostile()], ids=["full", "empty", "hostile"])
@pytest.mark.parametrize("width", [60, 80, 140])
def test_sections_come_in_order_and_fit(report, width):
    lines = render_terminal(report, width).splitlines()
    assert [line for line, below in pairwise(lines) if set(below) == {"─"}] == SECTIONS
    assert max(map(len, lines)) <= width


def test_colour_only_when_asked_for():
    assert "\x1b" not in render_terminal(full())
    assert "\x1b[" in render_terminal(full(), colour=True)


def test_names_are_neither_markup_nor_escape_sequences():
    text = render_terminal(hostile(), width=120)
    assert "\x1b" not in text
    assert "\x07" not in text
    assert "\u202e" not in text
    assert "[bold red]rich markup[/bold red] [/]" in text
    text.encode("utf-8")


@pytest.mark.parametrize("report", [full(), empty(), hostile()], ids=["full", "empty", "hostile"])
def test_there_is_no_nan(report):
    assert not {"nan", "inf", "None"} & set(render_terminal(report).split())


def groups_of(report):
    return dict(step_facts.step_groups(report))


def test_no_figure_of_a_group_stands_among_the_key_figures_too():
    groups = groups_of(reported(SAMPLE))
    assert [fact.label for fact in groups["Utilisation"]] == ["room"]
    assert "steps/s" not in [fact.label for fact in groups["Throughput"]]


def test_two_figures_of_a_group_have_two_names():
    for title, facts in groups_of(reported(SAMPLE)).items():
        labels = [fact.label for fact in facts]
        assert len(set(labels)) == len(labels), title


def test_a_group_says_where_it_is_not_of_the_summarys_step():
    report = reported(SAMPLE)
    assert with_basis(report, "Roofline") == "Roofline, as recorded"
    assert with_basis(report, "Utilisation") == "Utilisation"
    recorded = replace(report, metrics=replace(report.metrics, unprofiled=None))
    assert with_basis(recorded, "Roofline") == "Roofline"


def test_figures_that_are_zero_or_unknown_are_left_out_where_they_are_many():
    facts = [Fact("a", "0 us"), Fact("b", "0%"), Fact("c", "n/a (why)"), Fact("d", "1 ms")]
    shown = [(fact.label, fact.value) for fact in _without_nothing(facts)]
    assert shown == [("d", "1 ms")]
    assert _without_nothing(facts[2:]) == facts[2:]


def test_the_one_path_that_was_given_stands_in_the_commands():
    report = full()
    ranks = replace(report, inputs=[report.inputs[0], replace(report.inputs[0], rank=1)])
    assert "analyze PATH --full" in render_screen(ranks)
    assert "analyze runs/eight --full" in render_screen(ranks, given="runs/eight")


def test_a_step_that_is_a_call_of_a_model_says_so():
    report = full()
    of_model = replace(report, metrics=replace(report.metrics, step_unit="call of UNet"))
    assert "step = one call of UNet" in render_screen(of_model)
    of_optimizer = replace(report, metrics=replace(report.metrics, step_unit="step of AdamW"))
    assert "step = one" not in render_screen(of_optimizer)
