"""`traceanalyzer export`."""

from pathlib import Path

import click

from traceanalyzer.cli.options import Hidden, command, recordings, redact_options
from traceanalyzer.cli.scope import Scope, selection_options

SUFFIXES = {
    ".sqlite": "sqlite",
    ".db": "sqlite",
    ".parquet": "parquet",
    ".json": "perfetto",
    ".json.gz": "perfetto",
}


@command("export")
@recordings
@selection_options
@click.option(
    "-o",
    "--output",
    "file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="A database (.sqlite, .db), a folder of Parquet files (.parquet), or tracks for Perfetto "
    "(.json, .json.gz).",
)
@click.option(
    "--merge",
    is_flag=True,
    help="Tracks for Perfetto: put the recording's own events into the same file (Kineto traces).",
)
@click.option(
    "--open",
    "in_viewer",
    is_flag=True,
    help="Show the recording with the findings in Perfetto; nothing is written.",
)
@click.option(
    "--digests",
    is_flag=True,
    help="Write what comparing ranks needs to the folder of -o, a small file a rank.",
)
@click.option(
    "--operator",
    metavar="NAME",
    help="Write a script that makes this operator's call again (-o FILE.py).",
)
@redact_options()
def export(
    paths: tuple[str, ...],
    file: Path | None,
    merge: bool,
    in_viewer: bool,
    digests: bool,
    operator: str | None,
    scope: Scope,
    hidden: Hidden,
) -> None:
    """Write a recording for other programs: tables, tracks for Perfetto, digests of ranks, a
    script."""
    if in_viewer:
        from traceanalyzer.cli.answers.open import serve

        serve(paths, scope)
    elif operator is not None:
        from traceanalyzer.cli.answers.reproduce import write_reproduction

        if len(paths) != 1:
            raise click.UsageError("--operator reads one recording")
        write_reproduction(paths[0], operator, file)
    elif file is None:
        raise click.UsageError("give -o FILE (.sqlite, .parquet or .json), or --open")
    elif digests:
        from traceanalyzer.cli.answers.digest import write_digests

        write_digests(paths, str(file))
    elif _form(file) == "perfetto":
        from traceanalyzer.cli.answers.overlay import write_overlay

        write_overlay(paths, file, scope, hidden, merge=merge)
    else:
        _write_tables(paths, file, scope, hidden)


def _form(file: Path) -> str:
    """What a file of this name holds. Raises UsageError."""
    name = file.name.lower()
    for suffix, form in SUFFIXES.items():
        if name.endswith(suffix):
            return form
    raise click.UsageError(f"{file}: give a name that ends in {', '.join(SUFFIXES)}")


def _write_tables(paths: tuple[str, ...], file: Path, scope: Scope, hidden: Hidden) -> None:
    from traceanalyzer.cli.io.output import check_writable, say
    from traceanalyzer.cli.io.progress import working
    from traceanalyzer.cli.io.reports import opened

    form = _form(file)
    check_writable(file)
    run = opened(paths)
    from traceanalyzer.diagnosis.question import Query
    from traceanalyzer.export import database

    write = database.write_sqlite if form == "sqlite" else database.write_parquet
    with working("Writing"):
        rows = write(Query(run, *scope).measured, file, hidden)
    counts = [f"{name} {count:,}" for name, count in rows.items()]
    say(f"{file}: {', '.join(counts)}", err=True)
