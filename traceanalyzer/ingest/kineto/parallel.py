"""A large trace read by several processes, each of which takes the next stretch of it when it is free.

The chunks are the same as those of reading from front to back, so the result is, to the bit: stretches begin where a
piece of the file does, and what a piece leaves over is found from its last bytes. Where anything is damaged, or a
process fails, nothing comes of it and the file is read from front to back.

A gzipped trace is decompressed by each of them as far as it needs to be: that takes a tenth of the time that decoding
the text takes, or less.
"""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import msgspec

from traceanalyzer.errors import UnreadableInputError
from traceanalyzer.ingest.kineto.chunks import KinetoFile, NotWholeError
from traceanalyzer.ingest.kineto.handover import Parts, Recoding, append, part_of, receive
from traceanalyzer.ingest.kineto.rows import Rows
from traceanalyzer.ingest.kineto.worker import TICKET_BYTES, Stretch, Work, left_over, read_stretches
from traceanalyzer.ingest.processes import LEAST_BYTES, Process, memory_files, running
from traceanalyzer.ingest.stream import PIECE_BYTES, ByteStream, open_stream, text_bytes
from traceanalyzer.limits import limits
from traceanalyzer.reading import reading

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from typing import BinaryIO

WORKER = "traceanalyzer.ingest.kineto.worker"
LEAST_STRETCH_BYTES = 4 << 20
"""Each costs a millisecond, and as much as it takes is lost where one process waits for another to end."""


def read_in_parallel(path: Path, progress: Callable[[float], None] | None) -> tuple[KinetoFile, Rows] | None:
    """The file's rows, read by as many processes as were asked for; None where it has to be read from front to back.
    Raises UnreadableInputError, OSError."""
    size = text_bytes(path)
    jobs = min(reading().jobs, size // LEAST_BYTES)
    if jobs < 2 or not sys.executable:
        return None
    with open_stream(path, progress) as stream:
        file = KinetoFile()
        buffer = file.begin(stream)
        stretches = None if buffer is None else _stretches(size, stream.place, stream.place - len(buffer), jobs)
        if stretches is None:
            return None
        with _tickets(len(stretches) - 1) as tickets, memory_files(jobs - 1) as outputs:
            work = Work(stretches, tickets, limits())
            given = [(str(path.absolute()), msgspec.json.encode(work).decode())] * len(outputs)
            with running(WORKER, given, outputs=outputs, shared=tickets) as processes:
                mine = _read_here(file, stream, work)
                rows = None if mine is None else _together(len(stretches), mine, processes, outputs)
                return None if rows is None else (file, rows)


def _stretches(size: int, begun: int, start: int, jobs: int) -> list[Stretch] | None:
    """The stretches from `start` on, ever shorter, so that all processes end at about the same time; None where there
    is but one. `begun`: how much of the file has been read in pieces."""
    pieces = [begun]
    while (left := size - pieces[-1]) >= 2 * LEAST_STRETCH_BYTES:
        length = max(left // (2 * jobs), LEAST_STRETCH_BYTES)
        pieces.append(pieces[-1] + length // PIECE_BYTES * PIECE_BYTES)
    if len(pieces) < 2:
        return None
    starts = [start, *[None] * (len(pieces) - 1)]
    return [Stretch(*one) for one in zip(starts, pieces, [*pieces[1:], size], strict=True)]


@contextmanager
def _tickets(count: int) -> Iterator[int]:
    """A pipe out of which every process takes numbers of stretches, until all have been taken."""
    source, target = os.pipe()
    try:
        with open(target, "wb") as file:
            file.write(b"".join(number.to_bytes(TICKET_BYTES, "little") for number in range(count)))
        yield source
    finally:
        os.close(source)


def _read_here(file: KinetoFile, stream: ByteStream, work: Work) -> Parts | None:
    """The stretches that this process reads: those it is free for, and the last one. None where one is damaged."""
    rows, found = None, {}
    try:
        for number, rows in read_stretches(stream, work):
            found[number] = part_of(rows)
        rows = Rows(rows)
        for chunk in file.rest(stream, left_over(stream, work.stretches[-1])):
            rows.add(chunk)
    except (NotWholeError, UnreadableInputError):  # reading it from front to back tells what is wrong
        return None
    return None if stream.damage else found | {len(work.stretches) - 1: part_of(rows)}


def _together(count: int, mine: Parts, processes: list[Process], outputs: list[BinaryIO]) -> Rows | None:
    """The rows of so many parts in the order of the file; None where any is missing."""
    by_reader = [mine]
    for process, output in zip(processes, outputs, strict=False):
        try:
            if process.wait():
                return None
            by_reader.append(receive(output))
        except (ValueError, msgspec.MsgspecError):
            return None
    readers = {number: reader for reader, parts in enumerate(by_reader) for number in parts}
    if len(readers) < count:
        return None
    rows, codes = Rows(), [Recoding() for _ in by_reader]
    for number, reader in sorted(readers.items()):
        append(rows, *by_reader[reader].pop(number), codes[reader])
    return rows
