"""`traceanalyzer analyze`: the main job."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from traceanalyzer.base import UnreadableInputError
from traceanalyzer.cli import options
from traceanalyzer.cli.answers.left import ShownReport, leave, left_answer, shown_rows, with_hashes
from traceanalyzer.cli.io.again import replays_output
from traceanalyzer.cli.io.formats import PICTURED, REPORT_FORMATS, Output, is_quiet
from traceanalyzer.cli.options import FILE, Hidden, command
from traceanalyzer.cli.scope import Scope, amount_options, selection_options

if TYPE_CHECKING:
    from traceanalyzer.diagnosis.question import Query
    from traceanalyzer.report.html import Details
    from traceanalyzer.report.model import Report
    from traceanalyzer.report.page import ReportPage
    from traceanalyzer.trace import Run
    from traceanalyzer.trace.compile_log import CompileLog


@command("analyze")
@replays_output
@options.recordings
@selection_options
@amount_options
@options.top_option
@options.output_options((*REPORT_FORMATS, "svg"), "store")
@click.option(
    "--pattern",
    metavar="REGEX",
    help="What lines of a timing log of no known kind look like, with named groups: iter_ms or iter_s "
    "(compute_ms: without its data), data_ms, step, samples_per_s, tokens_per_s, mfu.",
)
@click.option(
    "-v",
    "--full",
    is_flag=True,
    help=(
        "All of the report; without it a terminal shows the answer on one screen, and "
        "Markdown has 8,000 characters."
    ),
)
@options.quiet_option("Only the verdict, in two lines; no progress and no warnings.")
@options.redact_options()
@options.max_chars_option
@click.option(
    "--store",
    help=(
        "Also keep the report as a run of this history (SQLite), made where there is none; "
        "see `history`."
    ),
    **FILE,
)
@options.tag_option("Tag of the stored run, such as branch=main; may be repeated.")
def analyze(
    paths: tuple[str, ...],
    output: Output,
    pattern: str | None,
    full: bool,
    hidden: Hidden,
    max_chars: int | None,
    store: Path | None,
    tags: dict[str, str],
    top: int | None,
    scope: Scope,
) -> None:
    """Say where the step's wall-clock time went, why, and what is worth changing."""
    from traceanalyzer.cli.io.output import emit, emitted
    from traceanalyzer.cli.io.progress import working
    from traceanalyzer.cli.io.reports import opened

    _check_together(output, max_chars, store, tags)
    in_full = full or (output.file is not None and output.format != "markdown")
    if store is None and pattern is None:
        left = left_answer(paths, scope, output, top)
        if left is not None:
            emit(_page(left, paths, hidden, max_chars, in_full=in_full), output)
            return
    try:
        run = opened(paths, pattern, timeless=True)
    except UnreadableInputError:
        from traceanalyzer.cli.answers.by_content import other_page

        other = other_page(paths, hidden, full=full)
        if other is None:
            raise
        emit(other, output)
        return
    from traceanalyzer.diagnosis.question import Query

    if store is None and (full or output.format == "html"):
        from traceanalyzer.cli.answers.by_content import memory_page

        of_memory = memory_page(run, hidden, full=full or output.file is not None)
        if of_memory is not None:
            emit(of_memory, output)
            return
    files_read = [trace.path for trace in (*run.traces, *run.logs)]
    # The texts of a log are the program's own: none of them is in a report that is to be published
    # or cut to a size.
    leave_out = hidden is not None or max_chars is not None or is_quiet()
    alone = not any(trace.is_companion or trace.compile_logs for trace in run.traces)
    run, logs = _with_logs(run, files_read, leave_out=leave_out)
    query = Query(run, *scope)
    with working("Analyzing"):
        answer = _answer(paths, query, logs, output.format, top)
    page = _page(answer, paths, hidden, max_chars, in_full=in_full)
    with emitted(page, output):
        if store is not None:
            _store(store, page.report, tags, files_read, str(scope.selection))
    if pattern is None and query.is_measured:
        leave(paths, query, answer, alone=alone)
        if alone and hidden is None and output.format != "json":
            _leave_json(answer, shown_rows("json", top))


