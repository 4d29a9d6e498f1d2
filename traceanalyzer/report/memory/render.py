"""The memory report drawn for the terminal and as Markdown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceanalyzer.report.grid import make_grid
from traceanalyzer.report.markdown.escape import cell, grid_table, prose
from traceanalyzer.report.memory.document import sections_of
from traceanalyzer.report.terminal.drawing import INDENT, Page

if TYPE_CHECKING:
    from traceanalyzer.report.memory.model import MemoryReport


def render_terminal(report: MemoryReport, width: int = 80, colour: bool = False) -> str:
    """The report as text `width` columns wide."""
    page = Page(width, colour)
    for section in sections_of(report):
        page.heading(section.title)
        for line in section.lines:
            page.line(line)
        if section.facts:
            page.facts(list(section.facts))
        for number, (title, details) in enumerate(section.items, 1):
            page.item(f"{number}.", title, "bold")
            for detail in details:
                page.item("-", detail, indent=INDENT + 1)
        if section.rows:
            page.grid(make_grid(section.rows), "json")
    return page.text().lstrip("\n")


def render_markdown(report: MemoryReport) -> str:
    """The report as Markdown."""
    lines: list[str] = []
    for section in sections_of(report):
        lines += ["", f"## {prose(section.title)}", ""]
        lines += [text for line in section.lines for text in (prose(line), "")]
        lines += [f"- **{cell(name)}**: {prose(value)}" for name, value in section.facts]
        for number, (title, details) in enumerate(section.items, 1):
            lines += [f"{number}. **{prose(title)}**", *(f"   - {prose(detail)}" for detail in details)]
        if section.rows:
            head, body = grid_table(make_grid(section.rows))
            lines += ["", *head, *body]
    return "\n".join(lines).lstrip("\n") + "\n"
