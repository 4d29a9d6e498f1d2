"""The process that reads whole recordings for `several.py`: a request a line, each answered with a file's model."""

from __future__ import annotations

import io
import json
import sys
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.ingest.cache.kept import read_once
from traceanalyzer.ingest.cache.model_file import DamagedModelError, can_be_kept, read_model, write_model
from traceanalyzer.ingest.detect import detect
from traceanalyzer.ingest.processes import requests
from traceanalyzer.limits import limits, raise_for_all
from traceanalyzer.reading import Reading, read_with

if TYPE_CHECKING:
    from traceanalyzer.trace import Trace

_LENGTH_BYTES = 8
_IDENTITY = "handed over"


def request_of(path: Path, reading: Reading) -> bytes:
    """The line that asks for a file, to be read that way and within the limits in force."""
    # not msgspec: a name may hold bytes that are no text
    return json.dumps([str(path), asdict(reading), asdict(limits())]).encode() + b"\n"


def answer(request: bytes, to: BinaryIO) -> None:
    """Write the traces of the file that is asked for; nothing of one that cannot be read, or not be handed over.
    Raises OSError."""
    name, reading, in_force = json.loads(request)
    read_with(**reading)
    raise_for_all(**in_force)
    made = io.BytesIO()
    with suppress(TraceAnalyzerError, OSError, ValueError):
        traces = read_once(Path(name), lambda: detect(Path(name)).read(Path(name), None))
        if all(can_be_kept(trace) for trace in traces):
            write_model(made, _IDENTITY, traces)
    to.write(len(made.getbuffer()).to_bytes(_LENGTH_BYTES, "little") + made.getbuffer())
    to.flush()


def answered(source: BinaryIO, path: Path) -> list[Trace] | None:
    """What `answer` wrote of the file; None where that is nothing, or cut off. Raises OSError."""
    size = int.from_bytes(source.read(_LENGTH_BYTES), "little")
    try:
        return read_model(source, size, _IDENTITY, str(path), sys.maxsize) if size else None
    except DamagedModelError:
        return None


def main() -> None:
    """Answer requests until there are no more."""
    with suppress(KeyboardInterrupt):
        for request in requests():
            answer(request, sys.stdout.buffer)
