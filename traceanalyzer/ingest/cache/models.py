"""The traces of a recording, kept where it was read: a header in JSON says what follows, columns
are raw numbers."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import fields, replace
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from traceanalyzer.base.files import note_read
from traceanalyzer.base.limits import limits
from traceanalyzer.base.reading import reading
from traceanalyzer.ingest.cache.identity import Identity, identity_of
from traceanalyzer.ingest.cache.store import (
    MODEL,
    MOST_BYTES,
    DamagedError,
    KeptEntry,
    has,
    opened_entry,
    place,
    put,
)
from traceanalyzer.ingest.formats import KEPT_SOURCES
from traceanalyzer.trace import (
    Collected,
    Device,
    Health,
    Process,
    StepTimings,
    Table,
    Thread,
    Trace,
    constant_column,
    is_sorted,
)

_WIDTHS = (1, 2, 4)  # bytes of an unsigned distance; what needs more is kept as it is


class Packed(Struct, array_like=True, forbid_unknown_fields=True):
    """How a column is kept."""

    width: int  # bytes a value; 0: all values are `least`
    least: int  # added to every value


_LONGEST_HEADER = 64 << 20
"""Bytes; a header of a trace takes a few kilobytes, with a note for each of a million ranks a few
megabytes."""
_LENGTH_BYTES = 8
_SHARE_OF_DISK = 4
"""Times a recording's bytes have to be free where its model is kept: the cache never fills the
disk."""
_MADE_BY = {f.name: getattr(f.default_factory, "__self__", None) for f in fields(Trace)}
_TABLES: dict[str, type[Table]] = {
    name: made
    for name, made in _MADE_BY.items()
    if isinstance(made, type) and made is not StepTimings
}
"""The tables of a trace and their types; logs of step times are not kept."""
_FACTS = ("source", "process", "threads", "devices", "collected", "health", "epoch_ns", "window")
_TEXTS = msgspec.json.Decoder(list[str])


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


_DECODER = msgspec.json.Decoder(list[Kept])


def pack(
    values: NDArray[Any],
    dtype: np.dtype[Any] | None = None,
) -> tuple[Packed, bytes]:
    """An integer column's form and bytes (little-endian); `dtype`: what it is unpacked to, if not
    its own type."""
    dtype = dtype or values.dtype
    if not len(values):
        return Packed(0, 0), b""
    least = int(values.min())
    most = int(values.max())
    if least == most:
        return Packed(0, least), b""
    for width in _WIDTHS:
        if width < dtype.itemsize and most - least < 1 << (8 * width):
            distance = values.astype(np.int64) - least
            return Packed(width, least), distance.astype(f"<u{width}").tobytes()
    return Packed(dtype.itemsize, 0), values.astype(dtype.newbyteorder("<")).tobytes()


def unpack(
    form: Packed,
    data: bytearray,
    rows: int,
    dtype: np.dtype[Any],
) -> NDArray[Any]:
    """The column of `rows` values. Raises ValueError where form and bytes are not those of such a
    column."""
    if len(data) != rows * form.width:
        raise ValueError("a column of another length")
    if form.width == 0:
        return constant_column(_fitting(form.least, dtype), rows, dtype)
    if form.width == dtype.itemsize and form.least == 0:
        return np.frombuffer(data, dtype.newbyteorder("<")).astype(dtype, copy=False)
    if form.width not in _WIDTHS or form.width >= dtype.itemsize:
        raise ValueError("a column of another type")
    _fitting(form.least + (1 << 8 * form.width) - 1, np.dtype(np.int64))
    values = np.frombuffer(data, f"<u{form.width}").astype(np.int64)
    values += _fitting(form.least, dtype)
    if len(values):
        _fitting(int(values.max()), dtype)
    return values.astype(dtype, copy=False)


def _fitting(value: int, dtype: np.dtype[Any]) -> int:
    limits = np.iinfo(dtype)
    if not limits.min <= value <= limits.max:
        raise ValueError("a value beyond its column")
    return value


def read_once(path: Path, read: Callable[[], list[Trace]]) -> list[Trace]:
    """The traces of a recording: of its kept model, else what `read` returns, which leaves a
    model."""
    identity = _identity(path)
    if identity is None:
        return read()
    kept = _kept(identity, path)
    if kept is not None:
        return kept
    traces = read()
    if _identity(path) != identity:  # it was written to meanwhile
        return traces
    keep(identity, traces)
    return _named(identity, traces)


def kept_traces(path: Path) -> list[Trace] | None:
    """The traces of a recording that has a kept model."""
    identity = _identity(path)
    return None if identity is None else _kept(identity, path)


def has_model(path: Path) -> bool:
    """Whether a recording has a kept model, sound or not."""
    identity = _identity(path)
    return identity is not None and has(identity.name, MODEL)


def _identity(path: Path) -> Identity | None:
    """The recording's; None where there is no cache, or it is not to be used."""
    try:
        return identity_of(path) if reading().cache and place() else None
    except OSError:
        return None


