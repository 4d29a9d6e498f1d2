"""The report on torch.compile as a document: for the terminal, for Markdown, for programs, for a browser."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceanalyzer import __version__
from traceanalyzer.frozen import dataclass
from traceanalyzer.report.compile.document import sections
from traceanalyzer.report.compile.html import render_html
from traceanalyzer.report.document import Document
from traceanalyzer.report.format import plain, shorten
from traceanalyzer.report.json import dump
from traceanalyzer.report.markdown.escape import prose, table
from traceanalyzer.report.terminal.drawing import INDENT, SEPARATOR, Page

if TYPE_CHECKING:
    from traceanalyzer.report.compile.document import Section
    from traceanalyzer.report.compile.model import CompileReport

SCHEMA_VERSION = 2
LONGEST_CELL = 300


@dataclass(frozen=True)
class CompilePage(Document):
    """The report on torch.compile."""

    report: CompileReport

    def terminal(self, width: int, colour: bool) -> str:
        """All of it."""
        page = Page(width, colour)
        for section in sections(self.report):
            _draw(page, section)
        return page.text().lstrip("\n")

    def markdown(self) -> str:
        """For an issue."""
        return "\n".join(line for section in sections(self.report) for line in _block(section))

    def json(self) -> str:
        """What other programs rely on."""
        diagnosis = self.report.diagnosis
        return dump(
            {
                "schema_version": SCHEMA_VERSION,
                "tool": {"name": "traceanalyzer", "version": __version__},
                "inputs": self.report.inputs,
                "headline": diagnosis.headline,
                "compile": self.report.compiled,
                "findings": diagnosis.findings,
                "recommendations": diagnosis.recommendations,
            }
        )

    def html(self) -> str:
        """One file that opens anywhere and asks for nothing."""
        return render_html(self.report)


def _draw(page: Page, section: Section) -> None:
    from rich.table import Table
    from rich.text import Text

    page.heading(section.title)
    for line in section.lines:
        page.line(line, indent=INDENT)
    if section.rows:
        drawn = Table(box=None, padding=(0, SEPARATOR, 0, 0), pad_edge=False, header_style="bold")
        for header, right in zip(section.headers, section.numeric, strict=True):
            drawn.add_column(Text(header), justify="right" if right else "left", overflow="fold")
        for row in section.rows:
            drawn.add_row(*(Text(shorten(plain(cell), LONGEST_CELL)) for cell in row))
        page.draw(drawn)
    if section.remark:
        page.line(section.remark, "dim", INDENT)


def _block(section: Section) -> list[str]:
    lines = [f"## {prose(section.title)}", ""]
    lines += [text for line in section.lines for text in (prose(line), "")]
    if section.rows:
        head, body = table(section.headers, section.numeric, section.rows)
        lines += [*head, *body, ""]
    return [*lines, prose(section.remark), ""] if section.remark else lines
