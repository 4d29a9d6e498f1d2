"""`traceanalyzer export`."""

from pathlib import Path

import click

from traceanalyzer.cli.options import Hidden, command, recordings, redact_options
from traceanalyzer.cli.scope import Scope, selection_options

SUFFIXES = {".sqlite": "sqlite", ".db": "sqlite", ".parquet": "parquet"}


@command("export")
@recordings
@selection_options
@click.option(
    "-o",
    "--output",
    "file",
    required=True,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="A database (.sqlite, .db), or a folder of Parquet files (.parquet).",
)
@redact_options()
def export(paths: tuple[str, ...], file: Path, scope: Scope, hidden: Hidden) -> None:
    """Write all tables of a recording, events and measurements, to a SQLite database or a folder of
    Parquet files."""
    from traceanalyzer.cli.io.output import check_writable
    from traceanalyzer.cli.io.progress import working
    from traceanalyzer.cli.io.reports import opened

    form = SUFFIXES.get(file.suffix.lower())
    if form is None:
        raise click.UsageError(f"{file}: give a name that ends in {', '.join(SUFFIXES)}")
    check_writable(file)
    run = opened(paths)
    from traceanalyzer.diagnosis.selection import Asked
    from traceanalyzer.export import database

    write = database.write_sqlite if form == "sqlite" else database.write_parquet
    with working("Writing"):
        rows = write(Asked(run, *scope).measured, file, hidden)
    click.echo(
        f"{file}: {', '.join(f'{name} {count:,}' for name, count in rows.items())}", err=True
    )
