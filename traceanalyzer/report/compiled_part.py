"""The *Compile* part of `analyze`: what the log of torch.compile in a capture says, added to the drawn report."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.report import compiled_render as render
from traceanalyzer.report.values import as_plain

if TYPE_CHECKING:
    from collections.abc import Iterable

    from traceanalyzer.analysis.compile.model import Compiled
    from traceanalyzer.diagnosis.compile import CompileDiagnosis

FOLDER = "compile"
"""Of a capture; see `collect.compile_log`."""


def compiled_of(paths: Iterable[str]) -> tuple[Compiled, CompileDiagnosis] | None:
    """What the first of these recordings with a log beside it says of torch.compile; None without one."""
    for path in dict.fromkeys(paths):
        folder = Path(path).parent / FOLDER
        if not folder.is_dir():
            continue
        from traceanalyzer.compiled import compile_report

        try:
            compiled, diagnosis, _ = compile_report(folder, Path(path))
        except TraceAnalyzerError:
            continue
        return compiled, diagnosis
    return None


def with_compile(drawn: str, format_: str, found: tuple[Compiled, CompileDiagnosis], width: int, colour: bool) -> str:
    """The drawn report with the part at its end (in JSON as `compile`)."""
    compiled, diagnosis = found
    if format_ == "json":
        values: dict[str, Any] = orjson.loads(drawn)
        values["compile"] = as_plain(compiled)
        return orjson.dumps(values, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE).decode()
    if format_ == "html":
        before, end, after = drawn.rpartition("</main>")
        return f"{before}{render.html_sections(compiled, diagnosis)}{end}{after}"
    if format_ == "markdown":
        return f"{drawn.rstrip()}\n\n{render.as_markdown(compiled, diagnosis)}"
    return f"{drawn.rstrip()}\n\n{render.as_terminal(compiled, diagnosis, width, colour)}"
