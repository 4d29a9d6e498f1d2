"""The table that the nccl-tests print (rccl-tests, too): time and bandwidth by size."""

import re
from pathlib import Path

from traceanalyzer.base import counted, dataclass, digits, regex
from traceanalyzer.ingest.texts.figures import sized
from traceanalyzer.trace import PastedText

_HEAD = regex(r"^#\s+size\s+count\s+type\b.*\balgbw\s+busbw", re.MULTILINE)
_ROW = regex(
    r"^[^\S\n]*+(\d{1,18})\s+\d{1,18}\s+(\w{2,20})\s+(?:\w{2,12}\s+)?(?:-?\d{1,6}\s+)?(\d{1,15}\.?\d{0,15})\s+(\d{1,12}\.?\d{0,12})\s+"
    r"(\d{1,12}\.?\d{0,12})\b",
    re.MULTILINE,
)
_RANK = regex(r"^#\s+Rank\s+\d+ .*?\bon\s+(\S{1,100})", re.MULTILINE)
RECORD = (
    "To see what a program makes of it: `traceanalyzer collect torch -- torchrun ... train.py`; `show comm` "
    "lists each collective with its bus bandwidth."
)


@dataclass(frozen=True)
class _Row:
    """A size and how fast it went out of place."""

    size: int
    time_us: float
    bus_gb_per_s: float


def recognise(text: str) -> bool:
    """Whether a text has such a table."""
    return _HEAD.search(text) is not None and _ROW.search(text) is not None


def summarise(text: str, path: Path) -> PastedText | None:
    """The best bandwidth, and the time of the smallest message."""
    rows = [
        _Row(int(size), float(time), float(bus))
        for size, _, time, _, bus in _ROW.findall(text)
        if all(part.count(".") < 2 for part in (time, bus))
    ]
    if not rows:
        return None
    best = max(rows, key=lambda row: row.bus_gb_per_s)
    least = min(rows, key=lambda row: row.size)
    hosts = _RANK.findall(text)
    on = f", {counted(len(hosts), 'rank')} on {counted(len(set(hosts)), 'host')}" if hosts else ""
    return PastedText(
        what=f"A table of nccl-tests{on}",
        tells=(
            f"At most {digits(best.bus_gb_per_s)} GB/s (bus bandwidth, {sized(best.size)} in "
            f"{digits(best.time_us)} us); {sized(least.size)} take {digits(least.time_us)} us."
        ),
        record=RECORD,
        notes=tuple(_notes(rows, best)),
    )


def _notes(rows: list[_Row], best: _Row) -> list[str]:
    half = [row for row in rows if row.bus_gb_per_s >= best.bus_gb_per_s / 2]
    least = min(half, key=lambda row: row.size)
    if len(rows) < 2:
        return []
    return [
        f"From {sized(least.size)} on it reaches half of that: smaller messages wait for latency."
    ]
