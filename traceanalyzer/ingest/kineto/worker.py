"""A stretch of a trace read by itself, and the process that reads some for `parallel.py`: rows are its output."""

from __future__ import annotations

import os
import sys
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.ingest.kineto.chunks import TAIL_BYTES, NotWholeError, boundary_before, whole_chunks
from traceanalyzer.ingest.kineto.handover import send
from traceanalyzer.ingest.kineto.rows import Rows
from traceanalyzer.ingest.processes import requests
from traceanalyzer.ingest.stream import ByteStream, open_stream
from traceanalyzer.limits import Limits, raise_for_all

if TYPE_CHECKING:
    from collections.abc import Iterator

FAILED = 1
TICKET_BYTES = 4


class Stretch(Struct):
    """A part of a file, in bytes of its text."""

    start: int | None
    """Where its first chunk begins; None: where that is found in the last bytes before `piece`."""
    piece: int
    """Where its first piece begins; what lies between has been left over by the piece before."""
    end: int
    """Where its last piece ends."""


class Work(Struct):
    """What several processes share."""

    stretches: list[Stretch]
    tickets: int
    """A pipe of numbers of stretches: each is read by the process that takes its number out."""
    limits: Limits


class _UpTo:
    """A stream that ends early."""

    def __init__(self, stream: ByteStream, end: int) -> None:
        self._stream, self._end = stream, end

    def read(self) -> bytes:
        """The next piece."""
        return self._stream.read() if self._stream.place < self._end else b""


def left_over(stream: ByteStream, stretch: Stretch) -> bytes:
    """Go on to the stretch: what of it comes before its first piece. Raises NotWholeError where that is not known."""
    if stretch.start is not None:
        return stream.go_to(stretch.piece, stretch.piece - stretch.start)
    tail = stream.go_to(stretch.piece, TAIL_BYTES)
    found = boundary_before(tail)
    if found is None or stream.place != stretch.piece:
        raise NotWholeError
    return tail[found:]


def read_stretches(stream: ByteStream, work: Work) -> Iterator[tuple[int, Rows]]:
    """The rows of the stretches for which this process is free, with their numbers, ascending. Raises NotWholeError
    where it takes more than reading; TraceAnalyzerError."""
    rows = None
    for ticket in iter(partial(os.read, work.tickets, TICKET_BYTES), b""):
        number = int.from_bytes(ticket, "little")
        stretch, rows = work.stretches[number], Rows(rows)
        buffer = left_over(stream, stretch)
        for chunk in whole_chunks(_UpTo(stream, stretch.end), buffer):
            rows.add(chunk)
        if stream.damage or stream.place != stretch.end:
            raise NotWholeError
        yield number, rows


def main(path: str, words: str) -> None:
    """Read stretches of the file as the words say, and hand their rows over, each with its number."""
    requests()  # there are none, but it ends with the process that started it
    work = msgspec.json.decode(words, type=Work)
    raise_for_all(**asdict(work.limits))
    try:
        with open_stream(Path(path)) as stream:
            for number, rows in read_stretches(stream, work):
                send(number, rows, sys.stdout.buffer)
    except (NotWholeError, TraceAnalyzerError, OSError, ValueError):
        sys.exit(FAILED)
