"""Tables of benchmarks: pytest-benchmark (text and JSON), `Compare` of torch.utils.benchmark, Triton's
`perf_report`."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from traceanalyzer.base import counted, dataclass, digits, regex
from traceanalyzer.ingest.side_files import decoded, is_number, items, mapping, number_in
from traceanalyzer.trace import PastedText

_PYTEST = regex(r"^Name \(time in (ns|us|ms|s)\)\s+(Min\b.*)$", re.MULTILINE)
_PYTEST_ROW = regex(r"^(\S.{0,200}?)\s{2,}([\d,]{1,15}\.\d{1,9}\b.*)$")
_RELATIVE = regex(r"\((?:>?[\d.,]{1,15}|inf)\)")
_COMPARE = regex(r"^\[-++ ?([^\n]{0,120}?) ?-+\]$", re.MULTILINE)
_COMPARE_UNIT = regex(r"^Times are in \w{1,20} \((ns|us|ms|s)\)\.", re.MULTILINE)
_THREADS = regex(r"^(\d{1,6}) threads?: -+$")
_REPORT = regex(
    r"^(?P<title>[A-Za-z][^\n:|]{2,100}):\s*\n(?P<head>[ \t]{2,}\S[^\n|:]*)\n(?=0\s)", re.MULTILINE
)
_UNIT = regex(r"\((TFLOPS|TFLOP/s|GFLOPS|GB/s|TB/s|ms|us)\)", re.IGNORECASE)
_GAPS = regex(r"\s{2,}")
_TIMES = ("ms", "us")
_ORDINARY = ("Min", "Max", "Mean", "StdDev", "Median", "IQR")
SHOWN = 4
RECORD = (
    "To see which kernels run and what limits them: `traceanalyzer collect torch -- python bench.py`, or ncu on "
    "one of them."
)
LAUNCHING = "A timer of the CPU around GPU code without torch.cuda.synchronize() reads the launches, not the kernels."


@dataclass(frozen=True)
class _Timed:
    """A benchmark and its time, in the unit of its table."""

    name: str
    time: float


def recognise_pytest(text: str) -> bool:
    """Whether a text is a table or the JSON of pytest-benchmark."""
    return _PYTEST.search(text) is not None or _is_json(text)


def _is_json(text: str) -> bool:
    return text.lstrip().startswith("{") and all(
        f'"{key}"' in text for key in ("benchmarks", "stats", "rounds", "stddev")
    )


def summarise_pytest(text: str, path: Path) -> PastedText | None:
    """The fastest benchmarks, by their medians."""
    head = _PYTEST.search(text)
    unit = head[1] if head is not None else "s"
    found = _pytest_rows(text, head) if head is not None else _pytest_json(text)
    rows = sorted(found, key=lambda row: row.time)
    if not rows:
        return None
    first = rows[0]
    listed = [f"{first.name} {_time(first.time, unit)}"]
    for row in rows[1:SHOWN]:
        times = f" ({digits(row.time / first.time)} times)" if first.time > 0 else ""
        listed.append(f"{row.name} {_time(row.time, unit)}{times}")
    return PastedText(
        what=f"A table of pytest-benchmark, {counted(len(rows), 'benchmark')}",
        tells=f"{', '.join(listed)} (medians).",
        record=RECORD,
        notes=(LAUNCHING,),
    )


def _time(value: float, unit: str) -> str:
    """A time, its unit made smaller where it would read as a fraction."""
    smaller = {"s": ("ms", 1e3), "ms": ("us", 1e3)}
    while value < 1.0 and unit in smaller:
        unit, factor = smaller[unit]
        value *= factor
    return f"{digits(value)} {unit}"


def _pytest_rows(text: str, head: re.Match[str]) -> Iterator[_Timed]:
    columns = [column for column in head[2].split() if column in _ORDINARY]
    if "Median" not in columns:
        return
    place = columns.index("Median")
    for line in text[head.end() :].splitlines():
        row = _PYTEST_ROW.match(line)
        values = _RELATIVE.sub("", row[2]).split() if row is not None else []
        median = number_in(values[place]) if place < len(values) else None
        if row is not None and median is not None:
            yield _Timed(row[1], median)


def _pytest_json(text: str) -> Iterator[_Timed]:
    values = decoded(text)
    for each in items(mapping(values).get("benchmarks")):
        benchmark = mapping(each)
        median = mapping(benchmark.get("stats")).get("median")
        if is_number(median):
            yield _Timed(str(benchmark.get("name")), float(median))


@dataclass(frozen=True)
class _Grid:
    """A table of one figure: a column a contestant, a row a size."""

    title: str
    columns: Sequence[str]
    rows: Sequence[tuple[str, Sequence[float]]]
    unit: str


def recognise_compare(text: str) -> bool:
    """Whether a text has a table of `Compare`."""
    return _COMPARE.search(text) is not None and _COMPARE_UNIT.search(text) is not None


def summarise_compare(text: str, path: Path) -> PastedText | None:
    """Which column is fastest how often, and the last row."""
    unit = _COMPARE_UNIT.search(text)
    title = _COMPARE.search(text)
    if unit is None or title is None:
        return None
    grid = _compare_grid(text[title.end() : unit.start()], title[1], unit[1])
    return _told_of(grid, "A table of torch.utils.benchmark", low_is_good=True)


def _compare_grid(body: str, title: str, unit: str) -> _Grid:
    tables = [[cell.strip() for cell in line.split("|")] for line in body.splitlines()]
    columns = next((cells[1:] for cells in tables if len(cells) > 1), [])
    rows: list[tuple[str, Sequence[float]]] = []
    threads = ""
    for label, *cells in tables:
        of_threads = _THREADS.match(label)
        if of_threads is not None:
            threads = f", {of_threads[1]} threads"
        values = _numbers([cell.strip("() !*") for cell in cells])
        rows += [(f"{label}{threads}", values)] if values else []
    rows = [row for row in rows if len(row[1]) == len(columns)]
    return _Grid(title, columns, rows, unit)


def _numbers(cells: Sequence[str]) -> list[float]:
    """The numbers of these cells; none where one is none."""
    values = [number_in(cell) for cell in cells]
    known = [value for value in values if value is not None]
    return known if len(known) == len(cells) else []


def recognise_report(text: str) -> bool:
    """Whether a text has a table of Triton's `perf_report`."""
    grid = _report_grid(text)
    return grid is not None and bool(grid.rows)


