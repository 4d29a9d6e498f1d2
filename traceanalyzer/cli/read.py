"""Reading recordings with a progress bar."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceanalyzer.cli.progress import progress

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traceanalyzer.trace import Run


def read(paths: Sequence[str], pattern: str | None = None) -> Run:
    """The run in the given files and folders; `pattern` describes lines of timing logs. Raises TraceAnalyzerError."""
    from traceanalyzer.ingest import load

    with progress("Reading") as report_progress:
        return load(paths, progress=report_progress, pattern=pattern)
