"""Rows of tables that a report leaves: the commands of tables print them without reading the recording
again. They depend on all that a page depends on (`ingest.cache.pages`)."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Raw, Struct

from traceanalyzer.analysis.joined.knowledge import Knowledge
from traceanalyzer.diagnosis.part_of_run import Selection
from traceanalyzer.ingest.cache.pages import CachedPage, answered_page, keep_page, text_of_page
from traceanalyzer.report.kept_answers import facts_of, kept_text, rows_from
from traceanalyzer.report.table_entries import TABLES, table_named
from traceanalyzer.report.table_entries.kinds import RowFilter, TableEntry, TableSummary
from traceanalyzer.report.tables import first_of, measured_rows

if TYPE_CHECKING:
    from traceanalyzer.diagnosis.question import Query

MOST_ROWS = 300
"""Of a table: more than a screen, a page or most questions show. Of single events the longest."""


MORE = Raw(b"null")
"""What stands for rows that are more than are kept."""


class KeptTable(Struct, forbid_unknown_fields=True):
    """Rows of a table as text. Without a limit a table of single events may have others than the
    longest."""

    first: Raw  # the first `MOST_ROWS`
    every: Raw  # those without a limit, or `MORE`
    earliest: Raw  # the one that starts first, of what the moments of other tables count from
    remarks: tuple[str, ...] = ()  # sentences below them


_DECODER = msgspec.json.Decoder(dict[str, KeptTable])


def page_of_tables(
    inputs: Sequence[str], selection: Selection | None, knowledge: Knowledge | None
) -> CachedPage | None:
    """Where the tables of a report on these inputs are kept; None where they are not."""
    facts = facts_of(selection, knowledge)
    if facts is None:
        return None
    return answered_page(("tables", *facts, tuple(inputs)), inputs)


def keep_tables(page: CachedPage, asked: "Query") -> None:
    """Keep the rows of each table that a report has worked out: not those of ranks that it does not
    speak of, nor those that come with figures of their own."""
    of_one_rank = len(asked.measured.each) == 1
    tables = [table for table in TABLES if of_one_rank or not table.of_every_rank]
    kept = {table.name: _kept(asked, table) for table in tables}
    keep_page(page, kept_text({name: rows for name, rows in kept.items() if rows is not None}))


def _kept(asked: "Query", table: TableEntry) -> KeptTable | None:
    """The rows of a table; None where they would not come back as they are, or are not all of it."""
    measured = asked.measured
    first = measured_rows(measured, table.name, RowFilter(MOST_ROWS + 1))
    summary = table.summary(asked if first else None, RowFilter())
    if summary.values:
        return None
    is_origin = table.is_origin
    origin = measured_rows(measured, table.name, RowFilter(earliest=True)) if is_origin else []
    with suppress(ValueError, TypeError):
        earliest = _text(table, origin)
        every = MORE
        if len(first) <= MOST_ROWS:
            every_row = measured_rows(measured, table.name, RowFilter()) if table.events else first
            every = _text(table, every_row)
        text = _text(table, first_of(table, first, MOST_ROWS))
        return KeptTable(text, every, earliest, summary.remarks)
    return None


def _text(table: TableEntry, rows: list[Any]) -> Raw:
    """Rows as text. Raises ValueError where they would not come back as they are, TypeError."""
    text = kept_text(rows)
    again = rows_from(table.name, text.encode())
    if again != rows or kept_text(again) != text:
        raise ValueError("rows that text does not hold")
    return Raw(text.encode())


def kept_tables(page: CachedPage | None) -> Mapping[str, KeptTable]:
    """What a report left there, by the names of tables."""
    text = None if page is None else text_of_page(page)
    if text is None:
        return {}
    try:
        return _DECODER.decode(text)
    except msgspec.MsgspecError:
        return {}


def summary_in(tables: Mapping[str, KeptTable], name: str) -> TableSummary:
    """What a table has besides its rows."""
    return TableSummary({}, tables[table_named(name).name].remarks)


def rows_in(
    tables: Mapping[str, KeptTable], parts: Sequence[tuple[str, RowFilter]]
) -> list[list[Any]] | None:
    """The rows of several tables, each with those that are wanted of it; None where not all of them
    are kept."""
    with suppress(ValueError, TypeError):
        answers = [_wanted(tables, table_named(name), wanted) for name, wanted in parts]
        found = [rows for rows in answers if rows is not None]
        return found if len(found) == len(parts) else None
    return None


def _wanted(
    tables: Mapping[str, KeptTable], table: TableEntry, wanted: RowFilter
) -> list[Any] | None:
    """The wanted rows of a table; None where it is not known which they are."""
    kept = tables.get(table.name)
    if kept is None:
        return None
    if table.is_origin and wanted == RowFilter(earliest=True):
        return rows_from(table.name, kept.earliest)
    if wanted != RowFilter(wanted.top):
        return None
    if kept.every == MORE and (wanted.top is None or wanted.top > MOST_ROWS):
        return None
    rows = kept.every if wanted.top is None else kept.first
    return first_of(table, rows_from(table.name, rows), wanted.top)
