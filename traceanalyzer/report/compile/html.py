"""The report on torch.compile as one HTML file, and as sections of the page on a capture."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceanalyzer import __version__
from traceanalyzer.report.compile.document import COMPILE_TIME, sections
from traceanalyzer.report.compile.strip import strip_svg
from traceanalyzer.report.html.frame import framed
from traceanalyzer.report.html.markup import Markup, join, tag

if TYPE_CHECKING:
    from traceanalyzer.report.compile.document import Section
    from traceanalyzer.report.compile.model import CompileReport

POLICY = "default-src 'none'; style-src 'unsafe-inline'"
"""A browser that keeps to it cannot be made to send a request by anything in a log."""


def render_html(report: CompileReport) -> str:
    """The report as a self-contained HTML document without scripts."""
    footer = tag("footer", f"Made by traceanalyzer {__version__} from files alone.")
    main = tag("main", html_sections(report))
    return framed(f"torch.compile: {report.diagnosis.headline}", main, footer, policy=POLICY) + "\n"


def html_sections(report: CompileReport) -> Markup:
    """The sections alone, to stand in a page."""
    strip = None if report.strip is None else strip_svg(report.strip)
    return join(*(_section(section, strip if section.title == COMPILE_TIME else None) for section in sections(report)))


def _section(section: Section, drawing: Markup | None) -> Markup:
    return tag(
        "section",
        tag("h2", section.title),
        *(tag("p", line) for line in section.lines),
        drawing,
        _table(section) if section.rows else None,
        tag("p", section.remark) if section.remark else None,
    )


def _table(section: Section) -> Markup:
    heads = [tag("th", header, scope="col") for header in section.headers]
    rows = [tag("tr", *(tag("td", cell) for cell in row)) for row in section.rows]
    return tag("table", tag("thead", tag("tr", *heads)), tag("tbody", *rows))
