"""Writing: results to standard output or a file, everything else to standard error."""

import os
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from traceanalyzer.base.errors import TraceAnalyzerError, UnreadableInputError
from traceanalyzer.base.files import note_read, replacing
from traceanalyzer.cli.io.formats import Output, is_quiet, output_of
from traceanalyzer.cli.io.stdout import (
    in_pieces,
    is_terminal,
    paged,
    terminal_width,
    to_stdout,
    with_colour,
)

if TYPE_CHECKING:
    from traceanalyzer.report.printed import Result
    from traceanalyzer.trace import Run

KEEP = "traceanalyzer.keep"
WARNED = "traceanalyzer.warned"
"""Of a command: what is to be done with the text that it prints, and whether it warned of
something."""
STDIN = "-"


def checked(
    format_: str | None, file: Path | None, formats: Sequence[str], inputs: Sequence[str]
) -> Output:
    """The output asked for, if it can be written, and overwrites no input. Raises UsageError,
    TraceAnalyzerError."""
    output = output_of(format_, file, formats, inputs)
    if output.format == "html" and output.file is None and is_terminal(sys.stdout):
        raise click.UsageError(
            "an HTML report is for a browser: say where to write it with -o FILE"
        )
    check_writable(output.file)
    return output


def emit(document: "Result", output: Output) -> None:
    """Write a document in the format asked for. Raises TraceAnalyzerError if that fails."""
    with emitted(document, output):
        pass


@contextmanager
def emitted(document: "Result", output: Output) -> Iterator[None]:
    """As `emit`, but a file takes its place only after the block (see `written`)."""
    about = _about_command()
    is_kept = KEEP in about and WARNED not in about
    if output.format == "json" and not is_kept and not is_terminal(sys.stdout):
        with _written_after(document.json_pieces(), output.file):
            yield
        return
    if output.format == "terminal":
        text = document.terminal(terminal_width(), with_colour(output.file))
    else:
        text = getattr(document, output.format)()
    if is_kept:
        about[KEEP](text)
    with written_after(text, output.file):
        yield


def write(text: str, file: Path | None) -> None:
    """Write the result. Raises TraceAnalyzerError if the file cannot be written; what it held then
    stays."""
    with written_after(text, file):
        pass


def write_pieces(pieces: Iterable[bytes], file: Path) -> None:
    """Write bytes that come a piece at a time, as `write` does texts."""
    with _replaced_by(pieces, file):
        pass


@contextmanager
def written_after(text: str, file: Path | None) -> Iterator[None]:
    """As `write`, but a file takes its place only after the block: what else belongs to the result
    is done there, and both are done, or neither. Standard output is written before the block."""
    if file is None and is_terminal(sys.stdout) and paged(text):
        yield
        return
    with _written_after(in_pieces(text), file):
        yield


@contextmanager
def _written_after(pieces: Iterable[str], file: Path | None) -> Iterator[None]:
    if file is None:
        to_stdout(pieces)
    encoded = (piece.encode("utf-8", "replace") for piece in pieces)
    with nullcontext() if file is None else _replaced_by(encoded, file):
        yield


@contextmanager
def _replaced_by(pieces: Iterable[bytes], path: Path) -> Iterator[None]:
    try:
        with replacing(path) as file:
            for piece in pieces:
                file.write(piece)
            file.flush()
            yield
    except OSError as error:
        raise TraceAnalyzerError(f"cannot write {path}: {error.strerror or error}") from error


def check_writable(file: Path | None) -> None:
    """Refuse a file that cannot be written before the work, not after it."""
    if file is None:
        return
    if not file.parent.is_dir():
        raise TraceAnalyzerError(
            f"cannot write {file}: {file.parent} is not a folder; make it first"
        )
    # A file is replaced by one that is made beside it.
    needed = list[Path]()
    if file.exists():
        needed.append(file)
    if file.is_file() or not file.exists():
        needed.append(file.parent)
    if not all(os.access(path, os.W_OK) for path in needed):
        raise TraceAnalyzerError(f"cannot write {file}: Permission denied")


def warn_of_failures(run: "Run") -> None:
    """Say which inputs of a run could not be read; the others go on."""
    if is_quiet():
        return
    for failure in run.failures:
        warn(" ".join(f"{failure.path} could not be read: {failure.message}".split()))


def say(line: str, *, err: bool = False) -> None:
    """Print a line of which a part may be the name of a file: without control characters, and
    readable where it is not UTF-8."""
    from traceanalyzer.report.format import plain

    click.echo(plain(line), err=err)


def warn(message: str) -> None:
    """Say something on standard error; what a command prints besides is not kept then."""
    _about_command()[WARNED] = True
    say(f"traceanalyzer: warning: {message}", err=True)


def has_warned() -> bool:
    """Whether the command has said something on standard error."""
    return WARNED in _about_command()


def _about_command() -> dict[str, Any]:
    context = click.get_current_context(silent=True)
    return {} if context is None else context.meta


@contextmanager
def from_stdin(paths: Sequence[str]) -> Iterator[Sequence[str]]:
    """The paths with `-` and pipes replaced by files that hold what comes through them, which are
    gone after the block.

    Raises UsageError where nothing is piped in, UnreadableInputError where what is piped in is
    empty."""
    piped = [path for path in paths if path == STDIN or _is_pipe(path)]
    if not piped:
        yield paths
        return
    if paths.count(STDIN) > 1:
        raise click.UsageError("`-` is standard input, which there is only once")
    if STDIN in piped and (sys.stdin is None or is_terminal(sys.stdin)):
        raise click.UsageError(
            "`-` reads standard input, but nothing is piped in: cat trace.json.gz | traceanalyzer -"
        )
    import tempfile

    with tempfile.TemporaryDirectory(prefix="traceanalyzer-") as folder:
        spooled = {path: _spooled(path, Path(folder) / f"piped{i}") for i, path in enumerate(piped)}
        try:
            yield [spooled.get(path, path) for path in paths]
        except UnreadableInputError as error:
            message = reduce(
                lambda text, path: text.replace(spooled[path], path), piped, str(error)
            )
            raise type(error)(message) from error


def _is_pipe(path: str) -> bool:
    """Whether a shell made it for this command: a pipe with a name may have nobody who writes."""
    try:
        return Path(path).is_fifo() and not Path(os.path.realpath(path)).is_fifo()
    except OSError as error:  # a name that cannot be, a folder that must not be read
        from traceanalyzer.ingest.stream import cannot_open

        raise cannot_open(Path(path), error) from error


def _spooled(path: str, target: Path) -> str:
    given = Path("/dev/stdin" if path == STDIN else path)
    if given.is_file():
        note_read(given)  # it is not to be written
    with (
        nullcontext(sys.stdin.buffer) if path == STDIN else given.open("rb") as source,
        target.open("wb") as file,
    ):
        shutil.copyfileobj(source, file)
    if not target.stat().st_size:
        what = "standard input" if path == STDIN else "the pipe"
        raise UnreadableInputError(f"{path}: {what} is empty; did the command before it fail?")
    return str(target)


def named_as_given(run: "Run", given: dict[str, str]) -> "Run":
    """The run with `-` where it was read from standard input, and addresses of what was fetched."""
    if not given:
        return run
    traces, logs = (
        tuple(replace(one, path=given.get(one.path, one.path)) for one in some)
        for some in (run.traces, run.logs)
    )
    return replace(run, traces=traces, logs=logs)
