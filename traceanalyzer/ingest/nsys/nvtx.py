"""NVTX ranges of an nsys export: the user's phases and steps, PyTorch's operators, NCCL's calls;
and what they carry beside their names: the domain, the category, a payload."""

from functools import cache
from itertools import compress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.ingest.columns import by_value, tight
from traceanalyzer.ingest.durations import Tally
from traceanalyzer.ingest.nsys.enums import NVTX_RANGES, NvtxEvent
from traceanalyzer.ingest.nsys.events import (
    TIMES,
    UNKNOWN,
    ProcessEvents,
    Strings,
    process_of,
    read_events,
    small,
    timed_rows,
)
from traceanalyzer.ingest.nsys.nvtx_names import RangeNames, bare_name
from traceanalyzer.ingest.sqlite.database import MISSING, Database
from traceanalyzer.ingest.sqlite.pages import TablePart
from traceanalyzer.trace import I32, I64, Bool, RangeDetails, RangeKind, constant_column, distinct

NVTX = "NVTX_EVENTS"
PAYLOADS = (
    "uint64Value",
    "int64Value",
    "doubleValue",
    "uint32Value",
    "int32Value",
    "floatValue",
    "jsonText",
)
"""Columns of which a range has at most one."""
MOST_RANGES = 1_000_000
MOST_CHARACTERS = 200
MOST_PAYLOADS = 10_000
"""Distinct values that are kept; more are a number a call, which no table can show."""
_Wanted = dict[str, int | bytes | None]
_RANGE: _Wanted = {
    "start": MISSING,
    "end": MISSING,
    "globalTid": UNKNOWN,
    "textId": -1,
    "text": None,
}
_KIND: _Wanted = {"domainId": 0, "category": 0}  # 0 is the default domain, and no category


def nvtx_ranges(
    database: Database, strings: Strings, tally: Tally, *, with_rows: bool = False
) -> ProcessEvents:
    """Closed ranges that begin and end on one thread, with columns of `HostRanges`. A column `row`
    holds each range's rowid if `with_rows`, else -1."""
    reader = _Reader(RangeNames(strings), with_rows)
    columns = {
        **TIMES,
        "globalTid": UNKNOWN,
        "endGlobalTid": MISSING,
        "textId": -1,
        "eventType": -1,
    }
    if with_rows or database.is_plain(NVTX):
        columns["rowid"] = -1
    parts = read_events(database, NVTX, columns, reader.ranges, tally, text="text")
    events = ProcessEvents.concatenate(parts)
    database.where_kinds = reader.rows_of_kind if database.is_plain(NVTX) else None
    if tally.unclosed:
        tally.notes.append(
            f"{tally.unclosed} NVTX ranges were still open when the recording ended and "
            "are left out"
        )
    name = events.columns["name"]
    ids = events.columns.pop("textId")
    if (name < 0).any():
        name = np.where(name >= 0, name, strings.of_ids(ids, "unnamed range", bare_name))
    sequence = _with_engine(events, name, reader.names.inner_of(name))
    is_operator = reader.names.operators(name, sequence)
    # PyTorch tells nsys no threads: numbers of different ones, of which there are hardly several,
    # cannot be told apart
    of_backward = reader.names.of_backward(name, sequence)
    kind = tight(np.where(is_operator, RangeKind.OP, RangeKind.ANNOTATION).astype(np.uint8))
    forward_thread = tight(of_backward.astype(np.int32))
    events.columns.update(
        {"kind": kind, "name": name, "sequence": sequence, "forward_thread": forward_thread}
    )
    return events


