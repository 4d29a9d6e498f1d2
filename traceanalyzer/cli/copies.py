"""`traceanalyzer copies`."""

from __future__ import annotations

from typing import Any

import click

from traceanalyzer.cli.table import print_table, table_command


@click.command(short_help="List memory copies with their bandwidth.")
@table_command
def copies(paths: tuple[str, ...], **options: Any) -> None:
    """List the memory copies by direction, kind of memory and size.

    \b
    Examples:
      traceanalyzer copies trace.json.gz
      traceanalyzer copies trace.json.gz --device 1 --format csv

    A row is one sort of copy in a mean steady step: bytes, time, the bandwidth achieved, the part of the time
    that no compute or collective hides (exposed), and whether the host waits for it. Copies from or to pageable
    host memory are slow and block the host.
    """
    from traceanalyzer.analysis.tables.copies import CopyStats

    print_table("copies", CopyStats, paths, **options)
