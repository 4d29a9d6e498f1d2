"""`traceanalyzer history`."""

import os
import tempfile
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args
from urllib.parse import quote

import click

from traceanalyzer.base import regex
from traceanalyzer.cli.io.formats import TABLE_FORMATS, Output
from traceanalyzer.cli.options import (
    Hidden,
    command,
    output_options,
    reading_options,
    redact_options,
    tag_option,
)
from traceanalyzer.diagnosis.finding import BottleneckClass

if TYPE_CHECKING:
    from sqlite_utils import Database

    from traceanalyzer.report.printed import PrintedRows, Result

AGO = regex(r"(\d{1,6})([dhm])")
UNITS = {"d": "days", "h": "hours", "m": "minutes"}


def _moment(_: click.Context, __: click.Parameter, text: str | None) -> str | None:
    """A moment in UTC as the history has it, from a date, a moment, or how long ago it was."""
    if text is None:
        return None
    try:
        ago = AGO.fullmatch(text)
        if ago:
            back = timedelta(**{UNITS[ago[2]]: int(ago[1])})
            moment = datetime.now(UTC) - back
        else:
            moment = datetime.fromisoformat(text)
            moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise click.BadParameter(f"{text!r} is no date, moment or 7d, 12h, 30m") from error
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


@command("history")
@click.argument("database", metavar="FILE", type=click.Path(path_type=Path))
@tag_option("Only runs stored with this tag; may be repeated, then all must match.")
@click.option(
    "--bottleneck",
    type=click.Choice(get_args(BottleneckClass)),
    help="Only runs with this bottleneck.",
)
@click.option(
    "--since",
    metavar="WHEN",
    callback=_moment,
    help="Only runs stored since then: 2026-01-31, 2026-01-31T18:00 (UTC), or 7d, 12h, 30m ago.",
)
@click.option(
    "--last", type=click.IntRange(min=1), metavar="N", help="Only the last N runs that match."
)
@click.option(
    "--metric",
    "name",
    metavar="NAME",
    help="Plot this metric over the runs, such as summary.step_ms.",
)
@click.option(
    "--metrics", "listed", is_flag=True, help="List the names of the metrics that there are."
)
@redact_options()
@reading_options
@output_options((*TABLE_FORMATS, "html"))
def history(
    database: Path, name: str | None, listed: bool, hidden: Hidden, output: Output, **filters: Any
) -> None:
    """List the runs that `analyze --store FILE` kept, or those of a folder, or plot a metric over
    them."""
    from traceanalyzer.cli.io.output import emit
    from traceanalyzer.cli.io.reports import cleaned
    from traceanalyzer.history.database import reading_database
    from traceanalyzer.history.page import RunsPage

    if name and listed:
        raise click.UsageError("--metric and --metrics exclude each other")
    if output.format == "html" and listed:
        raise click.UsageError(
            "--metrics is a list; a page draws all runs, or one of them with --metric NAME"
        )
    with tempfile.TemporaryDirectory() as scratch:
        reports = {}
        if database.is_dir():
            folder, database = database, Path(scratch) / "runs.db"
            reports = _pages(_stored(folder, database), output)
        with reading_database(database) as db:
            answer = _made(db, name, listed, output, filters)
        if isinstance(answer, RunsPage) and hidden is None:
            answer = replace(answer, reports=reports)
        emit(cleaned(answer, hidden), output)


def _stored(folder: Path, database: Path) -> dict[int, str]:
    """Analyze a folder's runs into a history that lasts as long as the command, saying what was left
    out; the pages of the runs that have one."""
    from traceanalyzer.cli.io.output import warn
    from traceanalyzer.cli.io.progress import counting
    from traceanalyzer.history.folder import stored_folder

    with counting("Analyzing", "recordings") as progress:
        stored = stored_folder(folder, database, progress)
    for text in stored.left_out:
        warn(f"left out: {text}")
    return stored.reports


def _pages(reports: dict[int, str], output: Output) -> dict[int, str]:
    """Addresses as the page to be written has to state them."""
    start = Path(output.file).parent if output.file else Path()
    return {
        run: quote(os.path.relpath(page, start).replace(os.sep, "/"))
        for run, page in reports.items()
    }


def _made(
    db: "Database", name: str | None, listed: bool, output: Output, filters: dict[str, Any]
) -> "Result":
    from traceanalyzer.comparison.series.over_runs import with_changes
    from traceanalyzer.history.page import DRAWN, MetricPage, RunsPage
    from traceanalyzer.history.runs import (
        MetricName,
        StoredRun,
        first_changes,
        known_series,
        metric_names,
        metric_series,
        stored_runs,
    )
    from traceanalyzer.history.runs_table import ROWS

    if listed:
        return _rows("metrics", metric_names(db), MetricName, output)
    runs = stored_runs(db, **filters)
    if name:
        return MetricPage(metric_series(db, name, runs))
    runs = with_changes(db, runs, stored_runs(db) if any(filters.values()) else runs)
    rows = _rows("runs", runs, StoredRun, output)
    if output.format != "html":
        return RunsPage(rows, runs, [])
    series = known_series(db, DRAWN, runs)
    return RunsPage(rows, runs, series, changes=first_changes(db, runs[-ROWS:]))


def _rows(name: str, rows: list[Any], row_type: type[Any], output: Output) -> "PrintedRows":
    from traceanalyzer.history.run_list import NO_RUN
    from traceanalyzer.report.printed import PrintedRows

    if output.format == "csv" and "tags" in row_type.__dataclass_fields__:
        rows = [replace(row, tags=str(row.tags)) for row in rows]
    return PrintedRows(name, rows, row_type, none=NO_RUN)
