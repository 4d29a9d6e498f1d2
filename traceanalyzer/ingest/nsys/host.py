"""The host's side of an nsys export: CUDA calls, waits, overheads, library and operating-system
calls."""

import re

import numpy as np

from traceanalyzer.base import regex
from traceanalyzer.ingest.columns import by_value
from traceanalyzer.ingest.durations import Tally
from traceanalyzer.ingest.nsys.enums import EVENT_SYNC_TYPES, INVALID_ID, OTHER_OVERHEAD, OVERHEADS
from traceanalyzer.ingest.nsys.events import (
    TIMES,
    ProcessEvents,
    Strings,
    ids,
    process_of,
    read_events,
    small,
    timed_rows,
)
from traceanalyzer.ingest.nsys.processes import Owners
from traceanalyzer.ingest.sqlite.database import Database
from traceanalyzer.ingest.sqlite.pages import TablePart
from traceanalyzer.trace import (
    I32,
    I64,
    ApiCalls,
    Bool,
    RangeKind,
    WaitKind,
    constant_column,
    distinct,
)

RUNTIME = "CUPTI_ACTIVITY_KIND_RUNTIME"
_VERSION = regex(r"_v\d{4,5}$")
"""Version of a runtime entry point; the `_v2` of a driver function is part of its name."""
_PATH = regex(
    r"(?<![^\s(])[^\s(]*[/\\]"
)  # leading folders of a file name, as in `dlopen(/opt/lib/libx.so)`
_WAITS_BY_NAME: tuple[tuple[re.Pattern[str], WaitKind | None], ...] = (
    (regex(r"StreamWaitEvent"), WaitKind.STREAM_WAIT_EVENT),
    (regex(r"StreamSynchronize"), WaitKind.STREAM_SYNC),
    (regex(r"EventSynchronize"), WaitKind.EVENT_SYNC),
    (regex(r"(Device|Ctx|Thread)Synchronize"), WaitKind.CONTEXT_SYNC),
    (regex(r"Query"), None),  # asks and goes on: nobody waits
)


_NO_CALL = -1  # the wait's call was not recorded, or has a name that does not tell the kind of wait


def api_calls(database: Database, strings: Strings, tally: Tally) -> ProcessEvents:
    """Runtime and driver calls, with the columns of `ApiCalls`."""

    return _calls(database, strings, tally, RUNTIME, None)


def call_ranges(
    database: Database, strings: Strings, tally: Tally
) -> tuple[ProcessEvents, ProcessEvents]:
    """Library calls (cuBLAS, cuDNN) and operating-system calls, with columns of `HostRanges`."""
    tables = ("CUBLAS_EVENTS", "CUDNN_EVENTS")
    library = [_calls(database, strings, tally, table, RangeKind.LIBRARY) for table in tables]
    return ProcessEvents.concatenate(library), _calls(
        database, strings, tally, "OSRT_API", RangeKind.OS
    )


def _calls(
    database: Database, strings: Strings, tally: Tally, table: str, kind: RangeKind | None
) -> ProcessEvents:
    """A table of calls: ranges of a kind, or (None) with what `ApiCalls` has."""

    def calls(part: TablePart, own: Tally) -> ProcessEvents:
        rows = part.integers
        timed = timed_rows(rows, own, zero_is_missing=False)
        columns = {"name": small(rows["nameId"]), "start": rows["start"], "end": rows["end"]}
        if kind is None:
            correlation = np.where(rows["correlationId"] > 0, rows["correlationId"], -1)
            columns |= ApiCalls.fitting({"correlation": correlation, "error": rows["returnValue"]})
        else:
            columns["kind"] = constant_column(kind, len(timed), np.uint8)
        events = ProcessEvents.on_threads(rows["globalTid"], columns)
        return events if timed.all() else events.take(timed)

    columns = {**TIMES, "globalTid": -1, "nameId": -1}
    if kind is None:
        columns |= {"correlationId": -1, "returnValue": 0}
    events = ProcessEvents.concatenate(read_events(database, table, columns, calls, tally))
    events.columns["name"] = strings.of_ids(
        events.columns["name"], "unnamed call", lambda name: _VERSION.sub("", name)
    )
    return events


def overheads(database: Database, strings: Strings, tally: Tally) -> ProcessEvents:
    """Costs of the profiler and of the driver, with the columns of `Overheads`."""
    found = []
    for table in ("CUPTI_ACTIVITY_KIND_OVERHEAD", "PROFILER_OVERHEAD"):
        rows = database.integers(
            table, {**TIMES, "globalTid": -1, "nameId": -1, "overheadType": -1}
        )
        timed = timed_rows(rows, tally, zero_is_missing=False)
        types = rows["overheadType"]
        by_type = by_value(
            types, lambda kind: strings.code(OVERHEADS.get(kind, OTHER_OVERHEAD)[0]), np.int32
        )
        named = strings.of_ids(rows["nameId"], OTHER_OVERHEAD[0], lambda name: _PATH.sub("", name))
        columns = {
            "kind": by_value(types, lambda kind: OVERHEADS.get(kind, OTHER_OVERHEAD)[1], np.uint8),
            "name": np.where(rows["nameId"] >= 0, named, by_type),
            "start": rows["start"],
            "end": rows["end"],
        }
        found.append(ProcessEvents.on_threads(rows["globalTid"], columns).take(timed))
    return ProcessEvents.concatenate(found)


