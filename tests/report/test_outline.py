"""What a report says in sentences."""

from __future__ import annotations

from dataclasses import replace

from tests.report.reports import empty, full
from traceanalyzer.diagnosis.classify import START_UP
from traceanalyzer.report.outline import gains


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
        ("nsys", "traceanalyzer collect nsys -- COMMAND"),
        ("rocpd", "traceanalyzer collect rocprofv3 -- COMMAND"),
        ("kineto", "traceanalyzer collect torch -- python train.py"),
    ):
        inputs = [replace(one, kind=kind) for one in report.inputs]
        unclear = replace(report, summary=summary, inputs=inputs, recommendations=[])
        assert gains.no_advice(unclear) == f"Not enough data. Next: {command}."
    captured = replace(summary, headline=f"Inconclusive: {START_UP}: CUDA graphs are captured.")
    start_up = replace(report, summary=captured, recommendations=[])
    assert "analyze CAPTURE REPLAYS" in gains.no_advice(start_up)


def test_findings_whose_remedy_gains_nothing_are_named():
    report = full()
    first = report.findings[0]
    hidden = replace(first, id="memory-chains", cls="memory", headroom_ms=1.0)
    unknown = replace(first, id="gpu-busy", cls="compute", headroom_ms=None)
    with_hidden = replace(
        report, findings=[first, hidden, unknown], recommendations=report.recommendations[:1]
    )
    assert report.recommendations[0].id.startswith(first.id)
    assert gains.without_gain(with_hidden) == ("Predicted to gain under 1% alone: memory-chains.")
    assert gains.without_gain(replace(with_hidden, recommendations=[])) is None
