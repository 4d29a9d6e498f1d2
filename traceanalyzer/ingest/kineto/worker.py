"""The process that reads one stretch of a trace for `parallel.py`: its command line says which, rows are its output."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path

import msgspec
from msgspec import Struct

from traceanalyzer.ingest.kineto.chunks import NotWholeError, whole_chunks
from traceanalyzer.ingest.kineto.handover import send
from traceanalyzer.ingest.kineto.rows import Rows
from traceanalyzer.ingest.processes import requests
from traceanalyzer.ingest.stream import ByteStream
from traceanalyzer.limits import Limits, raise_for_all

FAILED = 1


class Stretch(Struct):
    """A part of a file, in bytes from its start."""

    path: str
    start: int
    """Where its first chunk begins."""
    piece: int
    """Where its first piece begins; what lies between has been left over by the piece before."""
    end: int
    """Where its last piece ends."""
    limits: Limits


class _UpTo:
    """A file that ends early."""

    def __init__(self, file: object, left: int) -> None:
        self._file, self.left = file, left

    def read(self, count: int) -> bytes:
        """The next bytes."""
        data: bytes = self._file.read(min(count, self.left))  # type: ignore[attr-defined]
        self.left -= len(data)
        return data


def read_stretch(stretch: Stretch) -> Rows:
    """The rows of a stretch. Raises NotWholeError where it takes more than reading; OSError."""
    rows = Rows()
    with Path(stretch.path).open("rb") as file:
        file.seek(stretch.start)
        buffer = file.read(stretch.piece - stretch.start)
        upto = _UpTo(file, stretch.end - stretch.piece)
        stream = ByteStream(upto, file, 0)  # type: ignore[arg-type]
        for chunk in whole_chunks(stream, buffer):
            rows.add(chunk)
    if stream.damage or upto.left:
        raise NotWholeError
    return rows


def main() -> None:
    """Read the stretch that the last argument says, and hand its rows over."""
    requests()  # there are none, but it ends with the process that started it
    stretch = msgspec.json.decode(sys.argv[-1], type=Stretch)
    raise_for_all(**asdict(stretch.limits))
    try:
        send(read_stretch(stretch), sys.stdout.buffer)
    except (NotWholeError, OSError, ValueError):
        sys.exit(FAILED)
