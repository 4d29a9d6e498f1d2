"""Kineto chrome traces: torch.profiler's output of every era and vendor, in bounded memory whatever their size."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceanalyzer.errors import EmptyRecordingError, UnreadableInputError
from traceanalyzer.ingest.kineto.chunks import BYTE_ORDER_MARK, KinetoFile
from traceanalyzer.ingest.kineto.parallel import read_in_parallel
from traceanalyzer.ingest.kineto.rows import Rows
from traceanalyzer.ingest.kineto.trace import make_trace
from traceanalyzer.ingest.stream import open_stream

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from traceanalyzer.trace import Trace

_EVENT_KEYS = (b'"ph"', b'"ts"', b'"traceEvents"')
_OBJECT_KEYS = (b'"schemaVersion"', b'"deviceProperties"', b'"distributedInfo"', b'"baseTimeNanoseconds"', *_EVENT_KEYS)


def recognise(head: bytes, path: Path) -> bool:
    """Whether the text is a chrome trace. `head`: the first bytes of the decompressed file."""
    start = head.removeprefix(BYTE_ORDER_MARK).lstrip(b" \t\r\n")
    keys = {b"{": _OBJECT_KEYS, b"[": _EVENT_KEYS}.get(start[:1], ())
    return any(key in start for key in keys) or start.rstrip() == b"[]"


def read(path: Path, progress: Callable[[float], None] | None = None) -> list[Trace]:
    """The trace in the file. `progress` is called with the share done, 0 to 1.

    Raises UnreadableInputError, EmptyRecordingError.
    """
    file, rows, damage = _read(path, progress)
    if not file.arrays:
        why = damage or "it has no `traceEvents`"
        raise UnreadableInputError(f"{path}: not a readable Kineto trace: {why}; export it again")
    if not rows.kept:
        raise _nothing(path, file, rows)
    return [make_trace(path, file, rows, damage)]


def _read(path: Path, progress: Callable[[float], None] | None) -> tuple[KinetoFile, Rows, str]:
    """The file's rows, and why it ended early, if it did."""
    found = read_in_parallel(path, progress)
    if found is not None:
        return *found, ""
    file, rows = KinetoFile(), Rows()
    with open_stream(path, progress) as stream:
        for chunk in file.events(stream):
            rows.add(chunk)
    return file, rows, stream.damage


def _nothing(path: Path, file: KinetoFile, rows: Rows) -> Exception:
    """Why there is no trace to be made of the file."""
    if rows.lost or file.truncated:
        return UnreadableInputError(f"{path}: too damaged or cut off: not one event could be read; export it again")
    return EmptyRecordingError(
        f"{path}: the trace holds no operators, API calls or device work; "
        "record some steps with ProfilerActivity.CPU and ProfilerActivity.CUDA"
    )
