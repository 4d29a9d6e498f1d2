"""The kept report of a recording: one serves a terminal, a page and a comparison. What makes one is
loaded where none is kept: that takes as long as reading it."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec

from traceanalyzer.analysis.joined.knowledge import Knowledge
from traceanalyzer.base.files import reads_apart
from traceanalyzer.base.reading import reading
from traceanalyzer.diagnosis.part_of_run import Selection
from traceanalyzer.ingest.cache.answers import answered_once, is_answered
from traceanalyzer.ingest.cache.pages import CachedPage, answered_page, keep_page, text_of_page
from traceanalyzer.report import tables
from traceanalyzer.report.kept_answers import (
    MOST_RANKS,
    MOST_ROWS,
    kept_question,
    kept_text,
    rows_from,
)
from traceanalyzer.report.model import PAGE_ROWS, TOP_ROWS, Report
from traceanalyzer.report.table_entries.asked_about import facts_of

if TYPE_CHECKING:
    from traceanalyzer.diagnosis.finding import Finding
    from traceanalyzer.diagnosis.question import Query


def kept_report(asked: "Query", top: int = TOP_ROWS) -> Report:
    """The report, its long tables with so many rows; it is kept with a page's. Raises as `measured`
    does."""
    return with_rows(whole_report(asked, top), top)


def whole_report(asked: "Query", top: int = TOP_ROWS) -> Report:
    """As `kept_report`, its long tables with all the rows that it was made with."""
    rows = rows_of(asked, top)

    def make() -> Report:
        from traceanalyzer.report import build

        return build.report_of(asked.measured, rows)

    question = kept_question(asked, "report", rows)
    if question is None:
        return make()
    return answered_once(asked.run, question, make, _written, _made_from)


def rows_of(asked: "Query", top: int) -> int:
    """How many rows long tables have where so many are asked for: as many as a page's where a report
    is kept."""
    return max(top, PAGE_ROWS) if leaves_page(asked) else top


def leaves_page(asked: "Query") -> bool:
    """Whether a report leaves all that a page shows: of a recording that is not read again, and of
    ranks that take long to read. Of one short recording that would take a tenth of its report."""
    traces = asked.run.traces
    is_kept = all(trace.kept_as for trace in traces)
    return is_kept or (reading().cache and 1 < len(traces) <= MOST_RANKS)


def with_rows(report: Report, top: int) -> Report:
    """The report with so many rows of its long tables."""
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


def page_of_report(
    inputs: Sequence[str], selection: Selection | None, knowledge: Knowledge | None
) -> CachedPage | None:
    """Where the report on these inputs is left for a command that does without reading them; None where
    it is not."""
    facts = facts_of(selection, knowledge)
    return None if facts is None else answered_page(("report", *facts, *inputs), inputs)


def leave_report(page: CachedPage, report: Report, rows: int) -> None:
    """Leave a report whose long tables have so many rows, where it would come back as it is. Of a table
    of each step it takes longer than to read a log again."""
    if sum(map(len, report.tables.values())) > MOST_ROWS:
        return
    with suppress(ValueError, TypeError):
        text = _written(report)
        if _made_from(text.encode()) == report:
            keep_page(page, kept_text(_LeftReport(rows, msgspec.Raw(text.encode()))))


def left_report(page: CachedPage, top: int) -> Report | None:
    """The report that was left there, its long tables with so many rows; None where they have less."""
    text = text_of_page(page)
    if text is None:
        return None
    with suppress(ValueError, TypeError):
        left = msgspec.json.decode(text, type=_LeftReport)
        if top <= left.rows:
            return with_rows(_made_from(bytes(left.report)), top)
    return None


def report_once(paths: Sequence[str], top: int = TOP_ROWS) -> Report:
    """The report of recordings of one run: the one that was left, else made and left. Raises what
    reading and measuring do."""
    page = page_of_report(paths, None, None)
    left = None if page is None else left_report(page, top)
    if left is not None:
        return left
    from traceanalyzer.diagnosis.question import Query
    from traceanalyzer.ingest import load

    with reads_apart():
        asked = Query(load(paths))
        report = whole_report(asked, top)
        is_alone = not any(trace.is_companion or trace.compile_logs for trace in asked.run.traces)
        if page is not None and is_alone and not asked.run.failures:
            leave_report(page, report, rows_of(asked, top))
    return with_rows(report, top)


class _LeftReport(msgspec.Struct, forbid_unknown_fields=True):
    """A report as text, and how many rows its long tables have."""

    rows: int
    report: msgspec.Raw


def _written(report: Report) -> str:
    return kept_text((replace(report, tables={}), report.tables))


def _made_from(data: bytes) -> Report:
    report, texts = msgspec.json.decode(data, type=tuple[Report, dict[str, msgspec.Raw]])
    return replace(report, tables={name: rows_from(name, table) for name, table in texts.items()})
