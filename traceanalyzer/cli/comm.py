"""`traceanalyzer comm`."""

from __future__ import annotations

from typing import Any

import click

from traceanalyzer.cli.table import print_table, table_command


@click.command(short_help="List collectives with overlap and bandwidth.")
@table_command
def comm(paths: tuple[str, ...], **options: Any) -> None:
    """List the collectives by kind, process group and message size.

    \b
    Examples:
      traceanalyzer comm rank*.json.gz
      traceanalyzer comm trace.json.gz --rank 0 --format json

    A row is one sort of collective in a mean steady step: time of its kernels (waiting for other ranks
    included), the part that no compute hides (exposed), and bandwidth where the recording tells the size:
    algorithm bandwidth is message bytes over time, bus bandwidth the same scaled by NCCL's factor for the number
    of ranks, which can be held against a link's speed.
    """
    from traceanalyzer.analysis.tables.collectives import CollectiveStats

    print_table("comm", CollectiveStats, paths, **options)
