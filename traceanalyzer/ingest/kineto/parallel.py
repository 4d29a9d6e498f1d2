"""A large uncompressed trace read by several processes, each a stretch of it.

The chunks are the same as those of reading from front to back, so the result is, to the bit: stretches begin where a
piece of the file does, and what a piece leaves over is found from its last bytes. Where anything is damaged, or a
process fails, nothing comes of it and the file is read from front to back.
"""

from __future__ import annotations

import sys
from itertools import pairwise
from typing import TYPE_CHECKING, cast

import msgspec

from traceanalyzer.files import note_read
from traceanalyzer.ingest.kineto.chunks import TAIL_BYTES, KinetoFile, boundary_before
from traceanalyzer.ingest.kineto.handover import append, part_of, receive
from traceanalyzer.ingest.kineto.rows import Rows
from traceanalyzer.ingest.kineto.worker import Stretch
from traceanalyzer.ingest.processes import LEAST_BYTES, Process, running
from traceanalyzer.ingest.stream import GZIP_MAGIC, PIECE_BYTES, ByteStream
from traceanalyzer.limits import limits
from traceanalyzer.reading import reading

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import BinaryIO

WORKER = "traceanalyzer.ingest.kineto.worker"


def read_in_parallel(path: Path, progress: Callable[[float], None] | None) -> tuple[KinetoFile, Rows] | None:
    """The file's rows, read by as many processes as were asked for; None where it has to be read from front to back.
    Raises OSError."""
    size = path.stat().st_size
    jobs = min(reading().jobs, size // LEAST_BYTES)
    if jobs < 2 or not sys.executable:
        return None
    with note_read(path).open("rb") as source:
        file, stream = KinetoFile(), ByteStream(source, source, size)
        buffer = None if source.read(len(GZIP_MAGIC)) == GZIP_MAGIC or source.seek(0) else file.begin(stream)
        begun = source.tell()
        stretches = None if buffer is None else _stretches(path, source, size, begun, begun - len(buffer), jobs)
        if stretches is None:
            return None
        given = [[msgspec.json.encode(stretch).decode()] for stretch in stretches[:-1]]
        with running(WORKER, given) as processes:
            if len(processes) < len(given):
                return None
            last = stretches[-1]
            source.seek(last.start)
            mine = Rows()
            stream = ByteStream(source, source, size, _share_of(progress, last.piece / size))
            for chunk in file.rest(stream, source.read(last.piece - last.start)):
                mine.add(chunk)
            return None if stream.damage else _together(file, processes, mine)


def _stretches(path: Path, source: BinaryIO, size: int, begun: int, start: int, jobs: int) -> list[Stretch] | None:
    """The stretches from `start` on, of equal length; None where the file cannot be cut. `begun`: how much of it has
    been read in pieces."""
    pieces = [begun] + [size * i // jobs // PIECE_BYTES * PIECE_BYTES for i in range(1, jobs)]
    if any(later - piece < 2 * PIECE_BYTES for piece, later in pairwise(pieces)):
        return None
    starts = [start]
    for piece in pieces[1:]:
        source.seek(piece - TAIL_BYTES)
        found = boundary_before(source.read(TAIL_BYTES))
        if found is None:
            return None
        starts.append(piece - TAIL_BYTES + found)
    ends = [*pieces[1:], size]
    return [Stretch(str(path.absolute()), a, b, c, limits()) for a, b, c in zip(starts, pieces, ends, strict=True)]


def _together(file: KinetoFile, processes: list[Process], mine: Rows) -> tuple[KinetoFile, Rows] | None:
    rows = Rows()
    for process in processes:
        try:
            append(rows, *receive(cast("BinaryIO", process.stdout)))
        except (ValueError, msgspec.MsgspecError):
            return None
        if process.wait():
            return None
    append(rows, *part_of(mine))
    return file, rows


def _share_of(progress: Callable[[float], None] | None, begun: float) -> Callable[[float], None] | None:
    """Progress over the last stretch as progress over the file: the others advance with it."""
    if progress is None:
        return None
    return lambda share: progress((share - begun) / (1 - begun))
