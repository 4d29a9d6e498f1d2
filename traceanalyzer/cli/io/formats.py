"""What the running command was given: arguments, `-q`, and what is written where, in which of its
formats."""

from collections.abc import Sequence
from glob import glob
from pathlib import Path

import click

from traceanalyzer.base.frozen import dataclass

REPORT_FORMATS = ("terminal", "markdown", "json", "html")
PICTURED = ("html", "svg")  # formats that show more than the report value
TABLE_FORMATS = ("terminal", "markdown", "json", "csv")
FORMAT_OF_SUFFIX = {
    ".md": "markdown",
    ".markdown": "markdown",
    ".json": "json",
    ".csv": "csv",
    ".xml": "junit",
    ".html": "html",
    ".htm": "html",
    ".svg": "svg",
    ".txt": "terminal",
    "": "terminal",
}


@dataclass(frozen=True)
class Output:
    """Where the result goes, and as what. `file` is None for standard output."""

    format: str
    file: Path | None


QUIET = "traceanalyzer.quiet"


def output_of(
    format_: str | None, file: Path | None, formats: Sequence[str], paths: Sequence[str]
) -> Output:
    """The output that the options ask for. Raises UsageError where they make no sense together."""
    # What may be read where a command is given a name: a path, a pattern of paths, or a run of a
    # history.
    read = list[str]()
    for name in paths:
        read += [name, *glob(name)]
        if "#" in name:
            read.append(name.rpartition("#")[0])
    if file is not None and any(_is_read(file, Path(path)) for path in read):
        raise click.UsageError(f"-o {file} would overwrite what it is made from")
    asked = format_of(format_, file)
    if format_ is None and asked not in formats:
        context = click.get_current_context(silent=True)
        if asked and context is not None:
            writes = (
                f"`{context.info_name}` does not write {asked} ({file}); it writes "
                f"{', '.join(formats)}"
            )
            raise click.UsageError(f"{writes} (--format)")
        raise click.UsageError(
            f"cannot tell the format of {file} from its suffix; say --format {'|'.join(formats)}"
        )
    return Output(asked, file)


def format_of(format_: str | None, file: Path | None) -> str:
    """The format that is asked for: by `--format`, else by the suffix of the file; empty for an
    unknown suffix."""
    return format_ or (
        "terminal" if file is None else FORMAT_OF_SUFFIX.get(file.suffix.lower(), "")
    )


def _is_read(file: Path, path: Path) -> bool:
    """Whether reading `path` reads the file, by whatever name, or as a recording in a folder."""
    if not (file.exists() and path.exists()):
        return file.resolve() == path.resolve()
    if not path.is_dir():
        return path.samefile(file)
    from traceanalyzer.ingest.detect import is_recording

    return path.samefile(file.parent) and is_recording(file)


def is_quiet() -> bool:
    """Whether `-q` was given to the command that runs."""
    context = click.get_current_context(silent=True)
    return context is not None and bool(context.meta.get(QUIET))


def arguments_of(context: click.Context) -> list[str]:
    """The arguments that a command was given."""
    values = [
        context.params[param.name]
        for param in context.command.params
        if isinstance(param, click.Argument)
    ]
    return [
        str(text)
        for value in values
        if value
        for text in (value if isinstance(value, tuple) else (value,))
    ]
