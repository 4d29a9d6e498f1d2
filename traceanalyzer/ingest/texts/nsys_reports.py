"""Reports of `nsys stats` beside sums of kernels and calls: ranges, the operating system, bytes that
were copied, launches with their wait, and traces, a row an operation."""

import csv
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import takewhile
from pathlib import Path

from traceanalyzer.base import NS_PER_MS, counted, dataclass, digits, regex
from traceanalyzer.ingest.side_files import number_in
from traceanalyzer.trace import PastedText, ProfilerRow

_GAPS = regex(r"\s{2,}")
_TITLE = regex(r"\*\* ([^*\n]{1,200}) \((\w{1,100})\) ?:?[ \t]{0,20}$", re.MULTILINE)
_SUMS = regex(r'^[ \t\r#"]*+Time ?\(%\)', re.MULTILINE)
_BYTES = regex(r'^[ \t\r"]*+Total \((MB|GB|KB)\)"?[\s,]+"?Count', re.MULTILINE)
_LAUNCHES = regex(r"^[ \t\r\"]*+Count[\s,\"]++QCount\b.*\bKernel Name", re.MULTILINE)
_TRACE = regex(
    r'^"?Start \((ns|us|ms|s)\)"?,"?Duration \((?:ns|us|ms|s)\)"?,.*\bName"?\s*$', re.MULTILINE
)
_MS = {"ns": 1e-6, "us": 1e-3, "ms": 1.0, "s": 1e3}
_ASIDE = regex(r"\s{0,40}\([^()]*\)")
_UNIT = regex(r"\((ns|us|ms|s|KB|MB|GB)\)")
SHOWN = 4
NO_TOTAL = "Ranges stand within each other, and waits beside work: their sum is no total."
MOST_ROWS = 100_000
RECORD = (
    "To see what waits for what: export the recording itself (nsys export -t sqlite FILE.nsys-rep) and "
    "analyse that."
)


@dataclass(frozen=True)
class _Table:
    """A table: its titles without units, the units, and its rows."""

    titles: Sequence[str]
    units: Sequence[str]
    rows: Sequence[Sequence[str]]

    def column(self, name: str) -> int | None:
        """The place of a column."""
        return self.titles.index(name) if name in self.titles else None

    def first_of(self, *names: str) -> int | None:
        """The place of the first of these columns that it has."""
        found = [self.titles.index(name) for name in names if name in self.titles]
        return found[0] if found else None


def recognise(text: str) -> bool:
    """Whether a text has such a report and no sums, which say more."""
    return any(pattern.search(text) for pattern in (_BYTES, _LAUNCHES))


def recognise_trace(text: str) -> bool:
    """Whether a text is a report with a row an operation, as CSV."""
    return _TRACE.search(text) is not None


def trace_rows(text: str) -> list[ProfilerRow]:
    """The sums of its operations by name."""
    head = _TRACE.search(text)
    table = _table(text, head.start()) if head is not None else None
    if table is None:
        return []
    name = table.column("Name")
    duration = table.column("Duration")
    if name is None or duration is None:
        return []
    spent: dict[str, float] = defaultdict(float)
    calls: dict[str, int] = defaultdict(int)
    for row in table.rows:
        time = number_in(row[duration])
        if time is not None:
            spent[row[name]] += time * _MS.get(table.units[duration], 1 / NS_PER_MS)
            calls[row[name]] += 1
    is_host = table.column("Strm") is None
    return [
        ProfilerRow(
            key,
            calls[key],
            self_cpu_ms=ms if is_host else 0.0,
            self_device_ms=None if is_host else ms,
            device_total_ms=None if is_host else ms,
        )
        for key, ms in spent.items()
    ]


def summarise(text: str, path: Path) -> PastedText | None:
    """What ranges, calls of the operating system, copies or launches come to, each report of the
    text: the program's own ranges first."""
    tables = [*_tables(text)]
    told = [(title, says) for title, table in tables for says in _said(table)]
    if not told:
        return None
    title, says = told[0]
    are_times = any("Total Time" in table.titles for _, table in tables)
    others = [f"{title or 'Another table'}: {says}" for title, says in told[1:]]
    return PastedText(
        what=f"A report of nsys stats ({title or 'one table'})",
        tells=says,
        record=RECORD,
        notes=(*others, *((NO_TOTAL,) if are_times else ())),
    )


