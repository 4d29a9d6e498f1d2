"""A large trace read by several processes, each of which takes the next stretch of it when it is
free.

The chunks are the same as those of reading from front to back, so the result is, to the bit:
stretches begin where a piece of the file does, and what a piece leaves over is found from its last
bytes. Codes of strings, threads and collectives count from 0 in each process, in the order in which
it first meets them; parts that are taken in the order of the file number them as reading it from
front to back does. Where anything is damaged, or a process fails, nothing comes of it and the file
is read from front to back.

A gzipped trace is decompressed by each of them as far as it needs to be: that takes a tenth of the
time that decoding the text takes, or less."""

import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.base import UnreadableInputError
from traceanalyzer.base.parallel import LEAST_BYTES
from traceanalyzer.base.parallel.children import Child, children, shared_queue
from traceanalyzer.base.reading import reading
from traceanalyzer.ingest.kineto.arguments import CODED, Collective
from traceanalyzer.ingest.kineto.chunks import (
    TAIL_BYTES,
    DamagedStretchError,
    KinetoFile,
    boundary_in_tail,
    whole_chunks,
)
from traceanalyzer.ingest.kineto.events import RowGroup
from traceanalyzer.ingest.kineto.repeating import RepeatingEvents
from traceanalyzer.ingest.kineto.rows import Id, KinetoRows
from traceanalyzer.ingest.stream import PIECE_BYTES, ByteStream, open_stream, text_bytes
from traceanalyzer.trace import is_constant, narrowed

_SUMS = ("events", "skipped", "repaired", "lost", "memory_events")


class StretchRows(NamedTuple):
    """Rows of a stretch of the file."""

    texts: list[str]  # those that are new; so are threads and collectives
    threads: list[tuple[Id, Id]]
    collectives: list[Collective]
    names: dict[tuple[str, Id, Id], str]
    counts: dict[RowGroup, int]
    sums: dict[str, int]
    window: tuple[int, int] | None
    window_end: int
    mended: list[int]  # by table, as `tables`
    tables: list[dict[str, NDArray[Any]]]


LEAST_STRETCH_BYTES = 4 << 20
"""Each costs a millisecond, and as much as it takes is lost where one process waits for another to
end."""


def part_of(rows: KinetoRows) -> StretchRows:
    """The rows as a part. Empties them."""
    texts, threads, collectives = rows.known
    return StretchRows(
        texts=rows.texts.in_order()[texts:],
        threads=list(rows.threads)[threads:],
        collectives=list(rows.collectives)[collectives:],
        names=rows.names,
        counts=rows.counts,
        sums={name: getattr(rows, name) for name in _SUMS},
        window=rows.window,
        window_end=rows.window_end,
        mended=[columns.mended for columns in rows.tables.values()],
        tables=[
            # in as few bytes as the values need: half of what there was to hand over
            {
                k: v if is_constant(v) or v.itemsize == 1 else narrowed(v)
                for k, v in columns.take().items()
            }
            for columns in rows.tables.values()
        ],
    )


def append_part(
    rows: KinetoRows, part: StretchRows, codes: tuple[list[int], list[int], list[int]]
) -> None:
    """Add a part to the rows of all that comes before it in the file. `codes`: what strings,
    threads and collectives of the process that read it have among all, by its own."""
    codes[0].extend(map(rows.texts.code, part.texts))
    codes[1].extend(map(rows.threads.__getitem__, part.threads))
    texts = np.array([*codes[0], -1], np.int32)
    for collective in part.collectives:
        coded = {name: int(texts[getattr(collective, name)]) for name in CODED}
        codes[2].append(rows.collectives[collective._replace(**coded)])
    threads = np.array([*codes[1], -1], np.int32)
    collectives = np.array([*codes[2], -1], np.int32)
    for kind, mended, values in zip(rows.tables, part.mended, part.tables, strict=True):
        maps = {f.name: texts for f in fields(kind) if f.metadata["text"]}
        maps |= {"thread": threads, "collective": collectives}
        maps = {
            name: new
            for name, new in maps.items()
            if not (new[:-1] == np.arange(len(new) - 1)).all()
        }
        rows.tables[kind].extend(values, mended, maps)
    rows.names.update(part.names)
    rows.counts.update(part.counts)  # a Counter adds
    for name, count in part.sums.items():
        setattr(rows, name, getattr(rows, name) + count)
    rows.window = part.window or rows.window
    rows.window_end = max(rows.window_end, part.window_end)


class FileStretch(NamedTuple):
    """A part of a file, in bytes of its text."""

    start: (
        int | None
    )  # where its first chunk begins; None: where that is found in the last bytes before `piece`
    # where its first piece begins; what lies between has been left over by the piece before
    piece: int
    end: int  # where its last piece ends