def _with_engine(events: ProcessEvents, name: I32, inner: dict[int, int]) -> I64:
    """The sequence numbers, with those of the engine's ranges, which `emit_nvtx` leaves out: each
    has that of the node that it runs, the next range on its thread. `inner`: by the name code of
    such a range that of its node."""
    sequence: I64 = events.columns["sequence"]
    thread = events.thread
    if not inner or thread is None or len(name) < 2:
        return sequence
    start = events.columns["start"]
    order = np.lexsort((-events.columns["end"], start, thread, events.process))
    outer = order[:-1]
    node = order[1:]
    wanted = by_value(name[outer], lambda code: inner.get(code, -1))
    is_node = (wanted >= 0) & (wanted == name[node]) & (sequence[outer] < 0)
    is_node &= (thread[outer] == thread[node]) & (events.process[outer] == events.process[node])
    is_node &= start[node] <= events.columns["end"][outer]
    result = sequence.copy()
    result[outer[is_node]] = sequence[node[is_node]]
    return result


class _Reader:
    """Takes the ranges out of parts of the table, and notes where the rows of other kinds lie."""

    def __init__(self, names: RangeNames, with_rows: bool) -> None:
        self.names = names
        self.rows_of_kind: dict[int, tuple[int, int]] = {}  # first and last rowid by event type
        self._with_rows = with_rows

    def ranges(self, part: TablePart, tally: Tally) -> ProcessEvents:
        """The closed ranges of a part."""
        rows, texts = self._only_ranges(part, tally)
        code, sequence, shapes = self.names.of(texts)
        kept = _kept(rows, tally)
        columns: dict[str, NDArray[Any]] = {
            "name": code,
            "textId": small(np.where(code < 0, rows["textId"], -1)),
            "start": rows["start"],
            "end": rows["end"],
            "sequence": sequence,
            "shapes": shapes,
            "row": rows["rowid"] if self._with_rows else np.full(len(kept), -1, np.int64),
        }
        return ProcessEvents.on_threads(rows["globalTid"], columns).take(kept)

    def _only_ranges(self, part: TablePart, tally: Tally) -> tuple[dict[str, I64], list[bytes]]:
        """The rows of ranges and their texts; the others are marks, names, domains."""
        rows = part.integers
        types = rows["eventType"]
        is_range = np.isin(types, NVTX_RANGES)
        tally.skipped += int(((types != -1) & ~is_range).sum())
        if is_range.all():
            return rows, part.texts
        if "rowid" in rows:
            for kind in distinct(types[~is_range]).tolist():
                places = rows["rowid"][types == kind]
                ends = [*self.rows_of_kind.get(kind, ()), int(places.min()), int(places.max())]
                self.rows_of_kind[kind] = min(ends), max(ends)
        texts = list(compress(part.texts, is_range.tolist()))
        return {name: column[is_range] for name, column in rows.items()}, texts


def _kept(rows: dict[str, I64], tally: Tally) -> Bool:
    """Which ranges have possible times, and an end on the thread they began on; the others are
    counted."""
    tid = rows["globalTid"]
    end_tid = rows["endGlobalTid"]
    crosses = (end_tid != MISSING) & (tid != UNKNOWN) & (end_tid != tid)
    closed: Bool = rows["end"] != MISSING
    tally.unclosed += int((~closed).sum())
    tally.lost += int((~closed).sum())
    tally.skipped += int((closed & crosses).sum())
    kept = closed & ~crosses
    rows["end"] = np.where(kept, rows["end"], rows["start"])
    return kept & timed_rows(rows, tally, zero_is_missing=False)


def naming_events(database: Database, kind: NvtxEvent, *columns: str) -> list[tuple[Any, ...]]:
    """For each event of a kind that names something the thread, these columns (0 where they are
    missing), the name."""
    wanted: _Wanted = {"globalTid": UNKNOWN, **dict.fromkeys(columns, 0), "textId": -1}
    where = f"eventType = {kind:d}"
    if database.where_kinds is not None:  # without going through the whole table
        low, high = database.where_kinds.get(kind, (0, -1))
        where = f"rowid BETWEEN {low} AND {high} AND {where}"
    rows = list(database.rows(NVTX, {**wanted, "text": None}, where=where))
    registered = database.texts({row[-2] for row in rows})
    return [(*values, str(text or registered.get(text_id, ""))) for *values, text_id, text in rows]


