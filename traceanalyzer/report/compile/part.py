"""The *Compile* part of `analyze`: what the log of torch.compile in a capture says, after the report itself."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import orjson

from traceanalyzer.frozen import dataclass
from traceanalyzer.report.compile.build import joined
from traceanalyzer.report.compile.html import html_sections
from traceanalyzer.report.compile.page import CompilePage
from traceanalyzer.report.document import Document
from traceanalyzer.report.values import as_plain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traceanalyzer.compile_log import CompileLog
    from traceanalyzer.report.compile.model import CompileReport
    from traceanalyzer.report.page import ReportPage
    from traceanalyzer.selection import Measured


COUNTED_ONCE = (
    "What these findings would save is part of the GPU idle time that the findings above take apart by cause: it does "
    "not add to theirs."
)


def with_compile(page: ReportPage, logs: Sequence[CompileLog], of: Measured) -> Document:
    """The report with what the logs of torch.compile in its capture say, of the rank that it speaks of; as it is
    without one."""
    if not logs:
        return page
    return WithCompile(page, replace(joined(logs, of.critical), note=COUNTED_ONCE))


@dataclass(frozen=True)
class WithCompile(Document):
    """A report with the part at its end (in JSON as `compile`, with findings of its own)."""

    page: ReportPage
    part: CompileReport

    def terminal(self, width: int, colour: bool) -> str:
        """The screen with a line that leads to `compile`; the whole report with the whole part."""
        drawn = self.page.terminal(width, colour).rstrip()
        if not self.page.full:
            return f"{drawn}\n      traceanalyzer compile LOG TRACE says what torch.compile did\n"
        return f"{drawn}\n\n{CompilePage(self.part).terminal(width, colour)}"

    def markdown(self) -> str:
        """For an issue."""
        return f"{self.page.markdown().rstrip()}\n\n{CompilePage(self.part).markdown()}"

    def json(self) -> str:
        """For programs."""
        values: dict[str, Any] = orjson.loads(self.page.json())
        diagnosis = self.part.diagnosis
        findings, advice = as_plain(diagnosis.findings), as_plain(diagnosis.recommendations)
        values["compile"] = {**as_plain(self.part.compiled), "findings": findings, "recommendations": advice}
        return orjson.dumps(values, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE).decode()

    def svg(self) -> str:
        """The report's picture, which has no room for more."""
        return self.page.svg()

    def html(self) -> str:
        """More sections on the page."""
        before, end, after = self.page.html().rpartition("</main>")
        return f"{before}{html_sections(self.part)}{end}{after}"
