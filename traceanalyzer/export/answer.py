"""What a report says of a recording, as tables: its summary, findings with their evidence, and
recommendations."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from traceanalyzer.diagnosis.selection import MeasuredRanks
from traceanalyzer.report.build import report_of
from traceanalyzer.report.model import Report

if TYPE_CHECKING:
    import pandas as pd

ROWS = 1  # of the report's own tables, which are exported whole by themselves
OWN_OF_ANSWER = frozenset(("bottleneck", "finding", "remedy", "severity", "unit"))
"""Columns with words of this program."""


def answer_frames(measured: MeasuredRanks) -> "Iterator[tuple[str, pd.DataFrame]]":
    """Name and rows of each table that has any, in the order of the report."""
    import pandas as pd

    report = report_of(measured, ROWS)
    tables = {
        "summary": _summary(report),
        "findings": _findings(report),
        "evidence": _evidence(report),
        "recommendations": _recommendations(report),
    }
    for name, rows in tables.items():
        if rows:
            yield name, pd.DataFrame(rows)


def _summary(report: Report) -> list[dict[str, object]]:
    found = report.summary
    return [
        {
            "bottleneck": found.bottleneck,
            "confidence": found.confidence,
            "headline": found.headline,
            "basis": found.basis,
            "step_ms": found.step_ms,
            "idle_share": found.idle_share,
        }
    ]


def _findings(report: Report) -> list[dict[str, object]]:
    return [
        {
            "finding": finding.id,
            "class": finding.cls,
            "title": finding.title,
            "severity": finding.severity,
            "headroom_ms": finding.headroom_ms,
        }
        for finding in report.findings
    ]


def _evidence(report: Report) -> list[dict[str, object]]:
    return [
        {
            "finding": finding.id,
            "metric": item.metric,
            "value": item.value if isinstance(item.value, int | float) else None,
            "text": item.value if isinstance(item.value, str) else None,
            "unit": item.unit,
            "where_found": item.where,
        }
        for finding in report.findings
        for item in finding.evidence
    ]


def _recommendations(report: Report) -> list[dict[str, object]]:
    return [
        {
            "finding": advice.id,
            "remedy": advice.remedy,
            "class": advice.cls,
            "action": advice.action,
            "predicted_step_ms": advice.predicted_step_ms,
            "low_ms": advice.low_ms,
            "high_ms": advice.high_ms,
            "predicted_speedup": advice.predicted_speedup,
            "basis": advice.basis,
        }
        for advice in report.recommendations
    ]
