"""Reports by what a user names: recordings are read with a progress bar, saved reports and stored runs as they are."""

import re
from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, TypeVar

from traceanalyzer.cli.io.progress import working
from traceanalyzer.cli.io.read import opened

if TYPE_CHECKING:
    from traceanalyzer.comparison.reference import Named
    from traceanalyzer.diagnosis.selection import Knowledge, Selection
    from traceanalyzer.report.model import Report
    from traceanalyzer.trace import Run

T = TypeVar("T")


def cleaned(shown: T, hidden: Sequence[re.Pattern[str]] | None, run: "Run | None" = None) -> T:
    """What a command shows (a dataclass, rows) as it may be published, where that was asked for."""
    if hidden is None:
        return shown
    from traceanalyzer.report.privacy.redact import redact_rows
    from traceanalyzer.trace import Run

    return redact_rows(shown, run or Run(()), hidden)


def cleaned_with(report: "Report", shown: T, hidden: Sequence[re.Pattern[str]] | None) -> "tuple[Report, T]":
    """A report and what is shown with it, likewise: equal names get equal aliases."""
    if hidden is None:
        return report, shown
    from traceanalyzer.report.privacy.redact import redact_with

    return redact_with(report, shown, hidden)


def report_named(
    reference: str, selection: "Selection | None" = None, knowledge: "Knowledge | None" = None
) -> "Report":
    """The report of what `reference` names. Raises TraceAnalyzerError."""
    return named(reference, selection, knowledge).report


def named(reference: str, selection: "Selection | None" = None, knowledge: "Knowledge | None" = None) -> "Named":
    """The report with what it was made from, where that was a recording. Raises TraceAnalyzerError."""
    from traceanalyzer.comparison import reference as references

    with ExitStack() as analysis:

        def then_analyzing(paths: Sequence[str]) -> "Run":
            run = opened(paths, timeless=True)
            analysis.enter_context(working(f"Analyzing {reference}"))
            return run

        return references.named(reference, then_analyzing, selection, knowledge)
