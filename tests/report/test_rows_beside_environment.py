"""What a whole report says one time: conditions and the marks of steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest

from tests.report.reports import full
from traceanalyzer.report.document import Facts
from traceanalyzer.report.html.sections import render_html
from traceanalyzer.report.markdown.issue import GITHUB_LIMIT, render_markdown
from traceanalyzer.report.model import Report
from traceanalyzer.report.parts.in_brief import how_to_reproduce, rows_in_report
from traceanalyzer.report.terminal.screen import render_terminal
from traceanalyzer.trace.circumstances import Condition

CONDITIONS = [
    Condition("PyTorch", "2.9.7"),
    Condition("CUDA", "13.7", "is slow here"),
    Condition("Python", "3.12.7"),
    Condition("CPU", "a name of the processor " * 9),
]


def report_with_marks() -> Report:
    report = full()
    (op,) = report.tables["ops"]
    ops = [replace(op, name="ProfilerStep*"), op]
    return replace(report, tables=report.tables | {"ops": ops, "conditions": CONDITIONS})


def test_conditions_of_the_environment_are_left_out_unless_they_say_more() -> None:
    rows = rows_in_report(report_with_marks(), "conditions")
    assert [row.name for row in rows] == ["CUDA", "Python", "CPU"]


def test_what_is_no_such_table_is_as_it_was() -> None:
    report = report_with_marks()
    assert rows_in_report(report, "kernels") == report.tables["kernels"]
    assert rows_in_report(report, "no such table") == []


@pytest.mark.parametrize(
    "render", [render_terminal, partial(render_markdown, max_chars=GITHUB_LIMIT), render_html]
)
def test_each_form_names_the_version_once_and_no_mark_of_a_step(
    render: Callable[[Report], str],
) -> None:
    shown = render(report_with_marks())
    assert shown.count("2.9.7") == 1
    assert "3.12.7" in shown
    assert "aten::addmm" in shown
    assert "ProfilerStep*" not in shown


@pytest.mark.parametrize(
    ("names", "again", "compared"),
    [
        (["a b.json"], "analyze 'a b.json'", "compare 'a b.json' CHANGED"),
        (["r0.json", "r1.json"], "analyze r0.json r1.json", "compare DIR CHANGED"),
        ([f"r{i}.json" for i in range(64)], "analyze PATH...", "compare DIR CHANGED"),
    ],
)
def test_commands_to_reproduce_name_the_recordings_where_there_is_room(
    names: list[str], again: str, compared: str
) -> None:
    report = full()
    inputs = [replace(report.inputs[0], path=name) for name in names]
    (section,) = how_to_reproduce(replace(report, inputs=inputs))
    (part,) = section.parts
    assert isinstance(part, Facts)
    commands = {fact.label: fact.value for fact in part.facts}
    assert commands["again"] == f"traceanalyzer {again}"
    assert commands["after a change"] == f"traceanalyzer {compared}"


def test_what_cannot_be_compared_has_no_command_for_it() -> None:
    report = full()
    metrics = replace(report.metrics, step_time_ms=None, budget_ms=None, serving=None)
    (section,) = how_to_reproduce(replace(report, metrics=metrics))
    (part,) = section.parts
    assert isinstance(part, Facts)
    assert "after a change" not in {fact.label for fact in part.facts}
