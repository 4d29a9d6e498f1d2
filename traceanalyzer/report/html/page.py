"""The report as one HTML file that opens anywhere: no request leaves it, its size is bounded, scripts only add. One
button opens another page, Perfetto's, and hands it what the timeline shows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceanalyzer.report import outline
from traceanalyzer.report.html.answer import answer
from traceanalyzer.report.html.details import Details
from traceanalyzer.report.html.frame import framed, page_scripts
from traceanalyzer.report.html.markup import Markup, tag
from traceanalyzer.report.html.parts import Page
from traceanalyzer.report.html.sections import SECTIONS
from traceanalyzer.report.html.timeline_section import SCRIPTS

if TYPE_CHECKING:
    from traceanalyzer.report.model import Report

MAX_BYTES = 3_000_000
"""Of the file."""
ROWS = (300, 100, 30, 10)
"""Rows a table shows; fewer are tried until the file is small enough. The last is taken as it is."""


def render_html(report: Report, details: Details | None = None) -> str:
    """The report as a self-contained HTML document of less than 3 MB; `details` adds timelines, memory and ceilings."""
    details = details or Details()
    for rows in ROWS:
        document = _document(report, details, rows)
        if len(document.encode("utf-8", "replace")) < MAX_BYTES:
            break
    return document


def _document(report: Report, details: Details, rows: int) -> str:
    page = Page(report, details, rows)
    made = [(id_, title, content(page)) for id_, title, content in SECTIONS]
    sections = [(id_, title, body) for id_, title, body in made if body]
    title = f"{outline.verdict(report)}: {outline.recording(report)}"
    named = [("answer", "Summary", None), ("change", "Recommendations", None), *sections]
    links = [tag("a", title, href=f"#{id_}") for id_, title, _ in named]
    return framed(
        title,
        tag("a", "Skip to the summary", href="#answer", class_="skip"),
        tag("header", tag("nav", *links, aria_label="Sections")),
        tag(
            "main",
            tag("section", answer(report), id="answer", tabindex=-1, aria_label="Summary"),
            *(_section(id_, title, body) for id_, title, body in sections),
        ),
        tag("footer", f"Made by {report.tool.name} {report.tool.version} from files alone."),
        page_scripts(*(SCRIPTS if details.timelines else ())),
    )


def _section(id_: str, title: str, body: Markup) -> Markup:
    return tag(
        "section", tag("h2", title, id=f"{id_}-title"), body, id=id_, tabindex=-1, aria_labelledby=f"{id_}-title"
    )