def waits(
    database: Database,
    strings: Strings,
    tally: Tally,
    calls: ProcessEvents,
    owners: Owners,
    schema: tuple[int, int],
) -> ProcessEvents:
    """Recorded synchronisation, with the columns of `Waits`; `event` and `source_stream` where
    recorded. The kind is that of the call with the same (process, correlation): the numbers in
    `syncType` changed their meaning three times. They are a last resort, after the shape of the
    row."""
    wanted = (
        "deviceId",
        "contextId",
        "streamId",
        "correlationId",
        "globalPid",
        "syncType",
        "eventId",
    )
    rows = database.integers(
        "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", TIMES | dict.fromkeys(wanted, -1)
    )
    timed = timed_rows(rows, tally, zero_is_missing=True)
    process = owners.fill(process_of(rows["globalPid"]), rows["contextId"], rows["streamId"])
    by_name = _wait_kinds_by_name(strings)[_call_names(process, rows["correlationId"], calls)]
    kind = np.where(by_name == _NO_CALL, _wait_kinds_by_shape(rows, schema), by_name)
    waiting = timed & (kind > 0)
    tally.skipped += int((timed & ~waiting).sum())
    source, record = _records(database, owners, process, rows, kind)
    columns = {
        "kind": kind,
        "start": rows["start"],
        "end": rows["end"],
        "device": owners.devices(process, rows["contextId"], ids(rows["deviceId"])),
        "context": ids(rows["contextId"]),
        "stream": ids(rows["streamId"]),
        "correlation": rows["correlationId"],
        "event": ids(rows["eventId"]),
        "source_stream": source,
        "record": record,
    }
    return ProcessEvents(process, columns).take(waiting)


def _wait_kinds_by_name(strings: Strings) -> I64:
    """By name code the `WaitKind` of a call, 0 for one that waits for nothing; the last entry is
    `_NO_CALL`."""
    kinds = np.full(len(strings.values) + 1, _NO_CALL, np.int64)
    for code, name in enumerate(strings.values):
        if name.startswith(("cu", "hip")):
            kinds[code] = next(
                (kind or 0 for pattern, kind in _WAITS_BY_NAME if pattern.search(name)), _NO_CALL
            )
    return kinds


def _call_names(process: I64, correlation: I64, calls: ProcessEvents) -> I32:
    """Name code of the call with the same process and correlation, -1 where none was recorded."""
    names = np.full(len(process), -1, np.int32)
    for key in distinct(process).tolist():
        of_calls = np.flatnonzero(calls.process == key)
        wanted = np.flatnonzero((process == key) & (correlation > 0))
        if not len(of_calls) or not len(wanted):
            continue
        order = of_calls
        known = calls.columns["correlation"][of_calls]
        if (known[1:] < known[:-1]).any():
            by_id = np.argsort(known, kind="stable")
            order = of_calls[by_id]
            known = known[by_id]
        position = np.minimum(np.searchsorted(known, correlation[wanted]), len(known) - 1)
        found = known[position] == correlation[wanted]
        names[wanted[found]] = calls.columns["name"][order[position[found]]]
    return names


def _wait_kinds_by_shape(rows: dict[str, I64], schema: tuple[int, int]) -> I64:
    """`WaitKind` from which ids a row has, and from `syncType` where it has an event, else 0."""
    types = next(meanings for since, meanings in EVENT_SYNC_TYPES if schema >= since)
    by_type = by_value(rows["syncType"], lambda value: types.get(value, 0))
    no_event = (rows["eventId"] == INVALID_ID) | (rows["eventId"] < 0)
    no_stream = rows["streamId"] == INVALID_ID
    kind = np.where(no_event & ~no_stream, WaitKind.STREAM_SYNC, by_type)
    return np.where(no_event & no_stream, WaitKind.CONTEXT_SYNC, kind)


def _records(
    database: Database, owners: Owners, process: I64, rows: dict[str, I64], kind: I64
) -> tuple[I64, I64]:
    """The stream on which a waited-for event was last recorded before the wait, and the correlation
    id of that call (they grow with time within a process, so it is the largest below that of the
    wait); -1 where not recorded."""
    source, record = np.full((2, len(process)), -1, np.int64)
    columns = {"streamId": -1, "correlationId": -1, "eventId": -1, "contextId": -1, "globalPid": -1}
    records = database.integers("CUPTI_ACTIVITY_KIND_CUDA_EVENT", columns)
    recorder = owners.fill(
        process_of(records["globalPid"]), records["contextId"], records["streamId"]
    )
    needs: Bool = (kind == WaitKind.STREAM_WAIT_EVENT) | (kind == WaitKind.EVENT_SYNC)
    for key in distinct(recorder).tolist():
        waits = np.flatnonzero(needs & (process == key) & (rows["eventId"] >= 0))
        recorded = np.flatnonzero(recorder == key)
        order = recorded[
            np.lexsort((records["correlationId"][recorded], records["eventId"][recorded]))
        ]
        # both 32-bit ids as one sortable number
        known = (records["eventId"][order] << 32) | records["correlationId"][order]
        position = (
            np.searchsorted(known, (rows["eventId"][waits] << 32) | rows["correlationId"][waits])
            - 1
        )
        same = (position >= 0) & (records["eventId"][order[position]] == rows["eventId"][waits])
        source[waits[same]] = ids(records["streamId"])[order[position[same]]]
        record[waits[same]] = records["correlationId"][order[position[same]]]
    return source, record
