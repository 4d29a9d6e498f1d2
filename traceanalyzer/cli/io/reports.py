"""Recordings and reports by what a user names: recordings are read with a progress bar, what was
saved as it is."""

import re
from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, TypeVar

from traceanalyzer.cli.io.output import from_stdin, named_as_given, warn_of_failures
from traceanalyzer.cli.io.process import keep_freed_memory
from traceanalyzer.cli.io.progress import progress, working
from traceanalyzer.ingest.places import all_fetched

if TYPE_CHECKING:
    from traceanalyzer.analysis.joined.knowledge import Knowledge
    from traceanalyzer.comparison.reference import Named
    from traceanalyzer.diagnosis.part_of_run import Selection
    from traceanalyzer.report.model import Report
    from traceanalyzer.trace import Run

T = TypeVar("T")


def read_run(paths: Sequence[str], pattern: str | None = None) -> "Run":
    """The run in the given files and folders; `pattern` describes lines of timing logs. Raises
    TraceAnalyzerError."""
    from traceanalyzer.ingest import load

    keep_freed_memory()
    with (
        from_stdin(paths) as files,
        all_fetched(files) as (fetched, addresses),
        progress("Reading") as report_progress,
    ):
        run = load(fetched, progress=report_progress, pattern=pattern)
    given = {file: path for file, path in zip(files, paths, strict=True) if file != path}
    return named_as_given(run, addresses | given)


def opened(paths: Sequence[str], pattern: str | None = None, *, timeless: bool = False) -> "Run":
    """The run of these files, with a warning for each of the files that could not be read. Raises
    TraceAnalyzerError; also where nothing given tells times, unless it may be `timeless`."""
    from traceanalyzer.base.errors import TraceAnalyzerError

    run = read_run(paths, pattern)
    if not timeless and run.traces and all(trace.is_companion for trace in run.traces):
        only_trace = run.traces[0]
        what, command = (
            ("a CUDA memory snapshot", "analyze")
            if only_trace.memory
            else ("a log of torch.compile", "analyze")
        )
        raise TraceAnalyzerError(
            f"{only_trace.path}: {what}, which tells no times; give its trace, or ask "
            f"`traceanalyzer {command} {only_trace.path}`"
        )
    warn_of_failures(run)
    return run


def cleaned(
    shown: T,
    hidden: Sequence[re.Pattern[str]] | None,
    run: "Run | None" = None,
) -> T:
    """What a command shows (a dataclass, rows) as it may be published, where that was asked for."""
    if hidden is None:
        return shown
    from traceanalyzer.report.privacy.redact import redact_rows
    from traceanalyzer.trace import Run

    return redact_rows(shown, run or Run(()), hidden)


def cleaned_with(
    report: "Report", shown: T, hidden: Sequence[re.Pattern[str]] | None
) -> "tuple[Report, T]":
    """A report and what is shown with it, likewise: equal names get equal aliases."""
    if hidden is None:
        return report, shown
    from traceanalyzer.report.privacy.redact import redact_with

    return redact_with(report, shown, hidden)


def report_of_reference(
    reference: str, selection: "Selection | None" = None, knowledge: "Knowledge | None" = None
) -> "Report":
    """The report of what `reference` names. Raises TraceAnalyzerError."""
    return read_reference(reference, selection, knowledge).report


def report_of_references(references: Sequence[str]) -> "Report":
    """The report of what a reference names; of several, which are recordings of one run, their
    report. Raises TraceAnalyzerError."""
    if len(references) == 1:
        return report_of_reference(references[0])
    from traceanalyzer.comparison.reference import of_recordings

    with ExitStack() as analysis:

        def then_analyzing(paths: Sequence[str]) -> "Run":
            run = opened(paths, timeless=True)
            analysis.enter_context(working(f"Analyzing {len(paths)} recordings"))
            return run

        return of_recordings(references, then_analyzing).report


def read_reference(
    reference: str, selection: "Selection | None" = None, knowledge: "Knowledge | None" = None
) -> "Named":
    """The report with what it was made from, where that was a recording. Raises
    TraceAnalyzerError."""
    from traceanalyzer.comparison import reference as references

    with ExitStack() as analysis:

        def then_analyzing(paths: Sequence[str]) -> "Run":
            run = opened(paths, timeless=True)
            analysis.enter_context(working(f"Analyzing {reference}"))
            return run

        return references.referenced(reference, then_analyzing, selection, knowledge)
