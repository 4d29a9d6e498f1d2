"""What a report says in sentences."""

from __future__ import annotations

from dataclasses import replace

from tests.report.reports import empty, full
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


def test_findings_whose_remedy_gains_nothing_are_named():
    report = full()
    first = report.findings[0]
    hidden = replace(first, id="memory-chains", cls="memory", headroom_ms=1.0)
    unknown = replace(first, id="gpu-busy", cls="compute", headroom_ms=None)
    with_hidden = replace(
        report, findings=[first, hidden, unknown], recommendations=report.recommendations[:1]
    )
    assert report.recommendations[0].id.startswith(first.id)
    assert gains.without_gain(with_hidden) == ("Skipped, predicted gain under 1%: memory-chains.")
    assert gains.without_gain(replace(with_hidden, recommendations=[])) is None
