"""Reading recordings with a progress bar, once it is known that the result can be written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceanalyzer.cli.allocator import keep_freed_memory
from traceanalyzer.cli.output import checked, warn_of_failures
from traceanalyzer.cli.progress import progress
from traceanalyzer.cli.stdin import from_stdin, named_as_given

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from traceanalyzer.cli.formats import Output
    from traceanalyzer.trace import Run


def read(paths: Sequence[str], pattern: str | None = None) -> Run:
    """The run in the given files and folders; `pattern` describes lines of timing logs. Raises TraceAnalyzerError."""
    from traceanalyzer.ingest import load

    keep_freed_memory()
    with from_stdin(paths) as files, progress("Reading") as report_progress:
        return named_as_given(load(files, progress=report_progress, pattern=pattern), files, paths)


def opened(
    format_: str | None, file: Path | None, formats: Sequence[str], paths: Sequence[str], pattern: str | None = None
) -> tuple[Output, Run]:
    """The output that is asked for, looked at before the work, and the run in these files. Raises UsageError,
    TraceAnalyzerError."""
    output = checked(format_, file, formats, paths)
    run = read(paths, pattern)
    warn_of_failures(run)
    return output, run
