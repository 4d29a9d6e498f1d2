"""`traceanalyzer analyze`: the main job."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from traceanalyzer.cli.again import prints_again
from traceanalyzer.cli.formats import PICTURED, REPORT_FORMATS
from traceanalyzer.cli.options import (
    amount_options,
    is_quiet,
    max_chars_option,
    output_options,
    quiet_option,
    recordings,
    redact_options,
    selection_options,
    tag_option,
    top_option,
)
from traceanalyzer.ingest.beside import COMPILED

if TYPE_CHECKING:
    import re
    from collections.abc import Sequence

    from traceanalyzer.cli.formats import Output
    from traceanalyzer.compile_log import CompileLog
    from traceanalyzer.report.document import Document
    from traceanalyzer.report.html import Details
    from traceanalyzer.report.model import Report
    from traceanalyzer.report.page import ReportPage
    from traceanalyzer.selection import Knowledge, Measured, Selection


@click.command(short_help="Say where the time went, why, and what to change.")
@prints_again
@recordings
@selection_options
@amount_options
@top_option
@output_options((*REPORT_FORMATS, "svg"))
@click.option(
    "--pattern",
    metavar="REGEX",
    help="What lines of a timing log of no known kind look like, with named groups: iter_ms or iter_s, data_ms, step, "
    "samples_per_s, tokens_per_s, mfu.",
)
@click.option(
    "-v", "--full", is_flag=True, help="All of the report; without it a terminal shows the answer on one screen."
)
@quiet_option("Only the verdict, in two lines; no progress and no warnings.")
@redact_options()
@max_chars_option
@click.option(
    "--store",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Also keep the report as a run of this history (SQLite), made where there is none; see `history`.",
)
@tag_option("Tag of the stored run, such as branch=main; may be repeated.")
def analyze(
    paths: tuple[str, ...],
    format_: str | None,
    file: Path | None,
    pattern: str | None,
    full: bool,
    redact: bool,
    hidden_names: list[re.Pattern[str]],
    max_chars: int | None,
    store: Path | None,
    tags: dict[str, str],
    top: int | None,
    selection: Selection,
    knowledge: Knowledge,
) -> None:
    """Say where the step's wall-clock time went, why, and what is worth changing.

    PATH is a Kineto trace (.json, .json.gz), an nsys export (.sqlite), a log of step times, a capture folder, or
    several ranks of one run: their files, or the folder they are in. The kind is found from the content.

    \b
    Examples:
      traceanalyzer analyze trace.json.gz
      traceanalyzer analyze rank*.json.gz --format markdown -o report.md
      traceanalyzer analyze trace.json.gz -o report.html
      traceanalyzer analyze trace.json.gz -o picture.svg
      traceanalyzer analyze trace.json --redact --redact-name 'acme_.*'
      traceanalyzer analyze trace.json --store runs.db --tag branch=main

    The report begins with the answer: the bottleneck (one of compute, memory, launch, communication, sync,
    input, host, transfer, or inconclusive), how sure that is, and the step's time as a budget of compute,
    exposed communication, exposed copies and idle time, which sum to the step. Findings follow by headroom,
    the time a step that removing the cause would save at most; then recommendations by predicted step time, what
    the reader met in the recording, and the definition of every figure. Figures of a step are means over the
    steady state (warm-up left out) of the rank that the others wait for.
    """
    from traceanalyzer.cli.output import checked, emitted, warn_of_failures
    from traceanalyzer.cli.progress import working
    from traceanalyzer.cli.read import read

    output = checked(format_, file, (*REPORT_FORMATS, "svg"), paths if store is None else (*paths, str(store)))
    _check_together(output, max_chars, store, tags)
    run = read(paths, pattern)
    warn_of_failures(run)
    from traceanalyzer.report.kept_report import kept_report
    from traceanalyzer.report.model import PAGE_ROWS, TOP_ROWS
    from traceanalyzer.report.page import ReportPage
    from traceanalyzer.selection import Asked

    page, asked = output.format == "html", Asked(run, selection, knowledge)
    with working("Analyzing"):
        report = kept_report(asked, top or (PAGE_ROWS if page else TOP_ROWS))
        recordings_read = [item.path for item in report.inputs]
        # Its texts are the program's own: none of it is in a report that is to be published or cut to a size.
        logs = [] if redact or hidden_names or max_chars or is_quiet() else _logs_beside(recordings_read)
        details = _details(asked.measured, logs) if output.format in PICTURED else None
    if redact or hidden_names:
        from traceanalyzer.report.privacy.redact import redact_with

        report, details = redact_with(report, details, hidden_names)
    page_of = ReportPage(report, details, full or output.file is not None, max_chars, short=is_quiet())
    with emitted(_with_compile(page_of, logs, asked.measured) if logs else page_of, output):
        if store is not None:
            _store(store, report, tags, recordings_read, selection)


def _check_together(output: Output, max_chars: int | None, store: Path | None, tags: dict[str, str]) -> None:
    """Before anything is read. Raises UsageError where options make no sense together, or no history can be there."""
    from traceanalyzer.cli.output import is_terminal

    if output.format == "html" and output.file is None and is_terminal(sys.stdout):
        raise click.UsageError("an HTML report is for a browser: say where to write it with -o FILE")
    if max_chars is not None and output.format != "markdown":
        raise click.UsageError("`--max-chars` needs `--format markdown`")
    if tags and store is None:
        raise click.UsageError("`--tag` needs `--store FILE`")
    if store is not None:
        from traceanalyzer.history.database import check_storable

        check_storable(store)


def _logs_beside(recordings: list[str]) -> list[CompileLog]:
    """The logs of torch.compile in the capture. Most have none: what reads them is not even loaded then."""
    if not any((Path(recording).parent / COMPILED).is_dir() for recording in recordings):
        return []
    from traceanalyzer.ingest.torch_log import logs_beside

    return logs_beside(recordings)


def _with_compile(page: ReportPage, logs: Sequence[CompileLog], of: Measured) -> Document:
    from traceanalyzer.report.compile.part import with_compile

    return with_compile(page, logs, of)


def _details(of: Measured, logs: Sequence[CompileLog]) -> Details:
    from traceanalyzer.report.html import Details

    return Details.of(of, logs)


def _store(file: Path, report: Report, tags: dict[str, str], recordings: list[str], part: Selection) -> None:
    from traceanalyzer.history.fingerprint import fingerprint
    from traceanalyzer.history.store import store_report

    number = store_report(file, report, tags=tags, fingerprint=fingerprint(recordings), selection=str(part) or None)
    click.echo(f"traceanalyzer: stored as {file}#{number}", err=True)
