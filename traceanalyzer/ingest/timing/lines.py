"""The lines of a text, and what marks the rank that wrote one."""

import codecs
import re
from collections.abc import Callable, Iterable, Iterator

from traceanalyzer.base import regex
from traceanalyzer.base.limits import limits
from traceanalyzer.ingest.plain.commas import with_decimal_commas, with_points
from traceanalyzer.ingest.plain.text import ESCAPE
from traceanalyzer.ingest.side_files import whole

_BREAK = regex(r"\r\n|[\n\r]|\x08+")
"""A progress bar goes back to the start of its line instead of to the next one."""
_CONTROLS = bytes(byte for byte in range(32) if byte not in b"\b\t\n\f\r\x1b")
MOST_CONTROLS = 0.02  # binary files have several times as many bytes that text never has
MAX_LINE = 65_536
"""Longer lines are not searched, nor held in memory whole. Logs of reinforcement learning print
two hundred figures a line, 8,000 characters."""
SEARCHED = 1024
"""Characters of a line that are searched for a rank."""
_RANK = regex(
    r"\[(?:default|rank ?)(\d{1,18})\]|\brank[ =](\d{1,18})|^\s*(\d{1,18}): ", re.IGNORECASE
)


def is_text(head: bytes) -> bool:
    """Whether a file that begins like this is text: a log may hold a few bytes that are none."""
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return True
    return len(head) - len(head.translate(None, _CONTROLS)) <= len(head) * MOST_CONTROLS


def decoded_lines(pieces: Iterable[bytes], cut: Callable[[], None] | None = None) -> Iterator[str]:
    """The lines, without terminal control sequences. `cut` is called before a last line that has no
    end."""
    for lines in line_groups(pieces, cut):
        yield from lines


def line_groups(
    pieces: Iterable[bytes], cut: Callable[[], None] | None = None
) -> Iterator[list[str]]:
    """As `decoded_lines`, the lines of each piece together."""
    decoder = None
    commas: bool | None = None  # not looked at yet
    rest = ""
    for piece in pieces:
        # Windows shells redirect to UTF-16
        utf16 = piece.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
        decoder = decoder or codecs.getincrementaldecoder("utf-16" if utf16 else "utf-8-sig")(
            "replace"
        )
        text = rest + decoder.decode(piece)
        held = text.rfind("\x1b", max(0, len(text) - 32)) if "\x1b" in text[-32:] else -1
        if "\x1b" in text and held < 0:
            text = ESCAPE.sub("", text)
        commas = with_decimal_commas(text) if commas is None else commas
        if commas:
            text = with_points(text)
        simple = "\r" not in text and "\x08" not in text
        *lines, rest = text.split("\n") if simple else _BREAK.split(text)
        yield [ESCAPE.sub("", line) for line in lines] if held >= 0 else lines
        rest = rest[-MAX_LINE:]
    if rest.strip():
        if cut is not None:
            cut()
        yield [ESCAPE.sub("", rest)]


def rank_in_line(line: str) -> int | None:
    """The rank that a line says it is from."""
    found = _RANK.search(line[:SEARCHED])
    if found is None:
        return None
    most = limits().ranks
    rank = whole(next(filter(None, found.groups())), len(str(most)))
    return rank if 0 <= rank < most else None
