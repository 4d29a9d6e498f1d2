"""NVTX ranges of an nsys export: the user's phases and steps, PyTorch's operators, NCCL's calls."""

from itertools import compress
from typing import Any

import numpy as np

from traceanalyzer.ingest.columns import tight
from traceanalyzer.ingest.durations import Tally
from traceanalyzer.ingest.nsys.enums import NVTX_RANGES, NvtxEvent
from traceanalyzer.ingest.nsys.events import TIMES, UNKNOWN, Columns, Events, Strings, read_events, small, timed_rows
from traceanalyzer.ingest.nsys.nvtx_names import RangeNames, bare_name
from traceanalyzer.ingest.sqlite.database import MISSING, Database
from traceanalyzer.ingest.sqlite.pages import Part
from traceanalyzer.trace import I64, Bool, RangeKind, distinct

NVTX = "NVTX_EVENTS"


def nvtx_ranges(database: Database, strings: Strings, tally: Tally, *, with_rows: bool = False) -> Events:
    """Closed ranges that begin and end on one thread, with columns of `HostRanges`.

    A column `row` holds each range's rowid if `with_rows`, else -1.
    """
    names, kinds = RangeNames(strings), dict[int, tuple[int, int]]()

    def ranges(part: Part, own: Tally) -> Events:
        rows, texts, types = part.integers, part.texts, part.integers["eventType"]
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
        columns: Columns = {
            "name": code,
            "textId": small(np.where(code < 0, rows["textId"], -1)),
            "start": rows["start"],
            "end": rows["end"],
            "sequence": sequence,
            "shapes": shapes,
            "row": rows["rowid"] if with_rows else np.full(len(kept), -1, np.int64),
        }
        return Events.on_threads(rows["globalTid"], columns).take(kept)

    columns = {**TIMES, "globalTid": UNKNOWN, "endGlobalTid": MISSING, "textId": -1, "eventType": -1}
    if with_rows or database.is_plain(NVTX):
        columns["rowid"] = -1
    events = Events.concatenate(read_events(database, NVTX, columns, ranges, tally, text="text"))
    database.where_kinds = kinds if database.is_plain(NVTX) else None
    if tally.unclosed:
        tally.notes.append(f"{tally.unclosed} NVTX ranges were still open when the recording ended and are left out")
    name, ids = events.columns["name"], events.columns.pop("textId")
    if (name < 0).any():
        name = np.where(name >= 0, name, strings.of_ids(ids, "unnamed range", bare_name))
    operators = names.operators(name, events.columns["sequence"])
    kind = tight(np.where(operators, RangeKind.OP, RangeKind.ANNOTATION).astype(np.uint8))
    events.columns.update({"kind": kind, "name": name})
    return events


def of_kind(database: Database, kind: NvtxEvent) -> str:
    """SQL that chooses the events of a kind that is no range, without going through the whole table."""
    if database.where_kinds is None:
        return f"eventType = {kind:d}"
    low, high = database.where_kinds.get(kind, (0, -1))
    return f"rowid BETWEEN {low} AND {high} AND eventType = {kind:d}"


def _kept(rows: dict[str, I64], tally: Tally) -> Bool:
    """Which ranges have possible times, and an end on the thread they began on; the others are counted."""
    tid, end_tid = rows["globalTid"], rows["endGlobalTid"]
    crosses = (end_tid != MISSING) & (tid != UNKNOWN) & (end_tid != tid)
    closed: Bool = rows["end"] != MISSING
    tally.unclosed += int((~closed).sum())
    tally.lost += int((~closed).sum())
    tally.skipped += int((closed & crosses).sum())
    kept = closed & ~crosses
    rows["end"] = np.where(kept, rows["end"], rows["start"])
    return kept & timed_rows(rows, tally, zero_is_missing=False)


def named(database: Database, kind: NvtxEvent, *columns: str) -> list[tuple[Any, ...]]:
    """Of each event of a kind that names something the thread, these columns (0 where they are missing), the name."""
    wanted: dict[str, int | bytes | None] = {"globalTid": UNKNOWN, **dict.fromkeys(columns, 0), "textId": -1}
    rows = list(database.rows(NVTX, {**wanted, "text": None}, where=of_kind(database, kind)))
    registered = database.texts({row[-2] for row in rows})
    return [(*row[:-2], str(row[-1] or registered.get(row[-2], ""))) for row in rows]
