"""`traceanalyzer syncs`."""

from __future__ import annotations

from typing import Any

import click

from traceanalyzer.cli.table import print_table, table_command


@click.command(short_help="List the places where the host waits for the GPU.")
@table_command
def syncs(paths: tuple[str, ...], **options: Any) -> None:
    """List the places in the program where the host waits for the GPU.

    \b
    Examples:
      traceanalyzer syncs trace.json.gz
      traceanalyzer syncs trace.json.gz --top 5 --format json

    A row is a place: the API call, the operators around it, and the Python frame where stacks were recorded.
    How long the host waits says little, because waiting for a busy GPU costs nothing; GPU idle is the time that
    the GPU stood still because the wait had emptied its queue. Rows come by that; benign ones cost next to
    nothing.
    """
    from traceanalyzer.analysis.tables.syncs import SyncRow

    print_table("syncs", SyncRow, paths, **options)
