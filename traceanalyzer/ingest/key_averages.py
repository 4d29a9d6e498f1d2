"""The text that `print(prof.key_averages().table())` leaves, as people paste it: sums by name, no
single events."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from traceanalyzer.base import UnreadableInputError, regex
from traceanalyzer.ingest.side_files import number_in
from traceanalyzer.ingest.stream import open_stream
from traceanalyzer.ingest.timing.lines import decoded_lines
from traceanalyzer.trace import Health, ProfilerRow, Trace

MOST_ROWS = 100_000  # a program has some hundred names; with shapes some thousand
_HEADER = regex(r"^\W*Name  .*\bSelf CPU( total)?  ")
_LAST = regex(r"# of Calls|Number of Calls")
"""The column that every version ends its times with: without it the table is cut at the right."""
_CELLS = regex(r"\s{2,}")
_QUANTITY = regex(r"(-?[\d,]+(?:\.\d+)?) ?(us|ms|s)?")
_WHOLE = regex(r"^-?[\d,]+\.\d{3}(?:us|ms|s)")
"""A time that is printed to its end: a last column that was cut may end within a number."""
_UNITS = {"us": 1e-3, "ms": 1.0, "s": 1e3}  # times in ms
_COLUMNS = (
    (regex(r"Name"), "name"),
    (regex(r"Self CPU( total)?"), "self_cpu_ms"),
    (regex(r"CPU total"), "cpu_total_ms"),
    (regex(r"Self (CUDA|XPU|HIP|MTIA|PRIVATEUSE\w{0,40})( total)?"), "self_device_ms"),
    (regex(r"(CUDA|XPU|HIP|MTIA|PRIVATEUSE\w{0,40}) total"), "device_total_ms"),
    (regex(r"# of Calls|Number of Calls"), "calls"),
    (regex(r"Input Shapes"), "shapes"),
)
"""Titles of columns as any version writes them; others are left out."""


def recognise(head: bytes, path: Path) -> bool:
    """Whether the text has the head of such a table. `head`: its first bytes, decompressed."""
    return b"\0" not in head and any(
        _HEADER.match(line) for line in head.decode("utf-8", "replace").splitlines()
    )


def read(path: Path, progress: Callable[[float], None] | None = None) -> list[Trace]:
    """A `Trace` with nothing in it but the table's rows. Raises UnreadableInputError where it has
    none."""
    with open_stream(path, progress, log=True) as stream:
        rows, lost, tables = _rows(decoded_lines(stream))
    if not rows:
        raise UnreadableInputError(
            f"{path}: a profiler's table without rows; print more of it, or export the trace"
        )
    notes = ("The file holds several tables; the first is read.",) if tables > 1 else ()
    health = Health(events=len(rows) + lost, lost=lost, notes=notes)
    return [Trace(str(path), "key_averages", [], profiler_rows=tuple(rows), health=health)]


def _rows(lines: Iterator[str]) -> tuple[list[ProfilerRow], int, int]:
    """The rows of the first table, how many lines of it are none, and how many tables there are."""
    fields: list[str | None] = []
    is_cut = False
    rows: list[ProfilerRow] = []
    lost = tables = 0
    for line in lines:
        if _HEADER.match(line):
            tables += 1
            titles = _split(line) if tables == 1 else []
            fields = list(map(_field, titles))
            is_cut = bool(titles) and not _LAST.search(line)
        elif fields and not line.strip(" -=`>"):
            fields = [] if rows else fields
        elif fields and len(rows) < MOST_ROWS:
            row = _row(fields, _split(line), is_cut)
            if row is None:
                lost += 1
            else:
                rows.append(row)
    return rows, lost, tables


def _field(title: str) -> str | None:
    return next((name for known, name in _COLUMNS if known.fullmatch(title)), None)


def _split(line: str) -> list[str]:
    return _CELLS.split(line.strip().removeprefix(">").strip())


def _row(fields: Sequence[str | None], cells: list[str], is_cut: bool) -> ProfilerRow | None:
    """The row; None for a line that has not a cell for each column, or no times. `is_cut`: the
    table lacks its right side, and a row may lack its last cell."""
    if len(cells) != len(fields) - (is_cut and len(cells) < len(fields)):
        return None
    last = fields[-1]
    if is_cut and len(cells) == len(fields) and not _WHOLE.fullmatch(cells[-1]):
        last = None
    known = (*fields[:-1], last)
    values = {name: cell for name, cell in zip(known, cells, strict=False) if name is not None}
    numbers: dict[str, Any] = {
        name: _quantity(cell) for name, cell in values.items() if name not in ("name", "shapes")
    }
    if "name" not in values or numbers.get("self_cpu_ms") is None:
        return None
    if not is_cut and numbers.get("calls") is None:
        return None
    return ProfilerRow(name=values["name"], shapes=values.get("shapes"), **numbers)


def _quantity(text: str) -> float | None:
    found = _QUANTITY.fullmatch(text.strip())
    number = number_in(found[1]) if found else None
    return number * _UNITS.get(found[2], 1.0) if found and number is not None else None
