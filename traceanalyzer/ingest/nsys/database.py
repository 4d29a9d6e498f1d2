"""Bulk reading of an SQLite file whose tables and columns may be there or not, and which may be damaged."""

from __future__ import annotations

import re
import sqlite3
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from traceanalyzer.errors import UnreadableInputError
from traceanalyzer.limits import limits
from traceanalyzer.sqlite_guard import allow_reads_of, distrust

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from traceanalyzer.trace import I64

MISSING = -(2**62)
"""Stands for NULL in a time column; event times may be negative."""

_ROWS_A_FETCH = 512
"""Small, so that of a damaged table little is lost around the damage; larger is not faster."""

_ROWS_A_PART = 16_384
"""Rows that are read as one text; of a table of six columns it takes a megabyte."""
_LEAST_ROWID = -(2**63)

_IDS_A_QUERY = 900
"""Below the lowest limit on the terms of an expression that SQLite builds have."""

_QUERIES = 10
"""Texts are fetched by so many queries at most; for more, the table is read once: it may have no index."""


class NotWholeError(Exception):
    """A table that has to be read row by row."""


class Part(NamedTuple):
    """Columns of some rows of a table."""

    integers: dict[str, I64]
    texts: list[bytes]
    """One a row, where a column of text was asked for."""


@dataclass
class Database:
    """An open SQLite file: which tables and columns it has, and which tables turned out damaged."""

    connection: sqlite3.Connection
    columns: dict[str, frozenset[str]]
    """Column names by table name."""
    damaged: set[str] = field(default_factory=set)
    """Tables of which only the rows before the damage could be read."""

    def table(self, name: str) -> str | None:
        """The table of that name or its latest variant (`NAME_V2`), None if there is none."""
        variant = re.compile(re.escape(name) + r"(?:_V(\d+))?")
        found = [(int(match[1] or 1), table) for table in self.columns if (match := variant.fullmatch(table))]
        return max(found)[1] if found else None

    def has(self, name: str, *columns: str) -> bool:
        """Whether the table and all these columns exist; a table without rows counts as existing."""
        table = self.table(name)
        return table is not None and self.columns[table].issuperset(columns)

    def any_rows(self, name: str) -> bool:
        """Whether the table exists and holds a row."""
        return next(self.rows(name, {"rowid": 0}, limit=1), None) is not None

    def integers(self, name: str, columns: Mapping[str, int], *, where: str = "") -> dict[str, I64]:
        """The columns (name: value for NULL and for a column that the table lacks) as int64 arrays.

        All arrays have one entry a row of the table; they are empty where there is no such table. Text in a
        column of numbers counts as the number it begins with, else 0.
        """
        with suppress(NotWholeError):
            return together(list(self.parts(name, columns, where=where)), columns)
        try:
            flat = self._flat(name, columns, where, cast=False)
        except (TypeError, ValueError, OverflowError):
            flat = self._flat(name, columns, where, cast=True)
        matrix = flat.reshape(-1, len(columns))
        return {column: np.ascontiguousarray(matrix[:, i]) for i, column in enumerate(columns)}

    def parts(
        self, name: str, columns: Mapping[str, int], *, text: str | None = None, where: str = ""
    ) -> Iterator[Part]:
        """The columns of a sound table as `integers` gives them, and one column of undecoded text beside them.

        SQLite joins the values of some thousand rows to one text, which numpy takes apart: half the time of making an
        object of each. Raises NotWholeError where that would not give the table's very values: damage, other types
        than integers, texts of several lines; what reads row by row then finds out.
        """
        table = self.table(name)
        if table is None or "rowid" in self.columns[table] or not columns.keys() & (self.columns[table] | {"rowid"}):
            raise NotWholeError
        try:
            yield from self._parts(table, columns, text, where)
        except (sqlite3.Error, ValueError) as error:
            raise NotWholeError from error

    def _parts(self, table: str, columns: Mapping[str, int], text: str | None, where: str) -> Iterator[Part]:
        """The same. Raises sqlite3.Error, ValueError."""
        there = [column for column in columns if column == "rowid" or column in self.columns[table]]
        terms = [self._term(table, column, columns[column], cast=False) for column in there]
        joined = [f"CAST(group_concat({term}) AS BLOB)" for term in terms]
        if text is not None:
            term = f"coalesce(\"{text}\", '')" if text in self.columns[table] else "''"
            joined.append(f"CAST(group_concat({term}, x'0a') AS BLOB)")
        query = f'SELECT count(*), {", ".join(joined)} FROM "{table}" WHERE rowid BETWEEN ? AND ?'  # noqa: S608 as below
        if where:
            query += f" AND ({where})"
        for bounds in self._bounds(table):
            rows, *values = self.connection.execute(query, bounds).fetchone()
            integers = {column: np.full(rows, null, np.int64) for column, null in columns.items()}
            if rows:
                integers |= {column: _parsed(value, rows) for column, value in zip(there, values, strict=False)}
            yield Part(integers, _lines(values[-1], rows) if text is not None and rows else [])

    def _bounds(self, table: str) -> Iterator[tuple[int, int]]:
        """First and last rowid of each part of a table."""
        query = f'SELECT max(r) FROM (SELECT rowid AS r FROM "{table}" WHERE rowid >= ? ORDER BY rowid LIMIT ?)'  # noqa: S608 as below
        first = _LEAST_ROWID
        while (last := self.connection.execute(query, (first, _ROWS_A_PART)).fetchone()[0]) is not None:
            yield first, last
            if last == -_LEAST_ROWID - 1:
                return
            first = last + 1

    def _flat(self, name: str, columns: Mapping[str, int], where: str, *, cast: bool) -> I64:
        batches = self.batches(name, columns, where=where, cast=cast)
        return np.fromiter(chain.from_iterable(chain.from_iterable(batches)), np.int64)

    def rows(
        self, name: str, columns: Mapping[str, int | bytes | None], *, where: str = "", limit: int | None = None
    ) -> Iterator[tuple[Any, ...]]:
        """Rows as tuples; see `batches`."""
        return chain.from_iterable(self.batches(name, columns, where=where, limit=limit))

    def batches(
        self,
        name: str,
        columns: Mapping[str, int | bytes | None],
        *,
        where: str = "",
        limit: int | None = None,
        cast: bool = True,
    ) -> Iterator[list[tuple[Any, ...]]]:
        """Lists of rows in the order of the table, up to the first damaged one; none without the table.

        Beside a column's name stands its value for NULL and for a column that the table lacks. An integer
        makes it a column of integers (with `cast` whatever the file holds there), bytes one of undecoded
        text, None leaves it as it is. `where` is SQL of this program's own.
        """
        table = self.table(name)
        if table is None:
            return
        terms = ", ".join(self._term(table, column, null, cast) for column, null in columns.items())
        query = f'SELECT {terms} FROM "{table}"'  # noqa: S608 names come from this program and the file's catalog
        if where:
            query += f" WHERE {where}"
        if limit is not None:
            query += f" LIMIT {limit}"
        try:
            cursor = self.connection.execute(query)
            while batch := cursor.fetchmany(_ROWS_A_FETCH):
                yield batch
        except sqlite3.DatabaseError as error:
            if "no such column" not in str(error):  # `where` needs it: a table of another meaning, not damage
                self.damaged.add(table)

    def texts(self, ids: Iterable[int]) -> dict[int, str]:
        """The text of each id in `StringIds`; ids without one are left out. No other text is read."""
        found: dict[int, str] = {}
        wanted = list(ids)
        if len(wanted) > _QUERIES * _IDS_A_QUERY:
            chosen = set(wanted)
            all_texts = self.rows("StringIds", {"id": 0, "value": None})
            return {key: _as_text(value) for key, value in all_texts if key in chosen}
        for i in range(0, len(wanted), _IDS_A_QUERY):
            listed = ",".join(map(str, wanted[i : i + _IDS_A_QUERY]))
            for key, value in self.rows("StringIds", {"id": 0, "value": None}, where=f"id IN ({listed})"):
                found[key] = _as_text(value)
        return found

    def _term(self, table: str, column: str, null: int | bytes | None, cast: bool) -> str:
        """SQL for one column of the result."""
        default = "NULL" if null is None else f"x'{null.hex()}'" if isinstance(null, bytes) else str(null)
        if column != "rowid" and column not in self.columns[table]:
            return default
        if null is None:
            return f'"{column}"'
        if isinstance(null, bytes):
            return f'coalesce(CAST("{column}" AS BLOB), {default})'
        return f'coalesce(CAST("{column}" AS INTEGER), {default})' if cast else f'coalesce("{column}", {default})'