def range_details(database: Database, strings: Strings) -> dict[int, RangeDetails]:
    """The closed ranges that have any of them, by process key."""
    payloads = [name for name in PAYLOADS if database.has(NVTX, name)]
    detailed = [f"{name} > 0" for name in _KIND if database.has(NVTX, name)]
    detailed += [f"{name} IS NOT NULL" for name in payloads]
    if not detailed:
        return {}
    where = (
        f"eventType IN {tuple(map(int, NVTX_RANGES))} AND "
        f"CAST(end AS INTEGER) >= CAST(start AS INTEGER) AND ({' OR '.join(detailed)})"
    )
    columns = _RANGE | _KIND | dict.fromkeys(payloads)
    rows = list(database.rows(NVTX, columns, where=where, limit=MOST_RANGES))
    return _by_process(database, strings, rows) if rows else {}


def _by_process(
    database: Database, strings: Strings, rows: list[tuple[Any, ...]]
) -> dict[int, RangeDetails]:
    """The details in these rows, by process key."""
    start, end, tids, text_ids, texts, domains, categories, *payloads = zip(*rows, strict=True)
    codes = _Codes(database, strings, set(text_ids))
    process = process_of(np.array(tids, np.int64))
    keys = process.tolist()
    columns: dict[str, NDArray[Any]] = {
        "start": np.array(start, np.int64),
        "end": np.array(end, np.int64),
        "name": np.fromiter(map(cache(codes.name), texts, text_ids), np.int32),
        "domain": np.fromiter(map(cache(codes.domain), keys, domains), np.int32),
        "category": np.fromiter(map(cache(codes.category), keys, domains, categories), np.int32),
        "payload": constant_column(-1, len(rows), np.int32),
    }
    if payloads:
        columns["payload"] = np.fromiter(map(codes.payload, *payloads), np.int32)
    return {
        int(key): RangeDetails.from_columns(
            {name: column[process == key] for name, column in columns.items()}
        )
        for key in distinct(process)
    }


class _Codes:
    """Codes of what ranges carry: names, domains, categories, payloads."""

    def __init__(self, database: Database, strings: Strings, text_ids: set[int]) -> None:
        self._strings = strings
        self._registered = database.texts(text_ids)
        self._domains = {
            (int(process_of(tid)), domain): name
            for tid, domain, _, name in naming_events(database, NvtxEvent.DOMAIN_CREATE, *_KIND)
        }
        self._categories = {
            (int(process_of(tid)), domain, category): name
            for tid, domain, category, name in naming_events(database, NvtxEvent.CATEGORY, *_KIND)
        }
        self._payloads: dict[str, int] = {}

    def name(self, text: object, text_id: int) -> int:
        """A range's own text, else the registered one; -1 without."""
        name = bare_name(str(text) if text is not None else self._registered.get(text_id, ""))
        return self._strings.code(name) if name else -1

    def domain(self, process: int, domain: int) -> int:
        """A domain's name, else its number; -1 for the default one."""
        return self._named(self._domains.get((process, domain)), domain)

    def category(self, process: int, domain: int, category: int) -> int:
        """A category's name, else its number; -1 for none."""
        return self._named(self._categories.get((process, domain, category)), category)

    def _named(self, name: str | None, number: int) -> int:
        return self._strings.code(name or f"#{number}") if number else -1

    def payload(self, *values: object) -> int:
        """The first value that there is, as text; -1 without one, or where too many differ."""
        value = next((value for value in values if value is not None), None)
        if value is None:
            return -1
        text = str(value)[:MOST_CHARACTERS]
        if text not in self._payloads and len(self._payloads) < MOST_PAYLOADS:
            self._payloads[text] = self._strings.code(text)
        return self._payloads.get(text, -1)