def summarise_report(text: str, path: Path) -> PastedText | None:
    """Which column is highest how often, and the last row; what is better only a unit tells."""
    grid = _report_grid(text)
    if grid is None:
        return None
    is_time = grid.unit.lower() in _TIMES
    return _told_of(
        grid, "A table of Triton's perf_report", low_is_good=is_time if grid.unit else None
    )


def _report_grid(text: str) -> _Grid | None:
    head = _REPORT.search(text)
    if head is None:
        return None
    titles = _GAPS.split(head["head"].strip())
    rows = _frame(text[head.end() :], len(titles))
    sizes = _sizes(titles, rows)
    if not rows or not 0 < sizes < len(titles):
        return None
    unit = _UNIT.search(f"{head['title']} {head['head']}")
    labelled = [(_label(titles[:sizes], row), row[sizes:]) for row in rows]
    columns = [_UNIT.sub("", title).strip() for title in titles[sizes:]]
    return _Grid(head["title"], columns, labelled, unit[1] if unit is not None else "")


def _frame(text: str, columns: int) -> list[list[float]]:
    """The rows of a printed data frame, numbered from 0, until one is none."""
    rows: list[list[float]] = []
    for line in text.splitlines():
        cells = line.split()
        values = _numbers(cells[1:])
        if cells[:1] != [str(len(rows))] or len(values) != columns:
            break
        rows.append(values)
    return rows


def _sizes(titles: Sequence[str], rows: Sequence[Sequence[float]]) -> int:
    """How many of the first columns are sizes: whole numbers in every row."""
    is_size = [all(row[i].is_integer() for row in rows) for i in range(len(titles))]
    return is_size.index(False) if False in is_size else 0


def _label(names: Sequence[str], values: Sequence[float]) -> str:
    return ", ".join(f"{name} {value:,.0f}" for name, value in zip(names, values, strict=False))


def _told_of(grid: _Grid | None, what: str, *, low_is_good: bool | None) -> PastedText | None:
    """`low_is_good`: None where the unit is not known."""
    if grid is None or not grid.rows or not grid.columns:
        return None
    best = min if low_is_good else max
    wins = [0] * len(grid.columns)
    for _, values in grid.rows:
        first = best(values)
        if list(values).count(first) == 1:  # equal ones win nothing
            wins[list(values).index(first)] += 1
    word = "Highest" if low_is_good is None else "Fastest"
    counts = ", ".join(f"{name} in {n}" for name, n in zip(grid.columns, wins, strict=True) if n)
    label, values = grid.rows[-1]
    last = ", ".join(
        f"{name} {digits(value)}{f' {grid.unit}' if grid.unit else ''}"
        for name, value in zip(grid.columns, values, strict=True)
    )
    contest = f"{word}: {counts}. " if len(grid.columns) > 1 and counts else ""
    return PastedText(
        what=f"{what} ({grid.title}), {counted(len(grid.rows), 'row')}",
        tells=f"{contest}Last row, {label}: {last}.",
        record=RECORD,
        notes=("The text does not say the unit, and so not whether more is better.",)
        if low_is_good is None
        else (),
    )
