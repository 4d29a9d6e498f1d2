"""`traceanalyzer hang`."""

from pathlib import Path

import click

from traceanalyzer.cli.io.formats import REPORT_FORMATS, Output
from traceanalyzer.cli.options import (
    Hidden,
    command,
    output_options,
    reading_options,
    redact_options,
)


@command("hang")
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.option(
    "--world-size",
    type=click.IntRange(min=1),
    metavar="N",
    help="Ranks of the job, where the dumps do not say: those of gloo have no ranks of groups.",
)
@reading_options
@redact_options()
@output_options(REPORT_FORMATS)
def hang(folder: Path, world_size: int | None, hidden: Hidden, output: Output) -> None:
    """Say which rank a hung job waits for, at which collective, and why."""
    from traceanalyzer.cli.io.output import emit
    from traceanalyzer.cli.io.progress import progress
    from traceanalyzer.fleet.hang.several import hang_page, hangs_in

    with progress("Reading") as report_progress:
        jobs = hangs_in(folder, report_progress, world_size)
    emit(hang_page(jobs, hidden), output)
