"""`traceanalyzer reproduce`."""

from pathlib import Path

import click

from traceanalyzer.cli.options import command, output_option


@command("reproduce")
@click.argument("path", metavar="TRACE")
@click.argument("operator")
@output_option()
def reproduce(path: str, operator: str, file: Path | None) -> None:
    """Write a script that makes an operator's call with its recorded shapes, types and strides, and
    times it."""
    write_reproduction(path, operator, file)


def write_reproduction(path: str, operator: str, file: Path | None) -> None:
    """Write the script. Raises TraceAnalyzerError."""
    from traceanalyzer.cli.io.output import check_writable, write
    from traceanalyzer.cli.io.reports import opened

    check_writable(file)
    run = opened((path,))
    from traceanalyzer.diagnosis.question import Query
    from traceanalyzer.export.reproduce import reproduction

    write(reproduction(Query(run).measured.critical, operator), file)
