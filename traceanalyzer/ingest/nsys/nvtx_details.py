"""What NVTX ranges carry beside their names: the domain, the category, a payload."""

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.ingest.nsys.enums import NVTX_RANGES, NvtxEvent
from traceanalyzer.ingest.nsys.events import UNKNOWN, Strings, process_of
from traceanalyzer.ingest.nsys.nvtx import NVTX, named
from traceanalyzer.ingest.nsys.nvtx_names import bare_name
from traceanalyzer.ingest.sqlite.database import MISSING, Database
from traceanalyzer.trace import RangeDetails, alike, distinct

PAYLOADS = ("uint64Value", "int64Value", "doubleValue", "uint32Value", "int32Value", "floatValue", "jsonText")
"""Columns of which a range has at most one."""
MOST_RANGES = 1_000_000
MOST_PAYLOADS = 10_000
"""Distinct values that are kept; more are a number a call, which no table can show."""
MOST_CHARACTERS = 200
Columns = dict[str, int | bytes | None]

_RANGE: Columns = {"start": MISSING, "end": MISSING, "globalTid": UNKNOWN, "textId": -1, "text": None}
_KIND: Columns = {"domainId": 0, "category": 0}  # 0 is the default domain, and no category


def range_details(database: Database, strings: Strings) -> dict[int, RangeDetails]:
    """The closed ranges that have any of them, by process key."""
    payloads = [name for name in PAYLOADS if database.has(NVTX, name)]
    detailed = [f"{name} > 0" for name in _KIND if database.has(NVTX, name)]
    detailed += [f"{name} IS NOT NULL" for name in payloads]
    if not detailed:
        return {}
    where = f"eventType IN {tuple(map(int, NVTX_RANGES))} AND end >= start AND ({' OR '.join(detailed)})"
    columns = _RANGE | _KIND | dict.fromkeys(payloads)
    rows = list(database.rows(NVTX, columns, where=where, limit=MOST_RANGES))
    return _by_process(database, strings, rows) if rows else {}


def _by_process(database: Database, strings: Strings, rows: list[tuple[Any, ...]]) -> dict[int, RangeDetails]:
    """The details in these rows, by process key."""
    domains = {(int(process_of(i)), at): name for i, at, _, name in named(database, NvtxEvent.DOMAIN_CREATE, *_KIND)}
    categories = {(int(process_of(i)), *at): name for i, *at, name in named(database, NvtxEvent.CATEGORY, *_KIND)}
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
        "payload": np.fromiter((_payload(strings, known, row) for row in zip(*values, strict=True)), np.int32)
        if values
        else alike(-1, len(rows), np.int32),
    }
    return {
        int(key): RangeDetails.from_columns({name: column[process == key] for name, column in columns.items()})
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
