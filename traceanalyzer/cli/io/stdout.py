"""Standard output: who reads it, and what is written to it. It is loaded without click."""

import os
import shlex
import shutil
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TextIO

from traceanalyzer.base.errors import TraceAnalyzerError

BROKEN_PIPE = 141  # what a shell reports of a program that ends by SIGPIPE
PIECE = 1 << 20  # characters of a result that are written at once
NARROWEST = 60  # columns: narrower, tables lose their meaning; wider, lines cannot be followed
WIDEST = 200
IN_ASCII = str.maketrans(
    {
        "─": "-",
        "█": "#",
        "░": ".",
        "…": "~",
        "→": "->",
        "·": "-",
        "\ufffd": "?",
        "\u200b": "",
    }
)
PAGER = "TRACEANALYZER_PAGER"  # goes before PAGER; empty or `cat`: none


def terminal_width() -> int:
    """Columns of the terminal, 80 where there is none."""
    return min(max(shutil.get_terminal_size().columns, NARROWEST), WIDEST)


def is_terminal(stream: TextIO | None) -> bool:
    """Whether a person reads the stream; Python has None for one that was closed before it
    began."""
    return stream is not None and stream.isatty()


def with_colour(file: Path | None) -> bool:
    """Whether the result is coloured: on a terminal that can, and where FORCE_COLOR is set; never
    with NO_COLOR (https://no-color.org, https://force-color.org)."""
    if file is not None or os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR", "0") not in ("", "0"):
        return True
    return is_terminal(sys.stdout) and os.environ.get("TERM") != "dumb"


def print_text(text: str) -> None:
    """Show a result to who reads it, or write it. Raises what `to_stdout` does."""
    if not (is_terminal(sys.stdout) and paged(text)):
        to_stdout(in_pieces(text))


def to_stdout(pieces: Iterable[str]) -> None:
    """Write a text that comes a piece at a time. Raises TraceAnalyzerError where there is no standard
    output."""
    if sys.stdout is None:
        raise TraceAnalyzerError("standard output is closed; write to a file with -o FILE")
    try:
        for piece in pieces:
            sys.stdout.write(_encodable(piece, sys.stdout.encoding or "ascii"))
        sys.stdout.flush()
    except BrokenPipeError:
        # Python flushes standard output once more when it ends, and would complain then.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(BROKEN_PIPE)


def in_pieces(text: str) -> Iterator[str]:
    """A text some of it at a time: what writes it all at once holds it twice more."""
    for at in range(0, len(text), PIECE):
        yield text[at : at + PIECE]


def _encodable(text: str, encoding: str) -> str:
    """The text in characters that the terminal has."""
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return text.translate(IN_ASCII).encode(encoding, "replace").decode(encoding)
    return text


def paged(text: str) -> bool:
    """Show a text of more lines than the terminal in a pager, if one is wanted and there; whether
    that was done."""
    try:
        words = shlex.split(os.environ.get(PAGER, os.environ.get("PAGER", "less")))
    except ValueError:
        return False
    if (
        text.count("\n") < shutil.get_terminal_size().lines
        or words in ([], ["cat"])
        or not shutil.which(words[0])
    ):
        return False
    import subprocess

    # What less does unless LESS says otherwise: leave at once what fits, show colours, keep the
    # screen.
    environment = {"LESS": "FRX", **os.environ}
    try:
        subprocess.run(words, input=text.encode("utf-8", "replace"), env=environment, check=False)  # noqa: S603
    except OSError:
        return False
    return True
