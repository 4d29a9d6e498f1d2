"""What `analyze` leaves in the cache for later questions, and its answers by what was left, without
reading the recordings."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from traceanalyzer.cli.io.formats import PICTURED, Output
from traceanalyzer.cli.scope import Scope

if TYPE_CHECKING:
    from traceanalyzer.diagnosis.question import Query
    from traceanalyzer.report.compile.strip import CompileReport
    from traceanalyzer.report.html import Details
    from traceanalyzer.report.model import Report

MOST_DETAILED = 5_000_000
"""Events of a recording of which the details of a page are worked out with the report."""


class ShownReport(NamedTuple):
    """A report as it is shown, and what is shown with it."""

    report: "Report"
    details: "Details | None"  # what a page or a picture draws beyond the report
    compiled: "CompileReport | None" = None  # what the logs of torch.compile say
    uncut: "Report | None" = None  # the report as it was made, where it was not left before
    rows: int = 0  # that the long tables of that have


def shown_rows(output_format: str, top: int | None) -> int:
    """How many rows of a long table are shown."""
    from traceanalyzer.report.model import PAGE_ROWS, TOP_ROWS

    return top or (PAGE_ROWS if output_format == "html" else TOP_ROWS)


def with_hashes(report: "Report", output_format: str) -> "Report":
    """The report with the hashes of its inputs, which a terminal does not show."""
    if output_format == "terminal":
        return report
    from traceanalyzer.report.parts.hashed import hashed

    return hashed(report)


def left_answer(
    paths: Sequence[str], scope: Scope, output: Output, top: int | None
) -> ShownReport | None:
    """The answer in this format by what an earlier command left, without reading the recordings; None
    where that does not hold all of it, and where a file is replaced that may have been read."""
    from traceanalyzer.report.kept_report import left_report, page_of_report

    page = page_of_report(paths, *scope)
    if page is None or (output.file and output.file.absolute() in page.files):
        return None
    report = left_report(page, shown_rows(output.format, top))
    if report is None:
        return None
    details = None
    if output.format in PICTURED:
        from traceanalyzer.report.html.kept_details import kept_details, page_of_details

        details = kept_details(page_of_details(paths, *scope))
        if details is None:
            return None
    return ShownReport(with_hashes(report, output.format), details)


def leave(paths: Sequence[str], query: "Query", answer: ShownReport, *, alone: bool) -> None:
    """Leave tables, predictions, what a page draws, and the report: that not where more was given than
    recordings of time (not `alone`), which some commands show and others leave out."""
    _leave_answers(paths, query)
    if answer.compiled is None:
        _leave_details(paths, query, answer.details)
    if alone and answer.compiled is None and answer.uncut is not None:
        _leave_report(paths, query, answer.uncut, answer.rows)


def _leave_answers(paths: Sequence[str], query: "Query") -> None:
    """Keep the tables and predictions in the cache, for the commands that print them. Not where
    reading warned of something, not of profiler tables (sums by name), which have other tables, and
    not of what tells no times."""
    from traceanalyzer.cli.io.output import has_warned
    from traceanalyzer.ingest.cache.pages import kept_page
    from traceanalyzer.report.kept_tables import keep_tables
    from traceanalyzer.report.predictions.left import page_of_predictions
    from traceanalyzer.report.predictions.predicted import keep_predictions
    from traceanalyzer.report.table_entries.left_rows import page_of_tables

    traces = query.run.traces
    has_times = any(not trace.is_companion for trace in traces)
    if not has_times or has_warned() or any(trace.profiler_rows for trace in traces):
        return
    tables = page_of_tables(paths, query.selection, query.knowledge)
    if tables is not None and kept_page(tables) is None:
        keep_tables(tables, query)
    predictions = page_of_predictions(paths, query.selection, query.knowledge)
    if predictions is not None and kept_page(predictions) is None:
        keep_predictions(predictions, query)


def _leave_details(paths: Sequence[str], query: "Query", details: "Details | None") -> None:
    """Keep what a page shows beyond the report; `details` where they are made. Of the longest
    recordings they are not made: it would take a third more memory than the report."""
    from traceanalyzer.report.kept_report import leaves_page

    traces = query.run.traces
    if not traces or not leaves_page(query):
        return
    if details is None and sum(trace.health.events for trace in traces) > MOST_DETAILED:
        return
    from traceanalyzer.ingest.cache.pages import kept_page
    from traceanalyzer.report.html.kept_details import keep_details, page_of_details
    from traceanalyzer.report.html.made_details import details_of

    page = page_of_details(paths, query.selection, query.knowledge)
    if page is not None and kept_page(page) is None:
        keep_details(page, details or details_of(query.measured))


def _leave_report(paths: Sequence[str], query: "Query", report: "Report", rows: int) -> None:
    """Keep the report for the next question, which does without reading the recordings. Not where
    reading warned of something."""
    from traceanalyzer.cli.io.output import has_warned
    from traceanalyzer.ingest.cache.pages import kept_page
    from traceanalyzer.report.kept_report import leave_report, page_of_report
    from traceanalyzer.report.parts.hashed import hashed

    page = None if has_warned() else page_of_report(paths, query.selection, query.knowledge)
    if page is not None and kept_page(page) is None:
        leave_report(page, report, rows)
        hashed(report)  # which keeps the hashes for what shows them
