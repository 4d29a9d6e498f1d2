"""Reading recordings with a progress bar, once it is known that the result can be written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from traceanalyzer.cli.io.output import warn_of_failures
from traceanalyzer.cli.io.process import keep_freed_memory
from traceanalyzer.cli.io.progress import progress
from traceanalyzer.cli.io.stdin import from_stdin, named_as_given

if TYPE_CHECKING:
    from traceanalyzer.trace import Run


def read(paths: Sequence[str], pattern: str | None = None) -> Run:
    """The run in the given files and folders; `pattern` describes lines of timing logs. Raises TraceAnalyzerError."""
    from traceanalyzer.ingest import load

    keep_freed_memory()
    with from_stdin(paths) as files, progress("Reading") as report_progress:
        return named_as_given(load(files, progress=report_progress, pattern=pattern), files, paths)


def opened(paths: Sequence[str], pattern: str | None = None) -> Run:
    """The same, with a warning for each of the files that could not be read. Raises TraceAnalyzerError."""
    run = read(paths, pattern)
    warn_of_failures(run)
    return run
