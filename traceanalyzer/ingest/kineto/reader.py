"""Kineto chrome traces: torch.profiler's output of every era and vendor, in bounded memory whatever
their size."""

from collections.abc import Callable
from pathlib import Path

from traceanalyzer.base import EmptyRecordingError, UnreadableInputError, regex
from traceanalyzer.ingest.kineto.chunks import BYTE_ORDER_MARK, KinetoFile
from traceanalyzer.ingest.kineto.merged import ranks_apart
from traceanalyzer.ingest.kineto.parallel import read_in_parallel
from traceanalyzer.ingest.kineto.repeating import LEAST_REPEATING_BYTES, RepeatingEvents
from traceanalyzer.ingest.kineto.rows import KinetoRows
from traceanalyzer.ingest.kineto.trace import MergedRanksError, kineto_trace, unread
from traceanalyzer.ingest.stream import open_stream, text_bytes
from traceanalyzer.trace import Trace

_EVENT_KEYS = (b'"ph"', b'"ts"', b'"traceEvents"')
"""Of a list of events; an object with `ts` alone is a line of any log."""
_OBJECT_KEYS = (
    b'"schemaVersion"',
    b'"deviceProperties"',
    b'"distributedInfo"',
    b'"baseTimeNanoseconds"',
    b'"ph"',
    b'"traceEvents"',
)
_OF_OTHERS = (
    b'"/host:CPU',
    b'"/device:GPU:',
    b'"/device:TPU:',
    b'"gpu_op"',
    b"HOST<",
    b"Flow_H2D_",
    b"[measure in clock cycle",
    b'"BeginNs"',
)
"""Processes of JAX's JSON; and in the Chrome traces of unitrace, in those of Proton that count
cycles, and in rocprof's."""
_PREFIX = regex(rb"\[[^{\[\]]*\]\s*[^\s,]")
"""The beginning of a log's line (`[rank0]: ...`), which no list has."""


def recognise(head: bytes, path: Path) -> bool:
    """Whether the text is a chrome trace. `head`: the first bytes of the decompressed file."""
    start = head.removeprefix(BYTE_ORDER_MARK).lstrip(b" \t\r\n")
    if any(mark in start for mark in _OF_OTHERS):
        return False
    if start.startswith(b"[") and b"dynamo_timed" in start:  # stages of torch.compile
        return False
    if start.startswith(b"[") and (b'"children"' in start or _PREFIX.match(start)):
        return False
    if start.startswith(b"{"):
        return any(key in start for key in _OBJECT_KEYS)
    if start.startswith(b"["):
        return any(key in start for key in _EVENT_KEYS) or start.rstrip() == b"[]"
    return False


def read(path: Path, progress: Callable[[float], None] | None = None) -> list[Trace]:
    """The trace in the file, or that of each rank where several were merged into it. `progress` is
    called with the share done, 0 to 1. Raises UnreadableInputError, EmptyRecordingError."""
    damage = ""
    found = read_in_parallel(path, progress)
    file, rows = found or (KinetoFile(), KinetoRows())
    if found is None:
        events = RepeatingEvents(rows, is_worthwhile=text_bytes(path) >= LEAST_REPEATING_BYTES)
        with open_stream(path, progress) as stream:
            for chunk in file.rest(stream, file.begin(stream), events.decode):
                events.add(chunk)
        events.flush()
        damage = stream.damage
    if not file.arrays:
        why = damage or "it has no `traceEvents`"
        raise UnreadableInputError(f"{path}: not a readable Kineto trace: {why}; export it again")
    try:
        trace = kineto_trace(path, file, rows, damage) if rows.kept else None
    except MergedRanksError:
        ranks = ranks_apart(path, file, damage)
        if not ranks:
            raise
        return ranks
    if trace is not None and (trace.health.events or not trace.health.lost):
        return [trace]
    if trace is not None or rows.lost or file.truncated:
        raise UnreadableInputError(
            f"{path}: too damaged or cut off: not one event could be read; export it again"
        )
    others = unread(rows)
    held = f"; {others[0].rstrip('.')}" if others else ""
    raise EmptyRecordingError(
        f"{path}: the trace holds no operators, API calls or device work; "
        f"record some steps with ProfilerActivity.CPU and ProfilerActivity.CUDA{held}"
    )
