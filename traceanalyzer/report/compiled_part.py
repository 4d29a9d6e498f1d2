"""The *Compile* part of `analyze`: what the log of torch.compile in a capture says, added to the drawn report."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from traceanalyzer.compiled import compile_report
from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.report import compiled_render as render
from traceanalyzer.report.document import Document
from traceanalyzer.report.values import as_plain

if TYPE_CHECKING:
    from collections.abc import Iterable

    from traceanalyzer.analysis.compile.model import Compiled
    from traceanalyzer.diagnosis.compile import CompileDiagnosis
    from traceanalyzer.report.page import ReportPage

FOLDER = "compile"
"""Of a capture; see `collect.compile_log`."""


def compiled_of(paths: Iterable[str]) -> tuple[Compiled, CompileDiagnosis] | None:
    """What the first of these recordings with a log beside it says of torch.compile; None without one."""
    for path in dict.fromkeys(paths):
        folder = Path(path).parent / FOLDER
        if not folder.is_dir():
            continue
        try:
            compiled, diagnosis, _ = compile_report(folder, Path(path))
        except TraceAnalyzerError:
            continue
        return compiled, diagnosis
    return None


def with_compile(report: ReportPage, paths: Iterable[str]) -> Document:
    """The report with what a log of torch.compile beside its recordings says; as it is without one."""
    found = compiled_of(paths)
    return report if found is None else WithCompile(report, *found)


@dataclass(frozen=True)
class WithCompile(Document):
    """A report with the part at its end (in JSON as `compile`)."""

    report: ReportPage
    compiled: Compiled
    diagnosis: CompileDiagnosis

    def terminal(self, width: int, colour: bool) -> str:
        """The screen with a line that leads to `compile`; the whole report with the whole part."""
        drawn = self.report.terminal(width, colour).rstrip()
        if not self.report.full:
            return f"{drawn}\n      traceanalyzer compile PATH says what torch.compile did\n"
        return f"{drawn}\n\n{render.as_terminal(self.compiled, self.diagnosis, width, colour)}"

    def markdown(self) -> str:
        """For an issue."""
        return f"{self.report.markdown().rstrip()}\n\n{render.as_markdown(self.compiled, self.diagnosis)}"

    def json(self) -> str:
        """For programs."""
        values: dict[str, Any] = orjson.loads(self.report.json())
        values["compile"] = as_plain(self.compiled)
        return orjson.dumps(values, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE).decode()

    def html(self) -> str:
        """A section more on the page."""
        before, end, after = self.report.html().rpartition("</main>")
        return f"{before}{render.html_sections(self.compiled, self.diagnosis)}{end}{after}"
