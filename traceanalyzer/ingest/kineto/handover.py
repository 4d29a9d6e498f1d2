"""Rows that were read elsewhere: as bytes from one process to another, and appended to other rows.

Codes of strings, threads and collectives count from 0 in each process, in the order in which it first meets them; parts
that are taken in the order of the file number them as reading it from front to back does.
"""

from __future__ import annotations

import os
from dataclasses import fields
from mmap import ACCESS_READ, mmap
from typing import TYPE_CHECKING, Any, BinaryIO

import msgspec
import numpy as np
from msgspec import Struct

from traceanalyzer.ingest.kineto.events import Group
from traceanalyzer.trace import (
    ApiCalls,
    DeviceOps,
    DeviceRanges,
    GpuMetrics,
    HostRanges,
    MemoryEvents,
    Overheads,
    Table,
    Waits,
    alike,
    is_constant,
    narrowed,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from traceanalyzer.ingest.kineto.rows import Rows

Id = int | str
_TABLES: tuple[type[Table], ...] = (
    DeviceOps,
    ApiCalls,
    HostRanges,
    Waits,
    Overheads,
    DeviceRanges,
    MemoryEvents,
    GpuMetrics,
)
"""What `Rows.every_table` becomes, in that order: they say which columns are codes of strings."""
_TEXTS_OF_COLLECTIVES = (0, 3, 4, 6, 8)
"""Places of codes of strings in the key of a collective (`Rows._collective_code`)."""


class Column(Struct, array_like=True):
    """A column that follows."""

    name: str
    dtype: str
    length: int
    same: bool
    """Whether all its values are one, which alone follows."""


class Part(Struct):
    """What is known of some rows besides their columns."""

    texts: list[str]
    """Those that are new; so are threads and collectives."""
    threads: list[tuple[Id, Id]]
    collectives: list[tuple[int, ...]]
    names: list[tuple[str, Id, Id, str]]
    counts: dict[int, int]
    events: int
    skipped: int
    repaired: int
    lost: int
    memory_events: int
    window: tuple[int, int] | None
    window_end: int
    mended: list[int]
    tables: list[list[Column]]


Columns = list[dict[str, "NDArray[Any]"]]
Parts = dict[int, tuple[Part, Columns]]
"""What one process has read, by the number of the stretch."""
_DECODER = msgspec.json.Decoder(tuple[int, Part])
_LENGTH_BYTES = 8
SHORT_BYTES = 1 << 16
"""A shorter column is copied: one that is left as it is holds all of the file."""


def part_of(rows: Rows) -> tuple[Part, Columns]:
    """The rows as a part. Empties them."""
    texts, threads, collectives = rows.known
    mended = [table.mended for table in rows.every_table]
    columns = [_lean(table.take()) for table in rows.every_table]
    part = Part(
        texts=rows.texts.in_order()[texts:],
        threads=list(rows.threads)[threads:],
        collectives=list(rows.collectives)[collectives:],
        names=[(*key, text) for key, text in rows.names.items()],
        counts={int(group): count for group, count in rows.counts.items()},
        events=rows.events,
        skipped=rows.skipped,
        repaired=rows.repaired,
        lost=rows.lost,
        memory_events=rows.memory_events,
        window=rows.window,
        window_end=rows.window_end,
        mended=mended,
        tables=[[_described(name, values) for name, values in table.items()] for table in columns],
    )
    return part, columns


def _lean(columns: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """The columns in as few bytes as their values need: half of what there was to hand over."""
    return {
        name: values if is_constant(values) or values.itemsize == 1 else narrowed(values)
        for name, values in columns.items()
    }


def _described(name: str, values: NDArray[Any]) -> Column:
    return Column(name, values.dtype.str, len(values), is_constant(values))


def send(number: int, rows: Rows, to: BinaryIO) -> None:
    """Write rows with their number for `receive`. Empties them. Raises OSError; ValueError for text that cannot be
    handed over."""
    part, columns = part_of(rows)
    head = msgspec.json.encode((number, part))
    at = to.write(len(head).to_bytes(_LENGTH_BYTES, "little") + head)
    for table in columns:
        for values in table.values():
            at += to.write(b"\0" * _padding(at))
            at += to.write((values[:1].copy() if is_constant(values) else values).data.cast("B"))
    to.write(b"\0" * _padding(at))
    to.flush()


def _padding(at: int) -> int:
    """Bytes before a column: numpy is quick where numbers lie at multiples of their size."""
    return -at % _LENGTH_BYTES


def receive(source: BinaryIO) -> Parts:
    """All that `send` wrote to a file, by number; the columns are read where they lie, not copied. Raises OSError;
    ValueError where it is cut off."""
    size = source.seek(0, os.SEEK_END)
    data = memoryview(mmap(source.fileno(), size, access=ACCESS_READ)) if size else memoryview(b"")
    found, at = {}, 0
    while at < size:
        head = at + _LENGTH_BYTES
        at = head + int.from_bytes(data[at:head], "little")
        number, part = _DECODER.decode(data[head:at])
        columns: Columns = []
        for table in part.tables:
            columns.append({})
            for column in table:
                values, at = _column(data, column, at + _padding(at))
                columns[-1][column.name] = values
        found[number] = part, columns
        at += _padding(at)
    return found


def _column(data: memoryview, column: Column, at: int) -> tuple[NDArray[Any], int]:
    """A column, and where it ends."""
    values = np.frombuffer(data, column.dtype, 1 if column.same else column.length, at)
    at += values.nbytes
    if column.same:
        return alike(values[0], column.length, values.dtype), at
    return values.copy() if values.nbytes < SHORT_BYTES else values, at


class Recoding:
    """The codes that the strings, threads and collectives of one process have among all, by its own."""

    def __init__(self) -> None:
        self._texts: list[int] = []
        self._threads: list[int] = []
        self._collectives: list[int] = []

    def with_new(self, part: Part, rows: Rows) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]:
        """Those of all of its parts up to this one."""
        self._texts += map(rows.texts.code, part.texts)
        self._threads += [rows.threads[key] for key in part.threads]
        texts = _codes(self._texts)
        self._collectives += [rows.collectives[_recoded(key, texts)] for key in part.collectives]
        return texts, _codes(self._threads), _codes(self._collectives)


def append(rows: Rows, part: Part, columns: Columns, codes: Recoding) -> None:
    """Add a part to the rows of all that comes before it in the file. `codes`: those of the process that read it."""
    texts, threads, collectives = codes.with_new(part, rows)
    unchanged = [codes for codes in (texts, threads, collectives) if (codes[:-1] == np.arange(len(codes) - 1)).all()]
    for kind, table, mended, values in zip(_TABLES, rows.every_table, part.mended, columns, strict=True):
        maps = {f.name: texts for f in fields(kind) if f.metadata["text"]}
        maps |= {"thread": threads, "collective": collectives}
        maps = {name: codes for name, codes in maps.items() if not any(codes is same for same in unchanged)}
        table.extend(values, mended, maps)
    rows.names.update({(kind, pid, tid): text for kind, pid, tid, text in part.names})
    for group, count in part.counts.items():
        rows.counts[Group(group)] += count
    for name in ("events", "skipped", "repaired", "lost", "memory_events"):
        setattr(rows, name, getattr(rows, name) + getattr(part, name))
    rows.window = part.window or rows.window
    rows.window_end = max(rows.window_end, part.window_end)


def _codes(codes: list[int]) -> NDArray[np.int32]:
    """New codes by old ones; -1 stays."""
    return np.array([*codes, -1], np.int32)


def _recoded(key: tuple[int, ...], texts: NDArray[np.int32]) -> tuple[int, ...]:
    return tuple(int(texts[value]) if i in _TEXTS_OF_COLLECTIVES else value for i, value in enumerate(key))
