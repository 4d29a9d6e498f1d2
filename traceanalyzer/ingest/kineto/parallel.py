"""A large trace read by several processes, each a stretch of it.

The chunks are the same as those of reading from front to back, so the result is, to the bit: stretches begin where a
piece of the file does, and what a piece leaves over is found from its last bytes. Where anything is damaged, or a
process fails, nothing comes of it and the file is read from front to back.

A gzipped trace is decompressed by each of them as far as it needs to be: that takes a tenth of the time that decoding
the text takes, or less.
"""

from __future__ import annotations

import sys
from itertools import pairwise
from typing import TYPE_CHECKING

import msgspec

from traceanalyzer.errors import UnreadableInputError
from traceanalyzer.ingest.kineto.chunks import KinetoFile, NotWholeError
from traceanalyzer.ingest.kineto.handover import append, part_of, receive
from traceanalyzer.ingest.kineto.rows import Rows
from traceanalyzer.ingest.kineto.worker import Stretch, left_over
from traceanalyzer.ingest.processes import LEAST_BYTES, Process, memory_files, running
from traceanalyzer.ingest.stream import PIECE_BYTES, ByteStream, open_stream, text_bytes
from traceanalyzer.limits import limits
from traceanalyzer.reading import reading

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import BinaryIO

WORKER = "traceanalyzer.ingest.kineto.worker"
AHEAD_BYTES = 16 << 20
"""What this process reads while the others start and hand over. Measured: 155 MB take 2 to 3 % more with 0 or 32."""


def read_in_parallel(path: Path, progress: Callable[[float], None] | None) -> tuple[KinetoFile, Rows] | None:
    """The file's rows, read by as many processes as were asked for; None where it has to be read from front to back.
    Raises UnreadableInputError, OSError."""
    size = text_bytes(path)
    jobs = min(reading().jobs, size // LEAST_BYTES)
    if jobs < 2 or not sys.executable:
        return None
    with open_stream(path) as stream:
        file = KinetoFile()
        buffer = file.begin(stream)
        stretches = None if buffer is None else _stretches(size, stream.place, stream.place - len(buffer), jobs)
        if stretches is None:
            return None
        given = [[str(path.absolute()), msgspec.json.encode(stretch).decode()] for stretch in stretches[:-1]]
        with memory_files(len(given)) as outputs, running(WORKER, given, outputs=outputs) as processes:
            if len(processes) < len(given):
                return None
            mine = _last(file, stream, stretches[-1], progress)
            return None if mine is None else _together(file, processes, outputs, mine)


def _stretches(size: int, begun: int, start: int, jobs: int) -> list[Stretch] | None:
    """The stretches from `start` on, of equal length but for the last, which is read while the processes for the
    others start and hand over; None where the file cannot be cut. `begun`: how much of it has been read in pieces."""
    each = (size - AHEAD_BYTES) // jobs
    pieces = [begun] + [each * i // PIECE_BYTES * PIECE_BYTES for i in range(1, jobs)]
    if any(later - piece < 2 * PIECE_BYTES for piece, later in pairwise(pieces)):
        return None
    starts = [start, *[None] * (jobs - 1)]
    ends = [*pieces[1:], size]
    return [Stretch(a, b, c, limits()) for a, b, c in zip(starts, pieces, ends, strict=True)]


def _last(
    file: KinetoFile, stream: ByteStream, stretch: Stretch, progress: Callable[[float], None] | None
) -> Rows | None:
    """The rows from where the last stretch begins to the end of the file; None where it is damaged."""
    rows = Rows()
    try:
        buffer = left_over(stream, stretch)
        stream.progress = _share_of(progress, stream.share())
        for chunk in file.rest(stream, buffer):
            rows.add(chunk)
    except (NotWholeError, UnreadableInputError):  # reading it from front to back tells what is wrong
        return None
    return None if stream.damage else rows


def _together(
    file: KinetoFile, processes: list[Process], outputs: list[BinaryIO], mine: Rows
) -> tuple[KinetoFile, Rows] | None:
    rows = Rows()
    for process, output in zip(processes, outputs, strict=True):
        if process.wait():
            return None
        try:
            append(rows, *receive(output))
        except (ValueError, msgspec.MsgspecError):
            return None
    append(rows, *part_of(mine))
    return file, rows


def _share_of(progress: Callable[[float], None] | None, begun: float) -> Callable[[float], None] | None:
    """Progress over the last stretch as progress over the file: the others advance with it."""
    if progress is None:
        return None
    return lambda share: progress((share - begun) / (1 - begun) if begun < 1 else 1.0)
