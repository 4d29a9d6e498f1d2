"""`traceanalyzer reproduce`."""

from pathlib import Path

import click

from traceanalyzer.cli.options import output_option


@click.command(short_help="Write a script that makes one operator's call again.")
@click.argument("path", metavar="TRACE")
@click.argument("operator")
@output_option()
def reproduce(path: str, operator: str, file: Path | None) -> None:
    """Write a script that makes an operator's call with its recorded shapes, types and strides, and times it.

    \b
    Examples:
      traceanalyzer reproduce trace.json.gz aten::addmm -o addmm.py
      traceanalyzer reproduce trace.json.gz aten::convolution | python -

    Of the shapes with which the operator was called, the one with the most device time is taken. Values are random. It
    runs on any PyTorch, with or without a GPU; the recording needs shapes (record_shapes=True).
    """
    from traceanalyzer.cli.io.output import check_writable, write
    from traceanalyzer.cli.io.read import opened

    check_writable(file)
    run = opened((path,))
    from traceanalyzer.diagnosis.selection import Asked
    from traceanalyzer.export.reproduce import reproduction

    write(reproduction(Asked(run).measured.critical, operator), file)
