"""What a report says in sentences."""

from __future__ import annotations

from dataclasses import replace

from tests.report.reports import empty, full
from traceanalyzer.report import outline


def test_why_nothing_is_recommended():
    report = full()
    unclear = replace(report, summary=replace(report.summary, bottleneck="inconclusive"), recommendations=[])
    assert "the bottleneck is inconclusive" in outline.no_advice(unclear)
    assert "it needs a finding" in outline.no_advice(empty())
