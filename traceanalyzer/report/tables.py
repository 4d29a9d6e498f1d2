"""Rows of the tables of `table_entries`: of one table, or of all for a report."""

from collections.abc import Collection, Mapping, Sequence
from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING, Any, cast

from traceanalyzer.analysis.algebra.lazy_rows import LazyRows, column_of
from traceanalyzer.analysis.joined.knowledge import Knowledge
from traceanalyzer.diagnosis.part_of_run import Selection
from traceanalyzer.report.table_entries import (
    BY_NAME,
    TABLES,
    places_of_largest,
    table_named,
)
from traceanalyzer.report.table_entries.kinds import RowFilter, TableEntry
from traceanalyzer.trace import Run

if TYPE_CHECKING:
    from traceanalyzer.diagnosis.selection import MeasuredRanks

ALL = RowFilter()
PATH = "critical_path"
RANKS = "ranks"


def table(
    run: Run,
    name: str,
    selection: Selection | None = None,
    knowledge: Knowledge | None = None,
    wanted: RowFilter = ALL,
) -> list[Any]:
    """Rows of a table, given by its name or its command's. Single events come in time order. Raises
    ValueError for no such table, EmptyRecordingError, naming what there is, for a rank, device or
    step that is not recorded."""
    from traceanalyzer.diagnosis.selection import measured

    return measured_rows(measured(run, selection, knowledge), name, wanted)


def measured_rows(measured_run: "MeasuredRanks", name: str, wanted: RowFilter) -> list[Any]:
    """Rows of a table of what was measured, as `table` has them."""
    table = table_named(name)
    speaking = measured_run.each if table.of_every_rank else [measured_run.critical]
    each = [table.rows(measured_run, m, wanted) for m in speaking]
    rows = each[0] if len(each) == 1 else list(chain.from_iterable(each))
    if table.name == "gaps":
        rows = sorted(rows, key=attrgetter("start_ns"))
    if wanted.earliest:
        return earliest(rows)
    return first_of(table, rows, wanted.top)


def earliest(rows: Sequence[Any]) -> list[Any]:
    """The row that starts first; nothing where there are none."""
    return [min(rows, key=attrgetter("start_ns"))] if rows else []


def first_of(table: TableEntry, rows: Sequence[Any], top: int | None) -> list[Any]:
    """The first rows of a table, of single events the longest; None: all."""
    return longest(rows, table.events, top) if table.events else list(rows[:top])


def longest(rows: Sequence[Any], column: str, top: int | None) -> list[Any]:
    """The `top` rows that are largest in a column, in the order in which they come."""
    if top is None or len(rows) <= top:
        return list(rows)
    return [rows[i] for i in places_of_largest(list(column_of(rows, column)), top)]


def report_tables(
    measured_run: "MeasuredRanks",
    top: int,
    without: Collection[str] = (),
) -> dict[str, list[Any]]:
    """The tables of a report, of the critical rank: of long ones the first `top` rows, of gaps the
    longest first."""
    tables = {
        one.name: one.rows(measured_run, measured_run.critical, RowFilter(top))
        for one in TABLES
        if one.name not in without
    }
    tables["gaps"] = sorted(tables["gaps"], key=lambda row: -row.duration_ns)
    for name in [one.name for one in TABLES if one.only_with_rows]:
        if not tables.get(name):
            tables.pop(name, None)
    return with_first_rows(tables, top)


def in_order(tables: dict[str, list[Any]]) -> dict[str, list[Any]]:
    """The tables of a report in the order that reports have them."""
    return {one.name: tables[one.name] for one in TABLES if one.name in tables}


def with_first_rows(
    tables: Mapping[str, Sequence[Any]],
    top: int,
) -> dict[str, list[Any]]:
    """The tables of a report with `top` rows of the long ones. Rows of others that are made when
    asked for stay so: to what shows them they are a list."""
    shown = {}
    for name, rows in tables.items():
        some = rows[:top] if BY_NAME[name].long else rows
        shown[name] = cast("list[Any]", some) if isinstance(some, LazyRows) else list(some)
    return shown


def in_lists(tables: Mapping[str, Sequence[Any]]) -> dict[str, list[Any]]:
    """The tables of a report that a program has, which may do with them what lists can."""
    return {name: list(rows) for name, rows in tables.items()}
