"""Rows of the tables of `table_entries`: of one table, or of all for a report."""

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from traceanalyzer.analysis.joined.knowledge import Knowledge
from traceanalyzer.diagnosis.part_of_run import Selection
from traceanalyzer.report.table_entries import (
    BY_NAME,
    TABLES,
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
    if len(speaking) == 1 and not table.events:
        return list(table.rows(measured_run, speaking[0], wanted)[: wanted.top])
    rows = [row for m in speaking for row in table.rows(measured_run, m, wanted)]
    if table.name == "gaps":
        rows.sort(key=lambda row: row.start_ns)
    return first_of(table, rows, wanted.top)


def first_of(table: TableEntry, rows: list[Any], top: int | None) -> list[Any]:
    """The first rows of a table, of single events the longest; None: all."""
    return longest(rows, table.events, top) if table.events else rows[:top]


def longest(rows: list[Any], column: str, top: int | None) -> list[Any]:
    """The `top` rows that are largest in a column, in the order in which they come."""
    if top is None or len(rows) <= top:
        return rows
    kept = sorted(
        range(len(rows)),
        key=lambda i: -getattr(rows[i], column),
    )[:top]
    return [rows[i] for i in sorted(kept)]


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
    return with_first_rows(tables, top)


def in_order(tables: dict[str, list[Any]]) -> dict[str, list[Any]]:
    """The tables of a report in the order that reports have them."""
    return {one.name: tables[one.name] for one in TABLES}


def with_first_rows(
    tables: Mapping[str, Sequence[Any]],
    top: int,
) -> dict[str, list[Any]]:
    """The tables of a report with `top` rows of the long ones."""
    shown = {}
    for name, rows in tables.items():
        shown[name] = list(rows[:top] if BY_NAME[name].long else rows)
    return shown
