"""The lines of a log file as text: gzip, UTF-16, progress bars and terminal colours dealt with."""

import codecs
import re
from collections.abc import Callable, Iterable, Iterator

_ESCAPE = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\^_])")
"""Terminal control sequences: colours, cursor movements, titles."""
_BREAK = re.compile(r"\r\n|[\n\r]")
"""A progress bar goes back to the start of its line instead of to the next one."""
MAX_LINE = 4096
"""No step line is longer (Megatron's have 500 characters): longer ones are not searched, nor held in memory whole."""


def lines_of(pieces: Iterable[bytes], cut: Callable[[], None] | None = None) -> Iterator[str]:
    """The lines, without terminal control sequences. `cut` is called before a last line that has no end."""
    decoder, rest = None, ""
    for piece in pieces:
        # Windows shells redirect to UTF-16
        utf16 = piece.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
        decoder = decoder or codecs.getincrementaldecoder("utf-16" if utf16 else "utf-8-sig")("replace")
        rest += decoder.decode(piece)
        *lines, rest = _BREAK.split(rest)
        yield from map(_plain, lines)
        rest = rest[-MAX_LINE:]
    if rest.strip():
        if cut is not None:
            cut()
        yield _plain(rest)


def _plain(line: str) -> str:
    return _ESCAPE.sub("", line) if "\x1b" in line else line
