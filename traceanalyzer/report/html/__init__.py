"""The report as a page to look at, in one file: `render_html`, and `Details`, what it shows beyond
the report."""

from traceanalyzer.report.html.details import Details
from traceanalyzer.report.html.sections import render_html

__all__ = ["Details", "render_html"]
