"""`traceanalyzer path`."""

from __future__ import annotations

from typing import Any

import click

from traceanalyzer.cli.table import print_table, table_command


@click.command(short_help="Say what the step really waits for: its critical path.")
@table_command
def path(paths: tuple[str, ...], **options: Any) -> None:
    """List what carries the critical path: the one chain of causes that is as long as the step.

    \b
    Examples:
      traceanalyzer path trace.json.gz
      traceanalyzer path trace.json.gz --top 10 --format json

    Walked back from the end of the steady state: from each device op to what it waited for last (its launch, the op
    before it on its stream, an op of another stream), from a launch along the host to the last wait for the device,
    and through that to the device again. Each moment of the step belongs to one segment, whose kind is one of
    compute, communication, copy, launch (dispatch, launch calls, latency), wait (from the end of the work that the
    host waited for until it went on, and operators that only read a value), input, host, profiler, other. What is
    not listed is hidden behind the path.
    """
    from traceanalyzer.analysis.tables.path_rows import PathRow

    print_table("path", PathRow, paths, **options)
