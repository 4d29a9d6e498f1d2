"""What NVTX ranges carry beside their names: the domain, the category, a payload."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from traceanalyzer.ingest.nsys.database import MISSING
from traceanalyzer.ingest.nsys.enums import NVTX_RANGES, NvtxEvent
from traceanalyzer.ingest.nsys.events import UNKNOWN, process_of
from traceanalyzer.ingest.nsys.nvtx import NVTX, bare_name
from traceanalyzer.trace import RangeDetails

if TYPE_CHECKING:
    from traceanalyzer.ingest.nsys.database import Database
    from traceanalyzer.ingest.nsys.events import Strings

PAYLOADS = ("uint64Value", "int64Value", "doubleValue", "uint32Value", "int32Value", "floatValue", "jsonText")
"""Columns of which a range has at most one."""
MOST_RANGES = 1_000_000
MOST_PAYLOADS = 10_000
"""Distinct values that are kept; more are a number a call, which no table can show."""
MOST_CHARACTERS = 200
Names = dict[tuple[int, int, int], str]
Columns = dict[str, int | bytes | None]

_RANGE: Columns = {"start": MISSING, "end": MISSING, "globalTid": UNKNOWN, "textId": -1, "text": None}
_KIND: Columns = {"domainId": 0, "category": 0}
"""0 is the default domain, and no category."""


def range_details(database: Database, strings: Strings) -> dict[int, RangeDetails]:
    """The closed ranges that have any of them, by process key."""
    payloads = [name for name in PAYLOADS if database.has(NVTX, name)]
    told = [
        *(f"{name} > 0" for name in _KIND if database.has(NVTX, name)),
        *(f"{name} IS NOT NULL" for name in payloads),
    ]
    if not told:
        return {}
    kinds = ", ".join(str(int(kind)) for kind in NVTX_RANGES)
    where = f"eventType IN ({kinds}) AND end >= start AND ({' OR '.join(told)})"
    columns = _RANGE | _KIND | dict.fromkeys(payloads)
    rows = list(database.rows(NVTX, columns, where=where, limit=MOST_RANGES))
    domains, categories = _names(database, NvtxEvent.DOMAIN_CREATE), _names(database, NvtxEvent.CATEGORY)
    registered = database.texts({row[3] for row in rows if row[3] >= 0})
    keys = process_of(np.array([row[2] for row in rows], np.int64)).tolist()
    values: dict[str, int] = {}
    found: dict[int, list[dict[str, int]]] = {}
    for key, (start, end, _, text_id, text, domain, category, *payload) in zip(keys, rows, strict=True):
        name = bare_name(str(text) if text is not None else registered.get(text_id, ""))
        told_of = {
            "start": start,
            "end": end,
            "name": strings.code(name) if name else -1,
            "domain": _code(strings, domains.get((key, domain, 0)), domain),
            "category": _code(strings, categories.get((key, domain, category)), category),
            "payload": _payload(strings, values, payload),
        }
        found.setdefault(key, []).append(told_of)
    return {key: RangeDetails.from_columns({c: [row[c] for row in of] for c in of[0]}) for key, of in found.items()}


def _names(database: Database, event: NvtxEvent) -> Names:
    """Names of domains or categories, by process key, domain and (of categories) number."""
    rows = list(
        database.rows(NVTX, {"globalTid": UNKNOWN, **_KIND, "textId": -1, "text": None}, where=f"eventType = {event:d}")
    )
    registered = database.texts({row[3] for row in rows if row[3] >= 0})
    keys = process_of(np.array([row[0] for row in rows], np.int64)).tolist()
    is_category = event is NvtxEvent.CATEGORY
    return {
        (key, domain, category if is_category else 0): str(text if text is not None else registered.get(text_id, ""))
        for key, (_, domain, category, text_id, text) in zip(keys, rows, strict=True)
    }


def _code(strings: Strings, name: str | None, number: int) -> int:
    """Code of the name, of the number where it has none; -1 for the default."""
    return strings.code(name or f"#{number}") if number else -1


def _payload(strings: Strings, known: dict[str, int], values: list[object]) -> int:
    value = next((one for one in values if one is not None), None)
    if value is None:
        return -1
    text = str(value)[:MOST_CHARACTERS]
    if text not in known and len(known) < MOST_PAYLOADS:
        known[text] = strings.code(text)
    return known.get(text, -1)
