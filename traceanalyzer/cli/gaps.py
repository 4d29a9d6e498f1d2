"""`traceanalyzer gaps`."""

from __future__ import annotations

from typing import Any

import click

from traceanalyzer.cli.options import Number
from traceanalyzer.cli.table import print_table, table_command


@click.command(short_help="List the GPU's idle gaps, each with its cause.")
@table_command
@click.option("--min-us", type=Number(min=0), default=0.0, metavar="N", help="Only gaps of at least N us.")
def gaps(paths: tuple[str, ...], **options: Any) -> None:
    """List the stretches in which a GPU had no work, each with its cause.

    \b
    Examples:
      traceanalyzer gaps trace.json.gz --min-us 100
      traceanalyzer gaps trace.json.gz --top 20 --format json

    A gap lies between two device ops of one GPU, with no kernel, copy or memset on any of its streams. Its
    cause is one of: launch (the host issued work too slowly), sync (the host had waited for the GPU, so nothing
    was queued), input (loading data), host (other work of the host), communication, profiler, other (the
    recording does not tell). Gaps come in time order; --top keeps the longest ones.
    """
    from traceanalyzer.analysis.tables.gap_rows import GapRow

    print_table("gaps", GapRow, paths, **options)
