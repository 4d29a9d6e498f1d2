"""The memory report as a document: for the terminal, for Markdown, for programs, for a browser."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceanalyzer.frozen import dataclass
from traceanalyzer.report.document import Document
from traceanalyzer.report.json import dump
from traceanalyzer.report.memory.html import render_html
from traceanalyzer.report.memory.model import as_document
from traceanalyzer.report.memory.render import render_markdown, render_terminal

if TYPE_CHECKING:
    from traceanalyzer.report.memory.model import MemoryReport


@dataclass(frozen=True)
class MemoryPage(Document):
    """The memory report."""

    report: MemoryReport

    def terminal(self, width: int, colour: bool) -> str:
        """All of it."""
        return render_terminal(self.report, width, colour)

    def markdown(self) -> str:
        """For an issue."""
        return render_markdown(self.report)

    def json(self) -> str:
        """What other programs rely on."""
        return dump(as_document(self.report))

    def html(self) -> str:
        """One file that opens anywhere and asks for nothing."""
        return render_html(self.report)
