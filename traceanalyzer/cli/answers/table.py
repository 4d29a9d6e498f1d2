"""The table commands: one for each entry of `report/table_entries` that has a command."""

from collections.abc import Callable, Sequence
from typing import Any

import click

from traceanalyzer.cli import options as shared
from traceanalyzer.cli.answers.asked_table import (
    BY_PLACE,
    BY_TIME,
    BY_WORTH,
    NoColumnError,
    TableQuestion,
    table_asked_for,
)
from traceanalyzer.cli.io.again import replays_output
from traceanalyzer.cli.io.formats import TABLE_FORMATS, Output
from traceanalyzer.cli.options import Hidden, Number, command
from traceanalyzer.cli.scope import Scope, scope_options
from traceanalyzer.report.table_entries.kinds import RowFilter

ONLY = {
    "ops": (
        click.option(
            "--by-shape",
            is_flag=True,
            help="A row for each operator and input shapes, not each operator.",
        ),
    ),
    "gaps": (
        click.option(
            "--min-us",
            type=Number(min=0),
            default=0.0,
            metavar="N",
            help="Only gaps of at least N us.",
        ),
        click.option(
            "--by",
            type=click.Choice((BY_WORTH, BY_TIME, BY_PLACE)),
            default=BY_WORTH,
            show_default=True,
            help="Order of the rows that people are shown; place: a row for each place instead of "
            "each gap.",
        ),
    ),
    "iterations": (
        click.option(
            "--acceptance",
            type=Number(min=0, max=1),
            metavar="SHARE",
            help="What speculative decoding brings with this share of guessed tokens right.",
        ),
        click.option(
            "--draft-tokens",
            type=click.IntRange(min=1, max=100),
            default=4,
            show_default=True,
            metavar="N",
            help="Guessed tokens a request of --acceptance.",
        ),
    ),
}
"""Options that one of them has alone."""


def table_command(name: str) -> click.Command:
    """The command that prints the table of that name."""

    def run(paths: tuple[str, ...], **options: Any) -> None:
        _print(name, paths, **options)

    decorated: Callable[..., None] = run
    for decorate in (
        shared.output_options(TABLE_FORMATS),
        shared.quiet_option(),
        shared.redact_options(),
        click.option(
            "--sort",
            metavar="COLUMN",
            help="Largest in this column first (names as in --format json).",
        ),
        click.option(
            "--columns", metavar="A,B,...", help="Only these columns (names as in --format json)."
        ),
        click.option(
            "--all", "everything", is_flag=True, help="All rows; a terminal shows those that fit."
        ),
        shared.top_option,
        scope_options,
        shared.recordings,
        replays_output,
        *ONLY.get(name, ()),
    ):
        decorated = decorate(decorated)
    return command(name)(decorated)


def _print(
    name: str,
    paths: Sequence[str],
    *,
    scope: Scope,
    top: int | None,
    everything: bool,
    columns: str | None,
    sort: str | None,
    hidden: Hidden,
    output: Output,
    by: str = BY_TIME,
    **wanted: Any,
) -> None:
    from traceanalyzer.cli.io.output import emit

    question = TableQuestion(
        name,
        paths,
        *scope,
        format=output.format,
        top=top,
        everything=everything,
        columns=columns,
        sort=sort,
        hidden=hidden,
        by=by,
        wanted=RowFilter(**wanted),
    )
    try:
        printed = table_asked_for(question)
    except NoColumnError as error:
        raise click.UsageError(str(error)) from error
    emit(printed, output)