def _tables(text: str) -> list[tuple[str, _Table]]:
    """The tables of a text with their titles, those of ranges first."""
    titles = [(found.start(), found[1]) for found in _TITLE.finditer(text)]
    heads = [found.start() for one in (_BYTES, _LAUNCHES, _SUMS) for found in one.finditer(text)]
    found: list[tuple[str, _Table]] = []
    for head in sorted(heads):
        table = _table(text, head)
        if table is not None and table.rows:
            title = next((title for at, title in reversed(titles) if at < head), "")
            found.append((title, table))
    return sorted(found, key=lambda one: one[1].column("Range") is None)


def _said(table: _Table) -> Iterator[str]:
    if table.column("QCount") is not None:
        yield from _launches(table)
    elif table.column("Total") is not None:
        yield from _copies(table)
    else:
        yield from _times(table)


def _times(table: _Table) -> Iterator[str]:
    """Ranges or calls, by their sums."""
    total = table.column("Total Time")
    count = table.first_of("Instances", "Num Calls", "Count")
    name = table.first_of("Range", "Name", "Event Name")
    if total is None or count is None or name is None:
        return
    scale = _MS.get(table.units[total], 1 / NS_PER_MS)
    rows = sorted(table.rows, key=lambda row: -(number_in(row[total]) or 0.0))
    listed = [
        _spent(row[name], (number_in(row[total]) or 0.0) * scale, int(number_in(row[count]) or 0))
        for row in rows[:SHOWN]
    ]
    if listed:
        yield f"{'; '.join(listed)}."


def _spent(name: str, ms: float, times: int) -> str:
    each = f", {digits(ms / times)} ms each" if times > 1 else ""
    return f"{name.lstrip(':').strip()} {digits(ms)} ms ({counted(times, 'time')}{each})"


def _copies(table: _Table) -> Iterator[str]:
    total = table.column("Total")
    count = table.column("Count")
    name = table.column("Operation")
    if total is None or count is None or name is None:
        return
    unit = table.units[total]
    yield (
        "; ".join(
            f"{row[name]} {row[total]} {unit} in {counted(int(number_in(row[count]) or 0), 'operation')}"
            for row in table.rows[:SHOWN]
        )
        + "."
    )


def _launches(table: _Table) -> Iterator[str]:
    """The first row is of the kernel with the most time."""
    row = table.rows[0]
    columns = [table.column(name) for name in ("KAvg", "QAvg", "AAvg", "Kernel Name", "Count")]
    if None in columns:
        return
    kernel, queued, call, name, count = (row[i] for i in columns if i is not None)
    unit = table.units[table.titles.index("KAvg")]
    scale = _MS.get(unit, 1 / NS_PER_MS) * 1e3
    us = [digits((number_in(value) or 0.0) * scale) for value in (kernel, queued, call)]
    yield (
        f"{name}, {int(number_in(count) or 0):,} launches: the kernel takes {us[0]} us, waits {us[1]} us "
        f"in the queue, and its launch takes {us[2]} us (means)."
    )


def _table(text: str, start: int) -> _Table | None:
    lines = text[start:].lstrip("\n").splitlines()
    head = lines[0]
    is_csv = head.count(",") >= 3
    cells = _cells(head, is_csv)
    titles = [_ASIDE.sub("", cell).strip() for cell in cells]
    units = ["".join(_UNIT.findall(cell)[:1]) for cell in cells]
    found = list(takewhile(str.strip, lines[1 : MOST_ROWS + 1]))
    rows = [_row(line, len(titles), is_csv) for line in found if line.strip(" -")]
    return _Table(titles, units, [row for row in rows if len(row) == len(titles)])


def _row(line: str, columns: int, is_csv: bool) -> list[str]:
    """The cells of a row, of which the last may hold spaces."""
    row = _cells(line, is_csv)
    if len(row) < columns and not is_csv:  # wide numbers leave one space
        row = line.split(None, columns - 1)
    if len(row) > columns:
        last = "  ".join(row[columns - 1 :])
        row = [*row[: columns - 1], last]
    return row


def _cells(line: str, is_csv: bool) -> list[str]:
    if not is_csv:
        return _GAPS.split(line.strip())
    try:
        return [cell.strip() for cell in next(csv.reader([line]), [])]
    except csv.Error:
        return []
