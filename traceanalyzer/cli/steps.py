"""`traceanalyzer steps`."""

from __future__ import annotations

from typing import Any

import click

from traceanalyzer.cli.table import print_table, table_command


@click.command(short_help="List the steps with their budgets.")
@table_command
def steps(paths: tuple[str, ...], **options: Any) -> None:
    """List the recorded steps one by one, each with the budget of its time.

    \b
    Examples:
      traceanalyzer steps trace.json.gz
      traceanalyzer steps rank*.json.gz --rank 3 --format csv

    A row is a step: its wall-clock time, and how that divides into compute, communication and copies that
    nothing hides (exposed), and idle time, with the largest cause of that. Steps marked as warm-up are left out
    of the steady state that all other figures of the tool are means of.
    """
    from traceanalyzer.analysis.tables.budget import StepRow

    print_table("steps", StepRow, paths, **options)
