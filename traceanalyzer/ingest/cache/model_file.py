"""The traces of one recording as a file: a header in JSON that says what follows, and the columns as raw numbers.

Nothing in it is code. Lengths are those of the file before anything is allocated, and a checksum covers every byte.
"""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any, BinaryIO

import msgspec
import numpy as np
from isal import isal_zlib
from msgspec import Struct

from traceanalyzer.ingest.cache.packed import Packed, pack, unpack
from traceanalyzer.trace import Collected, Device, Health, Process, StepTimings, Table, Thread, Trace

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

MAGIC = b"TAmodel\x01"
_LONGEST_HEADER = 64 << 20
"""Bytes; a header of a trace takes a few kilobytes, with a note for each of a million ranks a few megabytes."""
_TABLES: dict[str, type[Table]] = {
    f.name: made
    for f in fields(Trace)
    if isinstance(made := getattr(f.default_factory, "__self__", None), type) and made is not StepTimings
}
"""The tables of a trace and their types; logs of step times are not kept."""
_FACTS = ("source", "process", "threads", "devices", "collected", "health", "epoch_ns", "window")
_NOT_KEPT = ("path", "strings")
"""The path is the one under which the recording is asked for; strings follow the header."""


class Kept(Struct, forbid_unknown_fields=True):
    """What the header says of a trace."""

    source: str
    process: Process
    threads: tuple[Thread, ...]
    devices: tuple[Device, ...]
    collected: Collected
    health: Health
    epoch_ns: int
    window: tuple[int, int] | None
    text_bytes: int
    rows: dict[str, int]
    columns: dict[str, list[Packed]]


class Header(Struct, forbid_unknown_fields=True):
    """What the file holds."""

    identity: str
    traces: list[Kept]
    checksum: int


_DECODER = msgspec.json.Decoder(Header)
_TEXTS = msgspec.json.Decoder(list[str])


class DamagedModelError(ValueError):
    """The file is not what it says, or not what was asked for."""


def can_be_kept(trace: Trace) -> bool:
    """Whether the file would hold all of the trace: what a reader makes, before side files are joined."""
    empty = Trace(trace.path, trace.source, [])
    rest = [f.name for f in fields(Trace) if f.name not in (*_TABLES, *_FACTS, *_NOT_KEPT, "step_timings")]
    return not len(trace.step_timings) and all(getattr(trace, name) == getattr(empty, name) for name in rest)


def write_model(file: BinaryIO, identity: str, traces: Sequence[Trace]) -> None:
    """Write the traces of a recording. Raises OSError; ValueError for text that no file can hold."""
    kept, parts = [], []
    for trace in traces:
        texts = msgspec.json.encode(trace.strings)
        columns = {name: [pack(*column) for column in _columns(getattr(trace, name))] for name in _TABLES}
        parts += [texts, *(data for table in columns.values() for _, data in table)]
        kept.append(
            Kept(
                **{name: getattr(trace, name) for name in _FACTS},
                text_bytes=len(texts),
                rows={name: len(getattr(trace, name)) for name in _TABLES},
                columns={name: [form for form, _ in table] for name, table in columns.items()},
            )
        )
    checksum = 0
    for part in parts:
        checksum = isal_zlib.crc32(part, checksum)
    header = msgspec.json.encode(Header(identity, kept, checksum))
    file.write(MAGIC + len(header).to_bytes(8, "little") + isal_zlib.crc32(header).to_bytes(8, "little") + header)
    file.writelines(parts)


def read_model(file: BinaryIO, size: int, identity: str, path: str, most_rows: int) -> list[Trace]:
    """The traces in a file of `size` bytes, each with at most so many rows a table.

    Raises DamagedModelError where it is damaged or of another recording; OSError.
    """
    reading = _Reading(file, size)
    try:
        header = _header(reading)
        if header.identity != identity:
            raise DamagedModelError("a model of another recording")
        expected = sum(_bytes_of(kept, most_rows) for kept in header.traces)
        if reading.left != expected or not header.traces:
            raise DamagedModelError("of another length than it says")
        reading.checksum = 0
        traces = [_trace(kept, reading, path) for kept in header.traces]
    except (ValueError, KeyError, msgspec.MsgspecError) as error:
        raise DamagedModelError(str(error)) from error
    if reading.checksum != header.checksum:
        raise DamagedModelError("its checksum is another")
    return traces


class _Reading:
    """A file from front to back: what is left of it, and the checksum of what was taken."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self.file, self.left, self.checksum = file, size, 0

    def take(self, count: int) -> bytearray:
        if not 0 <= count <= self.left:
            raise DamagedModelError("shorter than it says")
        data = bytearray(count)
        if self.file.readinto(data) != count:  # type: ignore[attr-defined]
            raise DamagedModelError("cut off")
        self.left -= count
        self.checksum = isal_zlib.crc32(data, self.checksum)
        return data


def _header(reading: _Reading) -> Header:
    if reading.take(len(MAGIC)) != MAGIC:
        raise DamagedModelError("of another format")
    length, checksum = (int.from_bytes(reading.take(8), "little") for _ in range(2))
    text = reading.take(min(length, _LONGEST_HEADER))
    if isal_zlib.crc32(text) != checksum:
        raise DamagedModelError("its header's checksum is another")
    return _DECODER.decode(text)


def _bytes_of(kept: Kept, most_rows: int) -> int:
    """The length of a trace's texts and columns."""
    if kept.text_bytes < 0 or any(not 0 <= kept.rows[name] <= most_rows for name in _TABLES):
        raise DamagedModelError("more rows than its recording can have")
    widths = {name: sum(form.width for form in kept.columns[name] if form.width > 0) for name in _TABLES}
    return kept.text_bytes + sum(kept.rows[name] * width for name, width in widths.items())


def _trace(kept: Kept, reading: _Reading, path: str) -> Trace:
    strings = _TEXTS.decode(reading.take(kept.text_bytes))
    tables: dict[str, Any] = {name: _table(name, table, kept, reading) for name, table in _TABLES.items()}
    bounds = {"thread": len(kept.threads), "collective": len(tables["collectives"])}
    for table in tables.values():
        _check_codes(table, len(strings), bounds)
    return Trace(path=path, strings=strings, **{name: getattr(kept, name) for name in _FACTS}, **tables)


def _table(name: str, table: type[Table], kept: Kept, reading: _Reading) -> Table:
    rows, columns = kept.rows[name], {}
    for f, form in zip(fields(table), kept.columns[name], strict=True):
        columns[f.name] = unpack(form, reading.take(rows * max(form.width, 0)), rows, f.metadata["dtype"])
    return table.from_columns(columns, rows)


def _check_codes(table: Table, texts: int, bounds: dict[str, int]) -> None:
    """Raises DamagedModelError for a code that stands for nothing, or rows out of order."""
    for f in fields(table):
        values = getattr(table, f.name)
        most = texts if f.metadata["text"] else bounds.get(f.name)
        if most is not None and len(values) and not (values.min() >= -1 and values.max() < most):
            raise DamagedModelError(f"{f.name} stands for nothing")
    start, end = getattr(table, "start", None), getattr(table, "end", None)
    if start is not None and (np.any(start[1:] < start[:-1]) or (end is not None and np.any(end < start))):
        raise DamagedModelError("times out of order")


def _columns(table: Table) -> Iterator[tuple[Any, np.dtype[Any]]]:
    return ((getattr(table, f.name), f.metadata["dtype"]) for f in fields(table))
