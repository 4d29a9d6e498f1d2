"""What a report says in sentences."""

from __future__ import annotations

from dataclasses import replace

from tests.report.reports import empty, full
from traceanalyzer.diagnosis.finding import BOUNDED, REPLAYED, START_UP
from traceanalyzer.report.html import render_html
from traceanalyzer.report.markdown.issue import render_markdown
from traceanalyzer.report.outline import gains, opening
from traceanalyzer.report.terminal.screen import render_screen, render_terminal


def test_why_nothing_is_recommended():
    report = full()
    unclear = replace(
        report, summary=replace(report.summary, bottleneck="inconclusive"), recommendations=[]
    )
    assert "Not enough data" in gains.no_advice(unclear)
    assert "No known remedy is predicted to help" in gains.no_advice(
        replace(report, recommendations=[])
    )
    assert gains.no_advice(empty()) == "No recommendation: the GPU was not recorded."


def test_what_to_record_is_said_for_the_recorder():
    report = full()
    summary = replace(report.summary, bottleneck="inconclusive")
    for kind, command in (
        ("nsys", "traceanalyzer collect nsys -- ./your_program"),
        ("rocpd", "traceanalyzer collect rocprofv3 -- ./your_program"),
        ("kineto", "traceanalyzer collect torch -- python train.py"),
    ):
        inputs = [replace(one, kind=kind) for one in report.inputs]
        unclear = replace(report, summary=summary, inputs=inputs, recommendations=[])
        assert gains.no_advice(unclear) == f"Not enough data. Next: {command}."
    captured = replace(summary, headline=f"Inconclusive: {START_UP}: CUDA graphs are captured.")
    start_up = replace(report, summary=captured, recommendations=[])
    assert "analyze CAPTURE REPLAYS" in gains.no_advice(start_up)


MANY = f"{REPLAYED}: no waits; tests are gone; a number costs a launch (lower end: none; upper end: two)"
POINTS = ["no waits", "tests are gone", "a number costs a launch (lower end: none; upper end: two)"]


def test_assumptions_are_points_below_each_other() -> None:
    advice = full().recommendations[0]
    for basis, said in {
        "all waits gone": ["Assumes: all waits gone"],
        f"{REPLAYED}: all gone": [f"Assumes ({REPLAYED}): all gone"],
        f"{BOUNDED}: all gone": [f"Assumes ({BOUNDED}): all gone"],
        f"{BOUNDED}: all gone; at once": [f"Assumes ({BOUNDED}):", "all gone", "at once"],
        MANY: [f"Assumes ({REPLAYED}):", *POINTS],
    }.items():
        assert gains.assumed(replace(advice, basis=basis)) == said


def test_every_format_lists_assumptions() -> None:
    report = full()
    report = replace(report, recommendations=[replace(report.recommendations[0], basis=MANY)])
    for text in (render_markdown(report, in_brief=False), render_terminal(report, width=200)):
        assert (
            "\n".join(["(replayed without the profiler):", *(f"   - {one}" for one in POINTS)])
            in text
        )
    listed = "\n".join([f"Assumes ({REPLAYED}):", *(f"- {one}" for one in POINTS)])
    assert f'data-def="{listed}"' in render_html(report)


def test_findings_without_advice_are_named():
    report = full()
    first = report.findings[0]
    hidden = replace(first, id="memory-chains", cls="memory", headroom_ms=1.0)
    unknown = replace(first, id="gpu-busy", cls="compute", headroom_ms=None)
    with_hidden = replace(
        report, findings=[first, hidden, unknown], recommendations=report.recommendations[:1]
    )
    assert report.recommendations[0].id.startswith(first.id)
    assert gains.without_advice(with_hidden) == (
        "Nothing is advised against memory-chains: no known remedy fits, or it gains too little."
    )
    assert gains.without_advice(replace(with_hidden, recommendations=[])) is None


def test_a_cut_file_says_how_much_is_missing_where_it_is_known() -> None:
    report = full()
    note = "The file is cut off at 80% of the database: tables may be missing. Copy it again"
    cut = replace(report.inputs[0].health, truncated=True, notes=[note])
    known = replace(report.inputs[0], health=cut)
    assert "cut off at 80% of the database: tables may be missing. " in opening.damage(known)
    unknown = replace(known, health=replace(cut, notes=[]))
    assert "cut off: how much is missing is not known. " in opening.damage(unknown)


def test_what_is_missing_stands_above_the_budget() -> None:
    lines = render_screen(full()).splitlines()
    damage = next(i for i, line in enumerate(lines) if line.startswith("! /home/alice"))
    budget = next(i for i, line in enumerate(lines) if line.startswith("  compute"))
    assert damage < budget
