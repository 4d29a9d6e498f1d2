"""What a report says in sentences."""

from __future__ import annotations

import re
from dataclasses import replace

from tests.report.reports import empty, full, known
from traceanalyzer.analysis.roofline.roofline_rows import RooflineStep
from traceanalyzer.diagnosis.finding import BOUNDED, REPLAYED, START_UP
from traceanalyzer.report.html import render_html
from traceanalyzer.report.markdown.issue import render_markdown
from traceanalyzer.report.outline import gains, opening
from traceanalyzer.report.terminal.screen import render_screen, render_terminal
from traceanalyzer.report.whole import known_in_brief


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


def test_of_a_busy_gpu_nothing_is_found_and_unmeasured_limits_are_said():
    report = full()
    metrics = report.metrics
    assert metrics.utilisation is not None
    busy = replace(metrics.utilisation, gpu_busy_share=0.904)
    for modelled, end in ((0.95, "step."), (0.5, "What limits its kernels is not measured.")):
        roofline = known(RooflineStep, modelled_share=modelled)
        found = replace(
            report,
            metrics=replace(metrics, utilisation=busy, roofline=roofline),
            summary=replace(report.summary, bottleneck="memory"),
            recommendations=[],
        )
        told = gains.no_advice(found).partition(" To go further")[0]
        assert told.startswith("Nothing found: the GPU is busy for 90.4% of the step.")
        assert told.endswith(end)


def test_an_mfu_of_a_part_of_the_operations_is_at_least_that():
    report = full()
    metrics = report.metrics
    assert metrics.throughput is not None
    work = replace(metrics.throughput, flops_source="modelled")
    for modelled, words in ((0.95, "MFU "), (0.7, "MFU at least ")):
        roofline = known(RooflineStep, modelled_share=modelled)
        partly = replace(metrics, roofline=roofline, throughput=work)
        text = known_in_brief(replace(report, metrics=partly))
        assert re.search(rf"{words}\d", text)
    used = replace(metrics.utilisation, mfu=0.3, sol=0.5, attainable_mfu=None)
    whole = replace(roofline, modelled_share=0.95)
    unmasked = replace(metrics, roofline=whole, throughput=work, utilisation=used)
    assert "MFU at least 30" in known_in_brief(replace(report, metrics=unmasked))
    given = replace(metrics, roofline=roofline, throughput=replace(work, flops_source="given"))
    assert "at least" not in known_in_brief(replace(report, metrics=given))


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


def test_a_program_with_hardly_any_gpu_work_is_not_told_that_data_lacks():
    """Six operations may be all that it has."""
    few = "Inconclusive: only 6 GPU operations were recorded; the GPU is idle."
    unclear = replace(
        full(), summary=replace(full().summary, bottleneck="inconclusive", headline=few)
    )
    told = gains.no_advice(unclear)
    assert told.startswith(
        "So little GPU work has nothing to change that would show. Next, with more of it: "
    )


def test_what_the_headline_says_is_not_said_again_below_it():
    report = full()
    notes = ["The log ends with an error.", "Figures are of the others."]
    summary = replace(report.summary, headline="The log ends with an error. 48 run at a time.")
    report = replace(report, summary=summary, notes=notes, pressing_notes=2)
    assert notes[1] in opening.other_caveats(report)
    assert notes[0] not in opening.other_caveats(report)
