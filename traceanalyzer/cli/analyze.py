"""`traceanalyzer analyze`: the main job."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from traceanalyzer.cli.options import (
    REPORT_FORMATS,
    max_chars_option,
    output_options,
    recordings,
    redact_options,
    selection_options,
    tag_option,
)

if TYPE_CHECKING:
    import re

    from traceanalyzer.cli.options import Output
    from traceanalyzer.report.html import Details
    from traceanalyzer.report.model import Report
    from traceanalyzer.trace import Run

NARROWING = ("rank", "device", "step")
"""Options that make a report one of a part of the recording."""
PAGE_ROWS = 300
"""Rows of the long tables of an HTML report, which can be searched and sorted."""


@click.command(short_help="Say where the time went, why, and what to change.")
@recordings
@selection_options
@output_options(REPORT_FORMATS)
@click.option(
    "--pattern",
    metavar="REGEX",
    help="What lines of a timing log of no known kind look like, with named groups: iter_ms or iter_s, data_ms, step, "
    "samples_per_s, tokens_per_s, mfu.",
)
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
    redact: bool,
    hidden_names: list[re.Pattern[str]],
    max_chars: int | None,
    store: Path | None,
    tags: dict[str, str],
    top: int | None,
    **narrow: Any,
) -> None:
    """Say where the step's wall-clock time went, why, and what is worth changing.

    PATH is a Kineto trace (.json, .json.gz), an nsys export (.sqlite), a log of step times, a capture folder, or
    several ranks of one run: their files, or the folder they are in. The kind is found from the content.

    \b
    Examples:
      traceanalyzer analyze trace.json.gz
      traceanalyzer analyze rank*.json.gz --format markdown -o report.md
      traceanalyzer analyze trace.json.gz -o report.html
      traceanalyzer analyze trace.json --redact --redact-name 'acme_.*'
      traceanalyzer analyze trace.json --store runs.db --tag branch=main

    The report begins with the answer: the bottleneck (one of compute, memory, launch, communication, sync,
    input, host, transfer, or inconclusive), how sure that is, and the step's time as a budget of compute,
    exposed communication, exposed copies and idle time, which sum to the step. Findings follow by headroom,
    the time a step that removing the cause would save at most; then recommendations by predicted step time, what
    the reader met in the recording, and the definition of every figure. Figures of a step are means over the
    steady state (warm-up left out) of the rank that the others wait for.
    """
    from traceanalyzer import analyze as report_of
    from traceanalyzer.cli.options import output_of
    from traceanalyzer.cli.output import check_writable, is_terminal, warn_of_failures, write
    from traceanalyzer.cli.read import read

    output = output_of(format_, file, REPORT_FORMATS, paths if store is None else (*paths, str(store)))
    check_writable(output.file)
    if output.format == "html" and output.file is None and is_terminal(sys.stdout):
        raise click.UsageError("an HTML report is for a browser: say where to write it with -o FILE")
    if max_chars is not None and output.format != "markdown":
        raise click.UsageError("--max-chars is of Markdown: say --format markdown")
    if tags and store is None:
        raise click.UsageError("--tag is of a stored run: say where with --store FILE")
    if store is not None:
        from traceanalyzer.history.database import check_storable

        check_storable(store)
    run = read(paths, pattern)
    warn_of_failures(run)
    details = None
    if output.format == "html":
        report, details = _with_details(run, top, narrow)
    else:
        report = report_of(run, **narrow) if top is None else report_of(run, top=top, **narrow)
    recordings_read = [item.path for item in report.inputs]
    if redact or hidden_names:
        from traceanalyzer.report.redact import redact_with

        report, details = redact_with(report, details, hidden_names)
    if store is not None:
        _store(store, report, tags, recordings_read, narrow)
    drawn = _drawn(report, details, output, max_chars)
    if not (redact or hidden_names or max_chars):
        drawn = _with_compile(drawn, recordings_read, output)
    write(drawn, output.file)


def _with_compile(drawn: str, recordings: list[str], output: Output) -> str:
    """The report, with what a log of torch.compile beside the recordings says. Its texts are the program's own: none of
    it is in a report that is to be published or cut to a size."""
    from traceanalyzer.cli.output import terminal_width, with_colour
    from traceanalyzer.report.compiled_part import compiled_of, with_compile

    found = compiled_of(recordings)
    return (
        drawn
        if found is None
        else with_compile(drawn, output.format, found, terminal_width(), with_colour(output.file))
    )


def _with_details(run: Run, top: int | None, narrow: dict[str, Any]) -> tuple[Report, Details]:
    from traceanalyzer.report.build import measure_run, report_of
    from traceanalyzer.report.html import Details

    measured = measure_run(run, **narrow)
    return report_of(measured, top or PAGE_ROWS), Details.of(measured.critical)


def _store(file: Path, report: Report, tags: dict[str, str], recordings: list[str], narrow: dict[str, Any]) -> None:
    from traceanalyzer.history.fingerprint import fingerprint
    from traceanalyzer.history.store import store_report

    selection = " ".join(f"--{name} {narrow[name]}" for name in NARROWING if narrow[name] is not None)
    number = store_report(file, report, tags=tags, fingerprint=fingerprint(recordings), selection=selection or None)
    click.echo(f"traceanalyzer: stored as {file}#{number}", err=True)


def _drawn(report: Report, details: Details | None, output: Output, max_chars: int | None) -> str:
    if output.format == "html":
        from traceanalyzer.report.html import render_html

        return render_html(report, details)
    if output.format == "json":
        from traceanalyzer.report.json import render_json

        return render_json(report)
    if output.format == "markdown":
        from traceanalyzer.report.markdown import render_markdown

        return render_markdown(report) if max_chars is None else render_markdown(report, max_chars)
    from traceanalyzer.cli.output import terminal_width, with_colour
    from traceanalyzer.report.terminal import render_terminal

    return render_terminal(report, terminal_width(), with_colour(output.file))
