"""NVTX ranges of an nsys export: the user's phases and steps, PyTorch's operators, NCCL's calls;
and what they carry beside their names: the domain, the category, a payload."""

from functools import cache
from itertools import compress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.ingest.columns import tight
from traceanalyzer.ingest.durations import Tally
from traceanalyzer.ingest.nsys.enums import NVTX_RANGES, NvtxEvent
from traceanalyzer.ingest.nsys.events import (
    TIMES,
    UNKNOWN,
    Events,
    Strings,
    process_of,
    read_events,
    small,
    timed_rows,
)
from traceanalyzer.ingest.nsys.nvtx_names import RangeNames, bare_name
from traceanalyzer.ingest.sqlite.database import MISSING, Database
from traceanalyzer.ingest.sqlite.pages import Part
from traceanalyzer.trace import I64, Bool, RangeDetails, RangeKind, alike, distinct

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
) -> Events:
    """Closed ranges that begin and end on one thread, with columns of `HostRanges`. A column `row`
    holds each range's rowid if `with_rows`, else -1."""
    names = RangeNames(strings)
    kinds = dict[int, tuple[int, int]]()

    def ranges(part: Part, own: Tally) -> Events:
        rows = part.integers
        texts = part.texts
        types = part.integers["eventType"]
        is_range = np.isin(types, NVTX_RANGES)  # the others are marks, names, domains
        own.skipped += int(((types != -1) & ~is_range).sum())
        if not is_range.all():
            for kind in distinct(types[~is_range]).tolist() if "rowid" in rows else ():
                places = rows["rowid"][types == kind]
                ends = [*kinds.get(kind, ()), int(places.min()), int(places.max())]
                kinds[kind] = min(ends), max(ends)
            texts = list(compress(texts, is_range.tolist()))
            rows = {name: column[is_range] for name, column in rows.items()}
        code, sequence, shapes = names.of(texts)
        kept = _kept(rows, own)
        columns: dict[str, NDArray[Any]] = {
            "name": code,
            "textId": small(np.where(code < 0, rows["textId"], -1)),
            "start": rows["start"],
            "end": rows["end"],
            "sequence": sequence,
            "shapes": shapes,
            "row": rows["rowid"] if with_rows else np.full(len(kept), -1, np.int64),
        }
        return Events.on_threads(rows["globalTid"], columns).take(kept)

    columns = {
        **TIMES,
        "globalTid": UNKNOWN,
        "endGlobalTid": MISSING,
        "textId": -1,
        "eventType": -1,
    }
    if with_rows or database.is_plain(NVTX):
        columns["rowid"] = -1
    events = Events.concatenate(read_events(database, NVTX, columns, ranges, tally, text="text"))
    database.where_kinds = kinds if database.is_plain(NVTX) else None
    if tally.unclosed:
        tally.notes.append(
            f"{tally.unclosed} NVTX ranges were still open when the recording ended and "
            "are left out"
        )
    name = events.columns["name"]
    ids = events.columns.pop("textId")
    if (name < 0).any():
        name = np.where(name >= 0, name, strings.of_ids(ids, "unnamed range", bare_name))
    operators = names.operators(name, events.columns["sequence"])
    kind = tight(np.where(operators, RangeKind.OP, RangeKind.ANNOTATION).astype(np.uint8))
    events.columns.update({"kind": kind, "name": name})
    return events


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


def named(database: Database, kind: NvtxEvent, *columns: str) -> list[tuple[Any, ...]]:
    """For each event of a kind that names something the thread, these columns (0 where they are
    missing), the name."""
    wanted: _Wanted = {"globalTid": UNKNOWN, **dict.fromkeys(columns, 0), "textId": -1}
    where = f"eventType = {kind:d}"
    if database.where_kinds is not None:  # without going through the whole table
        low, high = database.where_kinds.get(kind, (0, -1))
        where = f"rowid BETWEEN {low} AND {high} AND {where}"
    rows = list(database.rows(NVTX, {**wanted, "text": None}, where=where))
    registered = database.texts({row[-2] for row in rows})
    return [(*row[:-2], str(row[-1] or registered.get(row[-2], ""))) for row in rows]


def range_details(database: Database, strings: Strings) -> dict[int, RangeDetails]:
    """The closed ranges that have any of them, by process key."""
    payloads = [name for name in PAYLOADS if database.has(NVTX, name)]
    detailed = [f"{name} > 0" for name in _KIND if database.has(NVTX, name)]
    detailed += [f"{name} IS NOT NULL" for name in payloads]
    if not detailed:
        return {}
    where = (
        f"eventType IN {tuple(map(int, NVTX_RANGES))} AND end >= start AND "
        f"({' OR '.join(detailed)})"
    )
    columns = _RANGE | _KIND | dict.fromkeys(payloads)
    rows = list(database.rows(NVTX, columns, where=where, limit=MOST_RANGES))
    return _by_process(database, strings, rows) if rows else {}


def _by_process(
    database: Database, strings: Strings, rows: list[tuple[Any, ...]]
) -> dict[int, RangeDetails]:
    """The details in these rows, by process key."""
    domains = {
        (int(process_of(i)), at): name
        for i, at, _, name in named(database, NvtxEvent.DOMAIN_CREATE, *_KIND)
    }
    categories = {
        (int(process_of(i)), *at): name
        for i, *at, name in named(database, NvtxEvent.CATEGORY, *_KIND)
    }
    registered = database.texts({row[3] for row in rows})
    start, end, tids, text_ids, texts, in_domain, in_category, *values = zip(*rows, strict=True)
    process = process_of(np.array(tids, np.int64))
    keys = process.tolist()

    def name_of(text: object, text_id: int) -> int:
        name = bare_name(str(text) if text is not None else registered.get(text_id, ""))
        return strings.code(name) if name else -1

    def domain_of(key: int, domain: int) -> int:
        return _code(strings, domains.get((key, domain)), domain)

    def category_of(key: int, domain: int, category: int) -> int:
        return _code(strings, categories.get((key, domain, category)), category)

    known: dict[str, int] = {}
    columns: dict[str, NDArray[Any]] = {
        "start": np.array(start, np.int64),
        "end": np.array(end, np.int64),
        "name": np.fromiter(map(cache(name_of), texts, text_ids), np.int32),
        "domain": np.fromiter(map(cache(domain_of), keys, in_domain), np.int32),
        "category": np.fromiter(map(cache(category_of), keys, in_domain, in_category), np.int32),
        "payload": np.fromiter(
            (_payload(strings, known, row) for row in zip(*values, strict=True)), np.int32
        )
        if values
        else alike(-1, len(rows), np.int32),
    }
    return {
        int(key): RangeDetails.from_columns(
            {name: column[process == key] for name, column in columns.items()}
        )
        for key in distinct(process)
    }


def _code(strings: Strings, name: str | None, number: int) -> int:
    """Code of the name, of the number where it has none; -1 for the default."""
    return strings.code(name or f"#{number}") if number else -1


def _payload(strings: Strings, known: dict[str, int], values: tuple[object, ...]) -> int:
    value = next((one for one in values if one is not None), None)
    if value is None:
        return -1
    text = str(value)[:MOST_CHARACTERS]
    if text not in known and len(known) < MOST_PAYLOADS:
        known[text] = strings.code(text)
    return known.get(text, -1)