def together(parts: Sequence[Part], columns: Iterable[str]) -> dict[str, I64]:
    """The columns of all parts."""
    return {
        column: np.concatenate([part.integers[column] for part in parts] or [np.empty(0, np.int64)])
        for column in columns
    }


def _parsed(text: bytes, count: int) -> I64:
    """The integers in a text with commas between them. Raises ValueError where these are not so many."""
    values = np.fromstring(text, np.int64, sep=",")  # it ends at the first that is none
    if len(values) != count:
        raise ValueError("other values than integers")
    return values


def _lines(text: bytes, count: int) -> list[bytes]:
    """The lines of a text. Raises ValueError where these are not so many."""
    lines = text.split(b"\n")
    if len(lines) != count:
        raise ValueError("texts of several lines")
    return lines


@contextmanager
def open_database(path: Path, shown: str) -> Iterator[Database]:
    """Open the file read-only and immutable: nothing is written, no journal or lock is made beside it.

    `shown` is how messages name the file. Raises UnreadableInputError where its catalog cannot be read.
    """
    uri = f"{path.resolve().as_uri()}?mode=ro&immutable=1"
    connection = None
    try:
        connection = sqlite3.connect(uri, uri=True)
        connection.text_factory = _text
        connection.execute("PRAGMA writable_schema = ON")  # of a damaged catalog, use the tables that are intact
        distrust(connection, path.stat().st_size)
        columns = _catalog(connection)
        allow_reads_of(connection, columns)
        yield Database(connection, columns)
    except sqlite3.DatabaseError as error:
        raise UnreadableInputError(
            f"{shown}: the SQLite database is damaged before its first table; export the report again"
        ) from error
    finally:
        if connection is not None:
            connection.close()


_TABLES = """
SELECT name FROM sqlite_master
WHERE type = 'table' AND typeof(name) = 'text' AND typeof(sql) = 'text' AND sql LIKE 'CREATE TABLE%'
    AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'
"""
"""Real tables: a view or a virtual table under a table's name is code of the file's author."""


def _catalog(connection: sqlite3.Connection) -> dict[str, frozenset[str]]:
    """The columns of each table, as far as the catalog is intact."""
    names: list[str] = []
    with suppress(sqlite3.DatabaseError):
        names.extend(row[0] for row in connection.execute(_TABLES))
    columns: dict[str, frozenset[str]] = {}
    for name in names:
        with suppress(sqlite3.DatabaseError):
            info = connection.execute("SELECT name FROM pragma_table_info(?)", (name,))
            columns[name] = frozenset(row[0] for row in info)
    return columns


def _text(raw: bytes) -> str:
    """Text of the file; bytes that are not UTF-8 (names cut in the middle of a character) are replaced."""
    return raw[: 4 * limits().text].decode("utf-8", "replace")[: limits().text]


def _as_text(value: object) -> str:
    """A value of a column of texts; other types may stand there."""
    return _text(value) if isinstance(value, bytes) else str(value)
