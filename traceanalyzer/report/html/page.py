"""The report as one HTML file that opens anywhere: no request leaves it, its size is bounded, scripts only add. One
button opens another page, Perfetto's, and hands it what the timeline shows."""

from collections.abc import Sequence

from traceanalyzer.report.document import Section
from traceanalyzer.report.html import render
from traceanalyzer.report.html.details import Details
from traceanalyzer.report.html.sections import page_document
from traceanalyzer.report.model import Report

MAX_BYTES = 3_000_000  # of the file
ROWS = (300, 100, 30, 10)
"""Rows a table shows; fewer are tried until the file is small enough. The last is taken as it is."""


def render_html(report: Report, details: Details | None = None, more: Sequence[Section] = ()) -> str:
    """The report as a self-contained HTML document of less than 3 MB; `details` adds timelines, memory and ceilings,
    `more` sections at its end."""
    document = page_document(report, details or Details(), more)
    for rows in ROWS:
        page = render.render_html(document, rows)
        if len(page.encode("utf-8", "replace")) < MAX_BYTES:
            break
    return page
