"""Rows of tables that a report left (`report.kept_tables`), for the commands that print them: what reads
a recording is not loaded, nor are numpy, what measures and the classes of rows that it makes. They
depend on all that a page depends on (`ingest.cache.pages`)."""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import field, fields
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from traceanalyzer.base import dataclass
from traceanalyzer.diagnosis.part_of_run import Selection
from traceanalyzer.ingest.cache.pages import CachedPage, answered_page, text_of_page
from traceanalyzer.report.table_entries import places_of_largest, table_named
from traceanalyzer.report.table_entries.asked_about import facts_of
from traceanalyzer.report.table_entries.kinds import RowFilter, TableEntry, TableSummary

if TYPE_CHECKING:
    from traceanalyzer.analysis.joined.knowledge import Knowledge

MOST_ROWS = 300
"""Of a table: more than a screen, a page or most questions show. Of single events the longest."""
MORE = "null"
"""What stands for rows that are more than are kept."""
Column = tuple[str, Mapping[str, Any]]
"""Name and metadata of a field of a row."""
Part = tuple[str, RowFilter]
"""A table, and which of its rows are wanted."""
Heading = tuple[int, list[Column], list[str]]
"""Of a table the number of its first line, the fields of its rows, and the sentences below them."""


class TextOfRows(NamedTuple):
    """Rows of a table as text. Without a limit a table of single events may have others than the
    longest."""

    first: str  # the first `MOST_ROWS`
    every: str  # those without a limit, or `MORE`
    earliest: str  # the one that starts first, of what the moments of other tables count from


class LeftTable(NamedTuple):
    """What is left of a table."""

    row: type[Any]  # of its rows: fields as those of the table's own class
    text: TextOfRows
    remarks: tuple[str, ...]  # sentences below the rows


def page_of_tables(
    inputs: Sequence[str], selection: Selection | None, knowledge: "Knowledge | None"
) -> CachedPage | None:
    """Where the tables of a report on these inputs are kept; None where they are not."""
    facts = facts_of(selection, knowledge)
    if facts is None:
        return None
    return answered_page(("tables", *facts, tuple(inputs)), inputs)


class LeftTables:
    """What a report left there, by the names of tables: a line of text says what there is, each of the
    others has rows of a table as lists of values."""

    def __init__(self, text: str) -> None:
        """Raises ValueError."""
        head, *self._lines = text.split("\n")
        self._known: dict[str, Heading] = json.loads(head)
        self._made: dict[str, LeftTable] = {}

    def get(self, name: str) -> LeftTable | None:
        """That of a table; None where nothing is left of it."""
        if name in self._known and name not in self._made:
            line, columns, remarks = self._known[name]
            text = TextOfRows(*self._lines[line : line + len(TextOfRows._fields)])
            self._made[name] = LeftTable(_row_class(columns), text, tuple(remarks))
        return self._made.get(name)


def columns_of(row: type[Any]) -> list[Column]:
    """The fields of the rows of a table."""
    return [(f.name, dict(f.metadata)) for f in fields(row)]


def _row_class(columns: Sequence[Column]) -> type[Any]:
    """A dataclass with these fields."""
    body: dict[str, Any] = {name: field(metadata=metadata) for name, metadata in columns}
    body["__annotations__"] = dict.fromkeys(body, Any)
    body["__doc__"] = "A row that was kept."  # else it is made up of all fields
    return dataclass(frozen=True)(type("LeftRow", (), body))


def left_tables(page: CachedPage | None) -> LeftTables | None:
    """What a report left there."""
    text = None if page is None else text_of_page(page)
    if text is not None:
        with suppress(ValueError):
            return LeftTables(text)
    return None


def rows_in(tables: LeftTables, parts: Sequence[Part]) -> list[list[Any]] | None:
    """The rows of several tables, each with those that are wanted of it; None where not all of them
    are kept."""
    found = []
    for name, wanted in parts:
        table = table_named(name)
        left = tables.get(table.name)
        rows = None if left is None else _wanted(left, table, wanted)
        if rows is None:
            return None
        found.append(rows)
    return found


def summary_in(tables: LeftTables, name: str) -> TableSummary:
    """What a table has besides its rows."""
    left = tables.get(table_named(name).name)
    return TableSummary({}, () if left is None else left.remarks)


def _wanted(left: LeftTable, table: TableEntry, wanted: RowFilter) -> list[Any] | None:
    """The wanted rows of a table; None where it is not known which they are."""
    text = left.text
    if table.is_origin and wanted == RowFilter(earliest=True):
        return _rows(left.row, text.earliest)
    if wanted != RowFilter(wanted.top):
        return None
    if text.every == MORE and (wanted.top is None or wanted.top > MOST_ROWS):
        return None
    if wanted.top is None:
        return _rows(left.row, text.every)
    rows = _rows(left.row, text.first)
    if not table.events or len(rows) <= wanted.top:
        return rows[: wanted.top]
    lengths = list(map(attrgetter(table.events), rows))
    return [rows[i] for i in places_of_largest(lengths, wanted.top)]


def _rows(row: type[Any], text: str) -> list[Any]:
    return [row(*values) for values in json.loads(text)]
