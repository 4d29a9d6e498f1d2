"""`traceanalyzer kernels`."""

from __future__ import annotations

from typing import Any

import click

from traceanalyzer.cli.table import print_table, table_command


@click.command(short_help="List GPU kernels by device time.")
@table_command
def kernels(paths: tuple[str, ...], **options: Any) -> None:
    """List the GPU's kernels by name, most device time first.

    \b
    Examples:
      traceanalyzer kernels trace.json.gz --top 20
      traceanalyzer kernels trace.json.gz --step 12 --format markdown

    A row is a kernel in a mean steady step: calls, total time (kernels may run side by side, so totals may sum
    to more than the step), the distribution of its durations, its class (gemm, attention, elementwise, ...),
    and the operator that launches most of its calls.
    """
    from traceanalyzer.analysis.tables.kernels import KernelStats

    print_table("kernels", KernelStats, paths, **options)
