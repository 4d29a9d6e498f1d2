"""`-` as a recording: standard input, kept in a file while it is read; so is what a shell pipes in by `<(...)`."""

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING

import click

from traceanalyzer.base.errors import UnreadableInputError
from traceanalyzer.base.files import note_read
from traceanalyzer.cli.io.output import is_terminal

if TYPE_CHECKING:
    from traceanalyzer.trace import Run

STDIN = "-"


@contextmanager
def from_stdin(paths: Sequence[str]) -> Iterator[Sequence[str]]:
    """The paths with `-` and pipes replaced by files that hold what comes through them, which are gone after the block.

    Raises UsageError where nothing is piped in, UnreadableInputError where what is piped in is empty.
    """
    piped = [path for path in paths if path == STDIN or _is_pipe(path)]
    if not piped:
        yield paths
        return
    if paths.count(STDIN) > 1:
        raise click.UsageError("`-` is standard input, which there is only once")
    if STDIN in piped and (sys.stdin is None or is_terminal(sys.stdin)):
        raise click.UsageError("`-` reads standard input, but nothing is piped in: cat trace.json.gz | traceanalyzer -")
    with tempfile.TemporaryDirectory(prefix="traceanalyzer-") as folder:
        spooled = {path: _spooled(path, Path(folder) / f"piped{i}") for i, path in enumerate(piped)}
        try:
            yield [spooled.get(path, path) for path in paths]
        except UnreadableInputError as error:
            raise type(error)(
                reduce(lambda text, path: text.replace(spooled[path], path), piped, str(error))
            ) from error


def _is_pipe(path: str) -> bool:
    """Whether a shell made it for this command: a pipe with a name may have nobody who writes."""
    return Path(path).is_fifo() and not Path(os.path.realpath(path)).is_fifo()


def _spooled(path: str, target: Path) -> str:
    given = Path("/dev/stdin" if path == STDIN else path)
    if given.is_file():
        note_read(given)  # it is not to be written
    with nullcontext(sys.stdin.buffer) if path == STDIN else given.open("rb") as source, target.open("wb") as file:
        shutil.copyfileobj(source, file)
    if not target.stat().st_size:
        what = "standard input" if path == STDIN else "the pipe"
        raise UnreadableInputError(f"{path}: {what} is empty; did the command before it fail?")
    return str(target)


def named_as_given(run: "Run", given: dict[str, str]) -> "Run":
    """The run with `-` where it was read from standard input, and addresses of what was fetched."""
    if not given:
        return run
    traces = tuple(replace(trace, path=given.get(trace.path, trace.path)) for trace in run.traces)
    logs = tuple(replace(trace, path=given.get(trace.path, trace.path)) for trace in run.logs)
    return replace(run, traces=traces, logs=logs)
