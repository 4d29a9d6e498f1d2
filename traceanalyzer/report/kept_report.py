"""The kept report of a recording: one serves a terminal, a page and a comparison. What makes one is
loaded where none is kept: that takes as long as reading it."""

from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec

from traceanalyzer.ingest.cache.answers import answered_once, is_answered
from traceanalyzer.report import tables
from traceanalyzer.report.kept_answers import kept_question, kept_text, rows_from
from traceanalyzer.report.model import PAGE_ROWS, TOP_ROWS, Report

if TYPE_CHECKING:
    from traceanalyzer.diagnosis.finding import Finding
    from traceanalyzer.diagnosis.question import Query


def kept_report(asked: "Query", top: int = TOP_ROWS) -> Report:
    """The report, its long tables with so many rows; it is kept with a page's. Raises as `measured`
    does."""
    rows = max(top, PAGE_ROWS) if all(trace.kept_as for trace in asked.run.traces) else top

    def make() -> Report:
        from traceanalyzer.report import build

        return build.report_of(asked.measured, rows)

    def written(report: Report) -> str:
        return kept_text((replace(report, tables={}), report.tables))

    question = kept_question(asked, "report", rows)
    report = (
        make()
        if question is None
        else answered_once(asked.run, question, make, written, _made_from)
    )
    return replace(report, tables=tables.with_first_rows(report.tables, top))


def has_report(asked: "Query") -> bool:
    """Whether `kept_report` has one that was kept."""
    question = kept_question(asked, "report", PAGE_ROWS)
    return question is not None and is_answered(asked.run, question)


def kept_findings(asked: "Query") -> "list[Finding]":
    """The findings of the report that was kept, else the diagnosis's, which is sooner made. Raises as
    `measured` does."""
    if has_report(asked):
        return kept_report(asked).findings
    from traceanalyzer.diagnosis.diagnose import diagnose

    return diagnose(asked.measured.critical).findings


def _made_from(data: bytes) -> Report:
    report, texts = msgspec.json.decode(data, type=tuple[Report, dict[str, msgspec.Raw]])
    return replace(report, tables={name: rows_from(name, table) for name, table in texts.items()})