def _named(identity: Identity, traces: list[Trace]) -> list[Trace]:
    """The traces with the names that they are kept under."""
    return [replace(trace, kept_as=f"{identity.name}.{i}") for i, trace in enumerate(traces)]


def _kept(identity: Identity, path: Path) -> list[Trace] | None:
    try:
        with opened_entry(identity.name, MODEL) as stored:
            traces = traces_in(stored, str(path), identity.size * limits().ratio)
    except (OSError, DamagedError):
        return None
    note_read(path)
    return _named(identity, traces)


def keep(identity: Identity, traces: Sequence[Trace]) -> None:
    """Keep the traces of a recording, where a model holds all of them."""
    if all(trace.source in KEPT_SOURCES and can_be_kept(trace) for trace in traces):
        with suppress(ValueError):  # text that no file can hold
            put(
                identity.name,
                MODEL,
                model_of(traces),
                _SHARE_OF_DISK * min(identity.size, MOST_BYTES),
            )


def can_be_kept(trace: Trace) -> bool:
    """Whether the file would hold all of the trace: what a reader makes, before side files are
    joined."""
    empty = Trace(trace.path, trace.source, [])
    elsewhere = (*_TABLES, *_FACTS, "path", "strings", "step_timings")
    rest = [f.name for f in fields(Trace) if f.name not in elsewhere]
    return not len(trace.step_timings) and all(
        getattr(trace, name) == getattr(empty, name) for name in rest
    )


def model_of(traces: Sequence[Trace]) -> list[bytes]:
    """The bytes of a model. Raises ValueError for text that no file can hold."""
    kept = []
    parts = []
    for trace in traces:
        texts = msgspec.json.encode(trace.strings)
        tables: dict[str, Table] = {name: getattr(trace, name) for name in _TABLES}
        columns = {
            name: [pack(getattr(table, f.name), f.metadata["dtype"]) for f in fields(table)]
            for name, table in tables.items()
        }
        parts += [texts, *(data for _, data in chain(*columns.values()))]
        kept.append(
            Kept(
                **{name: getattr(trace, name) for name in _FACTS},
                text_bytes=len(texts),
                rows={name: len(table) for name, table in tables.items()},
                columns={name: [form for form, _ in table] for name, table in columns.items()},
            )
        )
    header = msgspec.json.encode(kept)
    return [len(header).to_bytes(_LENGTH_BYTES, "little"), header, *parts]


def traces_in(stored: KeptEntry, path: str, most_rows: int) -> list[Trace]:
    """The traces of a model, each with at most so many rows a table. Raises DamagedError;
    OSError."""
    try:
        length = int.from_bytes(stored.take(_LENGTH_BYTES), "little")
        header = _DECODER.decode(stored.take(min(length, _LONGEST_HEADER)))
        if stored.left != sum(_bytes_of(kept, most_rows) for kept in header) or not header:
            raise DamagedError("of another length than it says")
        traces = [_trace(kept, stored, path) for kept in header]
    except (ValueError, KeyError, msgspec.MsgspecError) as error:
        raise DamagedError(str(error)) from error
    stored.check()
    return traces


def _bytes_of(kept: Kept, most_rows: int) -> int:
    """The length of a trace's texts and columns."""
    if kept.text_bytes < 0 or any(not 0 <= kept.rows[name] <= most_rows for name in _TABLES):
        raise DamagedError("more rows than its recording can have")
    widths = {
        name: sum(form.width for form in kept.columns[name] if form.width > 0) for name in _TABLES
    }
    return kept.text_bytes + sum(kept.rows[name] * width for name, width in widths.items())


def _trace(kept: Kept, stored: KeptEntry, path: str) -> Trace:
    strings = _TEXTS.decode(stored.take(kept.text_bytes))
    tables: dict[str, Any] = {}
    for name, kind in _TABLES.items():
        rows = kept.rows[name]
        columns = {}
        for f, form in zip(fields(kind), kept.columns[name], strict=True):
            columns[f.name] = unpack(
                form, stored.take(rows * max(form.width, 0)), rows, f.metadata["dtype"]
            )
        tables[name] = kind.from_columns(columns, rows)
    bounds = {"thread": len(kept.threads), "collective": len(tables["collectives"])}
    for table in tables.values():
        _check_codes(table, len(strings), bounds)
    return Trace(
        path=path, strings=strings, **{name: getattr(kept, name) for name in _FACTS}, **tables
    )


def _check_codes(table: Table, texts: int, bounds: dict[str, int]) -> None:
    """Raises DamagedError for a code that stands for nothing, or rows out of order."""
    for f in fields(table):
        values = getattr(table, f.name)
        most = texts if f.metadata["text"] else bounds.get(f.name)
        if most is not None and len(values) and not -1 <= values.min() <= values.max() < most:
            raise DamagedError(f"{f.name} stands for nothing")
    start = getattr(table, "start", None)
    end = getattr(table, "end", None)
    if start is None:
        return
    if not is_sorted(start) or (end is not None and np.any(end < start)):
        raise DamagedError("times out of order")
