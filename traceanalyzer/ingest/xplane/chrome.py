"""`trace.json.gz` of JAX: the same events as Chrome's, less exact; all stats are text, and the last
event is empty."""

from collections import defaultdict
from typing import Any

import msgspec
import numpy as np

from traceanalyzer.ingest.columns import StringCodes
from traceanalyzer.ingest.kineto.times import MAX_DURATION_US, to_ns
from traceanalyzer.ingest.xplane.space import STATS, TEXTS, Columns, Plane, Space, XLine


class _Event(msgspec.Struct, gc=False):
    ph: str = ""
    name: str = ""
    pid: int = -1
    tid: int = -1
    ts: float = 0.0
    dur: float = 0.0
    args: dict[str, Any] | None = None


class _File(msgspec.Struct):
    events: list[_Event] = msgspec.field(name="traceEvents")


_DECODER = msgspec.json.Decoder(_File, strict=False)


def read_chrome(text: bytes, texts: StringCodes) -> Space:
    """The recording in the text. Raises msgspec.DecodeError, UnicodeDecodeError and
    RecursionError."""
    names: dict[tuple[object, ...], str] = {}
    spans: dict[tuple[int, int], list[_Event]] = defaultdict(list)
    lost = skipped = 0
    for event in _DECODER.decode(text).events:
        if event.ph == "M":
            name = str((event.args or {}).get("name", ""))
            names[event.name, event.pid] = names[event.name, event.pid, event.tid] = name
        elif event.ph != "X":
            if event.ph:
                skipped += 1
        elif abs(event.ts) < MAX_DURATION_US and 0 <= event.dur < MAX_DURATION_US:
            spans[event.pid, event.tid].append(event)
        else:
            lost += 1
    lines: dict[int, list[XLine]] = defaultdict(list)
    for (pid, tid), events in spans.items():
        name = names.get(("thread_name", pid, tid), "")
        lines[pid].append(XLine(tid, name, _columns(events, texts)))
    plane_names = {pid: names.get(("process_name", pid), "") for pid in lines}
    found = tuple(Plane(plane_names[pid], tuple(some)) for pid, some in lines.items())
    return Space(found, lost=lost, skipped=skipped)


def _columns(events: list[_Event], texts: StringCodes) -> Columns:
    start = to_ns(np.array([event.ts for event in events]))
    args = [event.args or {} for event in events]
    found = {name: [_stat(name, one.get(name), texts) for one in args] for name in STATS}
    stats = {name: np.array(column, np.int64) for name, column in found.items()}
    return {
        "name": np.array(texts.codes([event.name for event in events]), np.int64),
        "start": start,
        "end": start + to_ns(np.array([event.dur for event in events])),
        **stats,
    }


def _stat(name: str, value: Any, texts: StringCodes) -> int:
    if value is None:
        return -1
    if name in TEXTS:
        return texts.code(str(value))
    try:
        number = int(str(value)[:20])
    except ValueError:
        return -1
    return number if -(2**63) <= number < 2**63 else -1
