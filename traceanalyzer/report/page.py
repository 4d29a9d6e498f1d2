"""What `analyze` prints: one screen or all of the report in a terminal, Markdown, JSON, a page, a
picture. What makes each is loaded when it is asked for: that takes as long as reading a small
recording."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from traceanalyzer.base import dataclass
from traceanalyzer.report.document import Document, Section
from traceanalyzer.report.format import DEFAULT_WIDTH
from traceanalyzer.report.json import KEYS, as_plain, dump, dump_pieces
from traceanalyzer.report.printed import Printed, Result

if TYPE_CHECKING:
    from traceanalyzer.report.compile.strip import CompileReport
    from traceanalyzer.report.html import Details
    from traceanalyzer.report.model import Report

TORCH_COMPILE = "torch.compile"
OF_COMPILE = "--full: all about torch.compile{}."
WITH_TRACE = "; `analyze TRACE LOG`: what it costs a step"


@dataclass(frozen=True)
class ReportPage(Result):
    """A report, with what its page shows beyond it."""

    report: "Report"
    details: "Details | None" = None
    full: bool = False  # whether a terminal gets all of it, and Markdown as much as GitHub takes
    max_chars: int | None = None
    short: bool = False  # whether a terminal gets the verdict alone
    # on the log of torch.compile: stands at the end (in JSON as `compile`)
    compiled: "CompileReport | None" = None
    given: str = ""  # the one path that was given; empty where it may not be shown

    def terminal(self, width: int = DEFAULT_WIDTH, colour: bool = False) -> str:
        """The verdict, the first screen, or all of it."""
        from traceanalyzer.report.terminal.screen import (
            render_screen,
            render_terminal,
            render_verdict,
        )

        if self.short and not self.full:
            return render_verdict(self.report, width, colour)
        if self.full:
            return render_terminal(self.report, width, colour, self._more())
        text = render_screen(self.report, width, colour, given=self.given)
        return text if self.compiled is None else f"{text.rstrip()}\n{self._see_compile()}\n"

    def _see_compile(self) -> str:
        """Where more stands on compilation: also with a trace, where the log was alone."""
        return OF_COMPILE.format("" if self.report.devices else WITH_TRACE)

    def markdown(self) -> str:
        """For an issue."""
        from traceanalyzer.report.markdown.issue import BRIEF, GITHUB_LIMIT, ROOM, render_markdown

        more = "" if self.compiled is None else f"\n{self._see_compile()}\n"
        if more and self.full:
            more = f"\n{Printed(Document('', self._more())).markdown()}"
        usual = GITHUB_LIMIT - ROOM if self.full else BRIEF - len(more)
        return render_markdown(self.report, self.max_chars or usual).rstrip("\n") + "\n" + more

    def json(self) -> str:
        """What other programs rely on."""
        return dump(self._values())

    def json_pieces(self) -> Iterator[str]:
        """As `json`, some of it at a time."""
        return dump_pieces(self._values())

    def _values(self) -> dict[str, Any]:
        values: dict[str, Any] = {key: getattr(self.report, key) for key in KEYS}
        if self.compiled is not None:
            found = {
                key: getattr(self.compiled.diagnosis, key)
                for key in ("findings", "recommendations")
            }
            values["compile"] = {**as_plain(self.compiled.compiled), **found}
        return values

    def html(self) -> str:
        """One file for a browser."""
        from traceanalyzer.report.html import render_html

        return render_html(self.report, self.details, self._more())

    def svg(self) -> str:
        """Verdict, budget, timeline and predictions in one picture."""
        from traceanalyzer.report.html.pictures.summary import picture

        return picture(self.report, self.details.timeline if self.details else None)

    def _more(self) -> list[Section]:
        """Figures of torch.compile; findings and advice on it stand in the report."""
        if self.compiled is None:
            return []
        from traceanalyzer.report.compile.document import compile_figures

        figures = compile_figures(self.compiled)
        headline = self.compiled.diagnosis.headline
        # on a log alone that is the answer of the report
        of_trace = [Section(TORCH_COMPILE, [headline])] if self.report.devices else []
        return [*of_trace, *figures]
