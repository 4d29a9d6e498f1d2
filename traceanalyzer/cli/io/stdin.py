"""`-` as a recording: standard input, kept in a file while it is read."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from traceanalyzer.base.errors import UnreadableInputError
from traceanalyzer.cli.io.output import is_terminal

if TYPE_CHECKING:
    from traceanalyzer.trace import Run

STDIN = "-"


@contextmanager
def from_stdin(paths: Sequence[str]) -> Iterator[Sequence[str]]:
    """The paths with `-` replaced by a file that holds standard input, which is gone after the block.

    Raises UsageError where nothing is piped in, UnreadableInputError where what is piped in is empty.
    """
    if STDIN not in paths:
        yield paths
        return
    if paths.count(STDIN) > 1:
        raise click.UsageError("`-` is standard input, which there is only once")
    if sys.stdin is None or is_terminal(sys.stdin):
        raise click.UsageError("`-` reads standard input, but nothing is piped in: cat trace.json.gz | traceanalyzer -")
    with tempfile.TemporaryDirectory(prefix="traceanalyzer-") as folder:
        spooled = Path(folder) / "stdin"
        with spooled.open("wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file)
        if not spooled.stat().st_size:
            raise UnreadableInputError("-: standard input is empty; did the command before it fail?")
        try:
            yield [str(spooled) if path == STDIN else path for path in paths]
        except UnreadableInputError as error:
            raise type(error)(str(error).replace(str(spooled), STDIN)) from error


def named_as_given(run: Run, files: Sequence[str], paths: Sequence[str]) -> Run:
    """The run with `-` where it was read from standard input."""
    given = {file: path for file, path in zip(files, paths, strict=True) if file != path}
    if not given:
        return run
    traces = tuple(replace(trace, path=given.get(trace.path, trace.path)) for trace in run.traces)
    logs = tuple(replace(trace, path=given.get(trace.path, trace.path)) for trace in run.logs)
    return replace(run, traces=traces, logs=logs)