def read_in_parallel(
    path: Path, progress: Callable[[float], None] | None
) -> tuple[KinetoFile, KinetoRows] | None:
    """The file's rows, read by as many processes as were asked for; None where it has to be read
    from front to back. Raises UnreadableInputError, OSError."""
    size = text_bytes(path)
    jobs = min(reading().jobs, size // LEAST_BYTES)
    if jobs < 2 or not sys.executable:
        return None
    with open_stream(path, progress) as stream:
        file = KinetoFile()
        buffer = file.begin(stream)
        stretches = (
            []
            if buffer is None
            else _stretches(size, stream.place, stream.place - len(buffer), jobs)
        )
        if len(stretches) < 2:
            return None
        with (
            shared_queue(len(stretches) - 1) as numbers,
            children(partial(_read_apart, path, stretches, numbers), jobs - 1) as helpers,
        ):
            own = _read_here(file, stream, stretches, numbers)
            rows = None if own is None else _together(len(stretches), own, helpers)
            return None if rows is None else (file, rows)


def _stretches(size: int, begun: int, start: int, jobs: int) -> list[FileStretch]:
    """The stretches from `start` on, ever shorter, so that all processes end at about the same
    time. `begun`: how much of the file has been read in pieces."""
    pieces = [begun]
    while (left := size - pieces[-1]) >= 2 * LEAST_STRETCH_BYTES:
        length = max(left // (2 * jobs), LEAST_STRETCH_BYTES)
        pieces.append(pieces[-1] + length // PIECE_BYTES * PIECE_BYTES)
    starts = [start, *[None] * (len(pieces) - 1)]
    ends = [*pieces[1:], size]
    return [FileStretch(*one) for one in zip(starts, pieces, ends, strict=True)]


def _read_apart(
    path: Path, stretches: list[FileStretch], numbers: Iterable[int]
) -> Iterator[tuple[int, StretchRows]]:
    """In another process: the stretches that it is free for, by number."""
    with open_stream(path) as stream:
        for number, rows in _read_stretches(stream, stretches, numbers):
            yield number, part_of(rows)


def _read_stretches(
    stream: ByteStream, stretches: list[FileStretch], numbers: Iterable[int]
) -> Iterator[tuple[int, KinetoRows]]:
    """The rows of the stretches of these numbers, which ascend. Raises NotWholeError,
    TraceAnalyzerError."""
    rows = None
    events = None
    for number in numbers:
        stretch = stretches[number]
        rows = KinetoRows(rows)
        events = _going_on(events, rows)
        left = _left_over(stream, stretch)
        for chunk in whole_chunks(stream, stretch.end, left, events.decode):
            events.add(chunk)
        events.flush()
        if stream.damage or stream.place != stretch.end:
            raise DamagedStretchError
        yield number, rows


def _going_on(events: RepeatingEvents | None, rows: KinetoRows) -> RepeatingEvents:
    """What adds to these rows, with the kinds of events that were met before."""
    if events is None:
        return RepeatingEvents(rows, is_worthwhile=True)
    events.go_on_with(rows)
    return events


def _left_over(stream: ByteStream, stretch: FileStretch) -> bytes:
    """Go on to the stretch: what of it comes before its first piece. Raises NotWholeError where
    that is not known."""
    if stretch.start is not None:
        return stream.go_to(stretch.piece, stretch.piece - stretch.start)
    tail = stream.go_to(stretch.piece, TAIL_BYTES)
    found = boundary_in_tail(tail)
    if found is None or stream.place != stretch.piece:
        raise DamagedStretchError
    return tail[found.end() :]


def _read_here(
    file: KinetoFile, stream: ByteStream, stretches: list[FileStretch], numbers: Iterable[int]
) -> dict[int, StretchRows] | None:
    """The stretches that this process reads: those it is free for, and the last one. None where one
    is damaged."""
    rows = None
    found = {}
    try:
        for number, rows in _read_stretches(stream, stretches, numbers):
            found[number] = part_of(rows)
        rows = KinetoRows(rows)
        for chunk in file.rest(stream, _left_over(stream, stretches[-1])):
            rows.add(chunk)
    except (
        DamagedStretchError,
        UnreadableInputError,
    ):  # reading it from front to back tells what is wrong
        return None
    return None if stream.damage else found | {len(stretches) - 1: part_of(rows)}


def _together(
    count: int, own_parts: dict[int, StretchRows], helpers: list[Child[tuple[int, StretchRows]]]
) -> KinetoRows | None:
    """The rows of so many parts in the order of the file; None where any is missing."""
    by_reader = [own_parts, *(dict(helper.values()) for helper in helpers)]
    readers = {number: reader for reader, parts in enumerate(by_reader) for number in parts}
    if len(readers) < count:
        return None
    rows = KinetoRows()
    codes = [(list[int](), list[int](), list[int]()) for _ in by_reader]
    for number, reader in sorted(readers.items()):
        append_part(rows, by_reader[reader].pop(number), codes[reader])
    return rows