def _leave_json(answer: ShownReport, rows: int) -> None:
    """Leave the report as JSON: a program often asks for it once a person has looked at the answer. Not
    where reading warned of something, which is then to be warned of again."""
    from traceanalyzer.cli.io.again import leave_json
    from traceanalyzer.cli.io.output import has_warned
    from traceanalyzer.report.kept_report import with_rows
    from traceanalyzer.report.page import ReportPage

    if answer.compiled is None and answer.uncut is not None and not has_warned():
        report = with_hashes(with_rows(answer.uncut, rows), "json")
        leave_json(ReportPage(report).json())


def _page(
    answer: ShownReport,
    paths: Sequence[str],
    hidden: Hidden,
    max_chars: int | None,
    *,
    in_full: bool,
) -> "ReportPage":
    """What is printed of an answer, as it may be published where that was asked for."""
    from traceanalyzer.cli.io.reports import cleaned_with
    from traceanalyzer.report.page import ReportPage

    shown = (answer.details, answer.compiled)
    report, (details, compiled) = cleaned_with(answer.report, shown, hidden)
    given = paths[0] if len(paths) == 1 and hidden is None else ""
    return ReportPage(report, details, in_full, max_chars, is_quiet(), compiled, given)


def _answer(
    paths: Sequence[str],
    query: "Query",
    logs: "Sequence[CompileLog]",
    output_format: str,
    top: int | None,
) -> ShownReport:
    """The answer in this format, of so many rows a table."""
    from traceanalyzer.report.kept_report import rows_of, whole_report, with_rows

    shown = shown_rows(output_format, top)
    uncut = whole_report(query, shown)
    report = with_rows(uncut, shown)
    details = None
    compiled = None
    if logs:
        from traceanalyzer.report.compile.build import compile_part
        from traceanalyzer.report.compile.figures import with_compile

        report = with_compile(report, logs)
        compiled = compile_part(logs, query.measured)
    if output_format in PICTURED:
        details = _details(paths, query, logs)
    shown_report = with_hashes(report, output_format)
    return ShownReport(shown_report, details, compiled, uncut, rows_of(query, shown))


def _details(paths: Sequence[str], query: "Query", logs: "Sequence[CompileLog]") -> "Details":
    """What a page shows beyond the report: what the report left, else worked out."""
    from traceanalyzer.report.html.kept_details import kept_details, page_of_details

    if not logs:
        kept = kept_details(page_of_details(paths, query.selection, query.knowledge))
        if kept is not None:
            return kept
    from traceanalyzer.report.html.made_details import details_of

    return details_of(query.measured, logs)


def _check_together(
    output: Output, max_chars: int | None, store: Path | None, tags: dict[str, str]
) -> None:
    """Check the options before anything is read. Raises UsageError where they contradict each
    other, and TraceAnalyzerError where no report can be stored."""
    if max_chars is not None and output.format != "markdown":
        raise click.UsageError("`--max-chars` needs `--format markdown`")
    if tags and store is None:
        raise click.UsageError("`--tag` needs `--store FILE`")
    if store is not None:
        from traceanalyzer.history.database import check_storable

        check_storable(store)


def _with_logs(
    run: "Run", recordings: list[str], *, leave_out: bool
) -> "tuple[Run, Sequence[CompileLog]]":
    """The run with its logs of torch.compile, and the logs: those given with it, else those of its
    capture folder. The reader of logs is loaded only where there are some."""
    from traceanalyzer.ingest.cache.beside import have_compile_logs

    given = next((trace.compile_logs for trace in run.traces), ())
    if not all(trace.is_companion for trace in run.traces):
        if leave_out:
            given = ()
        elif not given and have_compile_logs(recordings):
            from traceanalyzer.ingest.torch_log import logs_beside

            given = tuple(logs_beside(recordings))
    return replace(
        run, traces=tuple(replace(trace, compile_logs=given) for trace in run.traces)
    ), given


def _store(
    file: Path, report: "Report", tags: dict[str, str], recordings: list[str], part: str
) -> None:
    from traceanalyzer.cli.io.output import say
    from traceanalyzer.history.runs import fingerprint, store_report

    number = store_report(
        file, report, tags=tags, fingerprint=fingerprint(recordings), selection=part or None
    )
    say(f"traceanalyzer: stored as {file}#{number}", err=True)
