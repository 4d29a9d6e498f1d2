"""`traceanalyzer ops`."""

from __future__ import annotations

from typing import Any

import click

from traceanalyzer.cli.table import print_table, table_command


@click.command(short_help="List operators by their device and host time.")
@table_command
def ops(paths: tuple[str, ...], **options: Any) -> None:
    """List the framework's operators, with their time on the host and on the GPU.

    \b
    Examples:
      traceanalyzer ops trace.json.gz --top 20
      traceanalyzer ops trace.json.gz -o ops.csv

    A row is an operator (aten::mm, an annotation) in a mean steady step. Device time is that of the kernels and
    copies it launched: itself (self), or with the operators it calls (total). Host self time leaves out the
    operators and API calls inside it. Kernels without a recorded operator have their own row.
    """
    from traceanalyzer.analysis.tables.ops import OpStats

    print_table("ops", OpStats, paths, **options)
