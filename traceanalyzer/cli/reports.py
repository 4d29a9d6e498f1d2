"""Reports by what a user names: recordings are read with a progress bar, saved reports and stored runs as they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceanalyzer.cli.output import warn_of_failures
from traceanalyzer.cli.read import read

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traceanalyzer.report.model import Report
    from traceanalyzer.selection import Knowledge, Selection
    from traceanalyzer.trace import Run


def report_named(reference: str, selection: Selection | None = None, knowledge: Knowledge | None = None) -> Report:
    """The report of what `reference` names. Raises TraceAnalyzerError."""
    from traceanalyzer.comparison import reference as references

    return references.report_named(reference, _read, selection, knowledge)


def _read(paths: Sequence[str]) -> Run:
    run = read(paths)
    warn_of_failures(run)
    return run
