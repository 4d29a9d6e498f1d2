"""A report as a document: one screen or all of it in a terminal, Markdown, JSON, a page.

What makes each is loaded when it is asked for: that takes as long as reading a small recording.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceanalyzer.frozen import dataclass
from traceanalyzer.report.document import Document

if TYPE_CHECKING:
    from traceanalyzer.report.html import Details
    from traceanalyzer.report.model import Report


@dataclass(frozen=True)
class ReportPage(Document):
    """A report, with what its page shows beyond it."""

    report: Report
    details: Details | None = None
    full: bool = False
    """Whether a terminal gets all of it, and Markdown as much as GitHub takes."""
    max_chars: int | None = None
    short: bool = False
    """Whether a terminal gets the verdict alone."""

    def terminal(self, width: int, colour: bool) -> str:
        """The verdict, the first screen, or all of it."""
        from traceanalyzer.report.terminal.screen import render_screen, render_verdict
        from traceanalyzer.report.terminal.whole import render_terminal

        if self.short and not self.full:
            return render_verdict(self.report, width, colour)
        return (render_terminal if self.full else render_screen)(self.report, width, colour)

    def markdown(self) -> str:
        """For an issue."""
        from traceanalyzer.report.markdown.issue import BRIEF, GITHUB_LIMIT, ROOM, render_markdown

        usual = GITHUB_LIMIT - ROOM if self.full else BRIEF
        return render_markdown(self.report, self.max_chars or usual)

    def json(self) -> str:
        """What other programs rely on."""
        from traceanalyzer.report.json import render_json

        return render_json(self.report)

    def html(self) -> str:
        """One file for a browser."""
        from traceanalyzer.report.html import render_html

        return render_html(self.report, self.details)

    def svg(self) -> str:
        """Verdict, budget, timeline and predictions in one picture."""
        from traceanalyzer.report.html.pictures.summary import picture

        return picture(self.report, self.details.timeline if self.details else None)
