"""Rows of tables that a report leaves: the commands of tables print them without reading the recording
again (`table_entries.left_rows`)."""

import json
from contextlib import suppress
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from traceanalyzer.ingest.cache.pages import CachedPage, keep_page
from traceanalyzer.report.kept_answers import MOST_RANKS, kept_text
from traceanalyzer.report.table_entries import TABLES
from traceanalyzer.report.table_entries.kinds import RowFilter, TableEntry
from traceanalyzer.report.table_entries.left_rows import MORE, MOST_ROWS, TextOfRows, columns_of
from traceanalyzer.report.tables import first_of, measured_rows

if TYPE_CHECKING:
    from traceanalyzer.diagnosis.question import Query


def keep_tables(page: CachedPage, asked: "Query") -> None:
    """Keep the rows of each table; not those that come with figures of their own."""
    known = {}
    lines: list[str] = []
    many_ranks = len(asked.measured.each) > MOST_RANKS
    for table in TABLES:
        if many_ranks and table.of_every_rank:
            continue
        first = measured_rows(asked.measured, table.name, RowFilter(MOST_ROWS + 1))
        summary = table.summary(asked if first else None, RowFilter())
        text = None if summary.values else _text_of(asked, table, first)
        if text is not None:
            known[table.name] = (len(lines), columns_of(table.row), summary.remarks)
            lines += text
    keep_page(page, "\n".join([kept_text(known), *lines]))


def _text_of(asked: "Query", table: TableEntry, first: list[Any]) -> TextOfRows | None:
    """The rows of a table, of which these are the first; None where they would not come back as they
    are."""
    measured = asked.measured
    is_origin = table.is_origin
    origin = measured_rows(measured, table.name, RowFilter(earliest=True)) if is_origin else []
    with suppress(ValueError, TypeError):
        earliest = _text(table, origin)
        every = MORE
        if len(first) <= MOST_ROWS:
            every_row = measured_rows(measured, table.name, RowFilter()) if table.events else first
            every = _text(table, every_row)
        return TextOfRows(_text(table, first_of(table, first, MOST_ROWS)), every, earliest)
    return None


def _text(table: TableEntry, rows: list[Any]) -> str:
    """Rows as text. Raises ValueError where they would not come back as they are, TypeError."""
    columns = [map(attrgetter(name), rows) for name, _ in columns_of(table.row)]
    values = [list(row) for row in zip(*columns, strict=True)]
    text = kept_text(values)
    again = json.loads(text)
    if again != values or kept_text(again) != text:
        raise ValueError("rows that text does not hold")
    return text
