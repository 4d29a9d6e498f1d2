"""DeepSpeed's log of communication: the table of `log_summary`, or a line an operation."""

import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from traceanalyzer.base import counted, dataclass, digits, regex
from traceanalyzer.ingest.side_files import number_in
from traceanalyzer.ingest.texts.figures import SIZE, size_of, sized
from traceanalyzer.trace import PastedText

_N = r"([\d,]{1,15}(?:\.\d{1,9})?)"
_HEAD = regex(r"Comm\. Op\s+Message Size\s+Count\s+Total Latency\(ms\)\s+Avg Latency\(ms\)")
_OPERATION = regex(r"^\s*([a-z][a-z0-9_]{2,60})\s*$")
_ROW = regex(rf"^\s*{SIZE}\s+(\d{{1,12}})\s+{_N}\s+{_N}\s+{_N}\s+{_N}\s*$", re.IGNORECASE)
_LINE = regex(
    rf"\bcomm op: (\w{{2,60}}) \| time \(ms\): {_N} \| msg size: {SIZE} \| algbw \(Gbps\): {_N}\s+"
    rf"\| busbw \(Gbps\): {_N}",
    re.IGNORECASE,
)
BITS = 8  # Gbit/s a GB/s
SHOWN = 4
RECORD = (
    "To see how much of it overlaps with compute: `traceanalyzer collect torch -- deepspeed train.py`; `show "
    "comm` lists each collective with its exposed time."
)


@dataclass(frozen=True)
class _Row:
    """Calls of one operation with messages of one size."""

    operation: str
    size: float  # bytes
    count: int
    total_ms: float
    bus_gbit_per_s: float


def recognise(text: str) -> bool:
    """Whether a text has such a table or such lines."""
    return _HEAD.search(text) is not None or _LINE.search(text) is not None


def summarise(text: str, path: Path) -> PastedText | None:
    """The time by operation, and the bandwidth where most of it goes."""
    tables = list(_HEAD.finditer(text))
    rows = list(_rows(text[tables[-1].end() :]) if tables else _lines(text))
    if not rows:
        return None
    spent: dict[str, float] = defaultdict(float)
    calls: dict[str, int] = defaultdict(int)
    for row in rows:
        spent[row.operation] += row.total_ms
        calls[row.operation] += row.count
    ordered = sorted(spent, key=lambda name: -spent[name])
    listed = [
        f"{name} {digits(spent[name])} ms ({counted(calls[name], 'call')})"
        for name in ordered[:SHOWN]
    ]
    return PastedText(
        what="DeepSpeed's log of communication",
        tells=f"{digits(sum(spent.values()))} ms in communication on this rank: {', '.join(listed)}.",
        record=RECORD,
        notes=tuple(_notes(rows, len(tables))),
    )


def _rows(text: str) -> Iterator[_Row]:
    operation = ""
    for line in text.splitlines():
        row = _ROW.match(line)
        named = _OPERATION.match(line)
        if row is not None and operation:
            number, unit, count, total, _, _, bus = row.groups()
            yield _Row(operation, size_of(number, unit), int(count), _number(total), _number(bus))
        elif named is not None:
            operation = named[1]
        elif operation and line.strip():
            return


def _lines(text: str) -> Iterator[_Row]:
    for operation, time, number, unit, _, bus in _LINE.findall(text):
        yield _Row(operation, size_of(number, unit), 1, _number(time), _number(bus))


def _notes(rows: list[_Row], tables: int) -> Iterator[str]:
    longest = max(rows, key=lambda row: row.total_ms)
    yield (
        f"Most time: {longest.operation} of {sized(longest.size)}, {counted(longest.count, 'call')}, "
        f"{digits(longest.total_ms)} ms, {digits(longest.bus_gbit_per_s / BITS)} GB/s of bus bandwidth."
    )
    yield (
        "The logger waits for the GPU after each operation, and the time holds the wait for other ranks: without "
        "it they take less, and may overlap with compute."
    )
    if tables > 1:
        yield f"The text holds {tables} tables; the last is read."


def _number(text: str) -> float:
    return number_in(text) or 0.0
