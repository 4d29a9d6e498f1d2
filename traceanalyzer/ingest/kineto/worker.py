"""The process that reads one stretch of a trace for `parallel.py`: rows are its output."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path

import msgspec
from msgspec import Struct

from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.ingest.kineto.chunks import TAIL_BYTES, NotWholeError, boundary_before, whole_chunks
from traceanalyzer.ingest.kineto.handover import send
from traceanalyzer.ingest.kineto.rows import Rows
from traceanalyzer.ingest.processes import requests
from traceanalyzer.ingest.stream import ByteStream, open_stream
from traceanalyzer.limits import Limits, raise_for_all

FAILED = 1


class Stretch(Struct):
    """A part of a file, in bytes of its text."""

    start: int | None
    """Where its first chunk begins; None: where that is found in the last bytes before `piece`."""
    piece: int
    """Where its first piece begins; what lies between has been left over by the piece before."""
    end: int
    """Where its last piece ends."""
    limits: Limits


class _UpTo:
    """A stream that ends early."""

    def __init__(self, stream: ByteStream, end: int) -> None:
        self._stream, self._end = stream, end

    def read(self) -> bytes:
        """The next piece."""
        return self._stream.read() if self._stream.place < self._end else b""


def left_over(stream: ByteStream, stretch: Stretch) -> bytes:
    """Go to the stretch: what of it comes before its first piece. Raises NotWholeError where that is not known."""
    if stretch.start is not None:
        return stream.go_to(stretch.piece, stretch.piece - stretch.start)
    tail = stream.go_to(stretch.piece, TAIL_BYTES)
    found = boundary_before(tail)
    if found is None or stream.place != stretch.piece:
        raise NotWholeError
    return tail[found:]


def read_stretch(path: Path, stretch: Stretch) -> Rows:
    """The rows of a stretch. Raises NotWholeError where it takes more than reading; TraceAnalyzerError, OSError."""
    rows = Rows()
    with open_stream(path) as stream:
        buffer = left_over(stream, stretch)
        for chunk in whole_chunks(_UpTo(stream, stretch.end), buffer):
            rows.add(chunk)
    if stream.damage or stream.place != stretch.end:
        raise NotWholeError
    return rows


def main(path: str, words: str) -> None:
    """Read the stretch of the file that the words say, and hand its rows over."""
    requests()  # there are none, but it ends with the process that started it
    stretch = msgspec.json.decode(words, type=Stretch)
    raise_for_all(**asdict(stretch.limits))
    try:
        send(read_stretch(Path(path), stretch), sys.stdout.buffer)
    except (NotWholeError, TraceAnalyzerError, OSError, ValueError):
        sys.exit(FAILED)
