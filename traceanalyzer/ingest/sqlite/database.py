"""The SQLite file of a recording (the file itself, one that was gzipped, or what a recorder's own
tool makes of it) and bulk reading of it; tables and columns may be there or not, and may be
damaged."""

import re
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from isal import igzip
from numpy.typing import NDArray

from traceanalyzer.base import UnreadableInputError
from traceanalyzer.base.files import note_read
from traceanalyzer.base.limits import limits
from traceanalyzer.base.sqlite_guard import allow_reads_of, distrust
from traceanalyzer.ingest.foreign import GZIP_MAGIC, SQLITE_MAGIC
from traceanalyzer.ingest.sqlite.pages import (
    Layout,
    PageFile,
    TablePart,
    page_bytes_of,
)
from traceanalyzer.ingest.sqlite.records import OddPageError
from traceanalyzer.ingest.stream import DAMAGE, decompressed_limit, too_large
from traceanalyzer.trace import I64

Made = TypeVar("Made")
Scalar = TypeVar("Scalar", bound=np.generic)
MISSING = -(2**62)  # stands for NULL in a time column; event times may be negative
_ROWS_A_FETCH = 128
"""Small, so that of a damaged table little is lost around the damage, and that rows which share one
large text cost little before they are counted; larger is not faster."""
_LEAST_ROW_BYTES = 2  # of a table's file
_LARGEST_VALUE = 1 << 20
"""Bytes of a value that is read: names are shorter by far, and what a row has beyond its page costs
a page each."""
_SPARSE = 64
"""Times the bytes that a file takes on its disk, at most: file systems compress so far. A file with
holes says that it is larger."""
_IDS_A_QUERY = 900  # below the lowest limit on the terms of an expression that SQLite builds have
_QUERIES = 10  # for texts, at most; for more, the table is read once: it may have no index
_CHUNK_BYTES = (
    1 << 16
)  # what is lost at most before the damage of a gzipped file; larger is not faster
_NEARLY_ALL = 0.999
"""Of a compressed file that ends early and whose database does not say how long it is: something is
missing."""


class NotInPagesError(Exception):
    """A table that has to be read row by row."""


@dataclass
class Database:
    """An open SQLite file: which tables and columns it has, and which tables turned out damaged."""

    connection: sqlite3.Connection
    columns: dict[str, frozenset[str]]  # names by table name
    layouts: dict[str, Layout] = field(default_factory=dict)  # of the tables that `pages` can read
    pages: PageFile | None = None
    size: int = 1 << 62  # bytes of the file: no table says more
    shown: str = "the database"
    where_kinds: dict[int, tuple[int, int]] | None = None
    """Numbers of the first and the last row of each kind of NVTX event that is no range, once they
    have been read."""
    damaged: set[str] = field(
        default_factory=set
    )  # tables of which only the rows before the damage could be read

    def table(self, name: str) -> str | None:
        """The table of that name or its latest variant (`NAME_V2`), None if there is none."""
        variant = re.compile(re.escape(name) + r"(?:_V(\d{1,18}))?")
        matches = filter(None, map(variant.fullmatch, self.columns))
        latest = max(matches, key=lambda match: (int(match[1] or 1), match[0]), default=None)
        return None if latest is None else latest[0]

    def has(self, name: str, *columns: str) -> bool:
        """Whether the table and all these columns exist; a table without rows counts as
        existing."""
        table = self.table(name)
        return table is not None and self.columns[table].issuperset(columns)

    def is_plain(self, name: str) -> bool:
        """Whether the table's rows have numbers, and lie in the file as the schema says."""
        return self.table(name) in self.layouts

    def any_rows(self, name: str) -> bool:
        """Whether the table exists and holds a row."""
        return next(self.rows(name, {"rowid": 0}, limit=1), None) is not None

    def integers(self, name: str, columns: Mapping[str, int]) -> dict[str, I64]:
        """The columns (name: value for NULL and for a column that the table lacks) as int64 arrays,
        empty where there is no such table. Text in a column of numbers counts as the number it
        begins with, else 0."""
        return joined_columns(self.each(name, columns, lambda part: part.integers), columns)

    def each(
        self,
        name: str,
        columns: Mapping[str, int],
        make: Callable[[TablePart], Made],
        *,
        text: str | None = None,
    ) -> list[Made]:
        """What `make` makes of each stretch of the table's rows, in order: the columns as
        `integers` gives them, and one column of undecoded text. Where damage is found late, it is
        called for all rows once more."""
        with suppress(NotInPagesError):
            return [make(part) for part in self.parts(name, columns, text=text)]
        return [make(self._row_by_row(name, columns, text))]

    def parts(
        self, name: str, columns: Mapping[str, int], *, text: str | None = None
    ) -> Iterator[TablePart]:
        """The rows of a sound table in stretches, from the file's pages: a quarter of the time that
        SQLite takes. Raises NotWholeError where that would not give the table's very values;
        reading row by row then finds out."""
        table = self.table(name)
        if table is None:
            return
        if self.pages is None or table not in self.layouts:
            raise NotInPagesError
        try:
            yield from self.pages.parts(self.layouts[table], columns, text)
        except (OddPageError, OSError) as error:
            raise NotInPagesError from error

    def _row_by_row(
        self, name: str, columns: Mapping[str, int], text: str | None, *, cast: bool = False
    ) -> TablePart:
        """The rows up to the first damaged one. `cast`: where there are other values than
        integers."""
        numbers = bytearray()
        texts = list[bytes]()
        wanted: dict[str, int | bytes | None] = dict(columns)
        try:
            for batch in self._batches(
                name, wanted if text is None else {**wanted, text: b""}, cast=cast
            ):
                if text is not None:
                    texts.extend(row[-1] for row in batch)
                    batch = [row[:-1] for row in batch]
                numbers += np.fromiter(chain.from_iterable(batch), np.int64).tobytes()
        except (TypeError, ValueError, OverflowError):
            if cast:
                raise
            return self._row_by_row(name, columns, text, cast=True)
        matrix = np.frombuffer(numbers, np.int64).reshape(-1, len(columns))
        return TablePart(
            {column: np.ascontiguousarray(matrix[:, i]) for i, column in enumerate(columns)}, texts
        )

    def rows(
        self,
        name: str,
        columns: Mapping[str, int | bytes | None],
        *,
        where: str = "",
        limit: int | None = None,
    ) -> Iterator[tuple[Any, ...]]:
        """Rows in the order of the table, up to the first damaged one; none without the table.
        Beside a column's name stands its value for NULL and for a column that the table lacks. An
        integer makes it a column of integers, bytes one of undecoded text, None leaves it as it is.
        `where` is SQL of this program's own."""
        rest = f" WHERE {where}" if where else ""
        if limit is not None:
            rest += f" LIMIT {limit}"
        return chain.from_iterable(self._batches(name, columns, rest))

    def _batches(
        self,
        name: str,
        columns: Mapping[str, int | bytes | None],
        rest: str = "",
        *,
        cast: bool = True,
    ) -> Iterator[list[tuple[Any, ...]]]:
        """Rows as `rows` gives them, in lists. `cast`: a column of integers has them whatever the file holds
        there."""
        table = self.table(name)
        if table is None:
            return
        terms = ", ".join(self._term(table, column, null, cast) for column, null in columns.items())
        query = f'SELECT {terms} FROM "{table}"{rest}'  # noqa: S608 names come from this program and the file's catalog
        has_text = any(not isinstance(null, int) for null in columns.values())
        left = self.size
        try:
            cursor = self.connection.execute(query)
            while batch := cursor.fetchmany(_ROWS_A_FETCH):
                left -= _LEAST_ROW_BYTES * len(batch) + (_text_bytes(batch) if has_text else 0)
                if left < 0:
                    raise UnreadableInputError(
                        f"{self.shown}: the table {table} says more than the file holds: its rows "
                        "share pages, which no SQLite writes; export the report again"
                    )
                yield batch
        except sqlite3.DatabaseError as error:
            if "no such column" not in str(
                error
            ):  # `where` needs it: a table of another meaning, not damage
                self.damaged.add(table)

    def texts(
        self, ids: Iterable[int], table: str = "StringIds", text: str = "value"
    ) -> dict[int, str]:
        """The text of each id in a table of texts; ids without one, and those below 0, are left
        out. No other text is read."""
        wanted = [int(i) for i in ids if i >= 0]
        columns = {"id": 0, text: None}
        if len(wanted) > _QUERIES * _IDS_A_QUERY:
            chosen = set(wanted)
            return {
                key: _as_text(value) for key, value in self.rows(table, columns) if key in chosen
            }
        queries = (wanted[i : i + _IDS_A_QUERY] for i in range(0, len(wanted), _IDS_A_QUERY))
        conditions = (f"id IN ({','.join(map(str, listed))})" for listed in queries)
        rows = chain.from_iterable(self.rows(table, columns, where=where) for where in conditions)
        return {key: _as_text(value) for key, value in rows}

    def _term(self, table: str, column: str, null: int | bytes | None, cast: bool) -> str:
        """SQL for one column of the result."""
        default = (
            "NULL" if null is None else f"x'{null.hex()}'" if isinstance(null, bytes) else str(null)
        )
        if column != "rowid" and column not in self.columns[table]:
            return default
        if null is None:
            return f'"{column}"'
        if isinstance(null, bytes):
            return f'coalesce(CAST("{column}" AS BLOB), {default})'
        return (
            f'coalesce(CAST("{column}" AS INTEGER), {default})'
            if cast
            else f'coalesce("{column}", {default})'
        )


_TABLES = """
SELECT name FROM sqlite_master
WHERE type = 'table' AND typeof(name) = 'text' AND typeof(sql) = 'text' AND sql LIKE 'CREATE TABLE%'
    AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'
"""
"""Real tables: a view or a virtual table under a table's name is code of the file's author."""


def joined_columns(
    parts: list[dict[str, NDArray[Scalar]]], names: Iterable[str]
) -> dict[str, NDArray[Scalar]]:
    """The columns of all parts, each put together by itself: the parts are emptied, so that little
    is held twice."""
    nothing: list[Any] = [np.empty(0, np.int64)]
    return {name: np.concatenate([part.pop(name) for part in parts] or nothing) for name in names}


@contextmanager
def open_database(path: Path, shown: str) -> Iterator[Database]:
    """Open the file read-only and immutable: nothing is written, no journal or lock is made beside
    it. `shown` is how messages name the file. Raises UnreadableInputError where its catalog cannot
    be read."""
    pages = None
    uri = f"{path.resolve().as_uri()}?mode=ro&immutable=1"
    with suppress(OSError, OddPageError):  # else SQLite alone can read it
        pages = PageFile.of(path)
    try:
        with (
            pages.file if pages else nullcontext(),
            closing(sqlite3.connect(uri, uri=True)) as connection,
        ):
            connection.text_factory = _text
            connection.execute(
                "PRAGMA writable_schema = ON"
            )  # of a damaged catalog, use the tables that are intact
            size = _size(path)
            distrust(connection, size)
            connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LARGEST_VALUE)
            columns = _catalog(connection)
            found = ((name, _layout(connection, name)) for name in columns)
            layouts = {name: layout for name, layout in found if layout is not None}
            allow_reads_of(connection, columns)
            yield Database(connection, columns, layouts, pages, size, shown)
    except sqlite3.DatabaseError as error:
        refusal = (
            f"{shown}: the SQLite database is damaged before its first table; export the "
            "report again"
        )
        raise UnreadableInputError(refusal) from error


def _size(path: Path) -> int:
    """Bytes of the file; of one with holes no more than it can hold."""
    status = path.stat()
    taken = getattr(status, "st_blocks", status.st_size) * 512
    return min(status.st_size, max(taken, 1 << 16) * _SPARSE)


def _text_bytes(batch: list[tuple[Any, ...]]) -> int:
    """Bytes of the texts in some rows."""
    return sum(len(value) for row in batch for value in row if isinstance(value, bytes | str))


def _catalog(connection: sqlite3.Connection) -> dict[str, frozenset[str]]:
    """The columns of each table, as far as the catalog is intact."""
    names = list[str]()
    columns = dict[str, frozenset[str]]()
    with suppress(sqlite3.DatabaseError):
        names.extend(row[0] for row in connection.execute(_TABLES))
    for name in names:
        with suppress(sqlite3.DatabaseError):
            info = connection.execute("SELECT name FROM pragma_table_info(?)", (name,))
            columns[name] = frozenset(row[0] for row in info)
    return columns


def _layout(connection: sqlite3.Connection, table: str) -> Layout | None:
    """Where a table is, and what is in its rows; None where the schema stands for a value, or a
    row's number has more than one name."""
    try:
        query = "SELECT name, type, pk, hidden FROM pragma_table_xinfo(?) ORDER BY cid"
        info = connection.execute(query, (table,)).fetchall()
        root = connection.execute(
            "SELECT rootpage FROM sqlite_master WHERE name = ?", (table,)
        ).fetchone()
    except sqlite3.DatabaseError:
        return None
    names = tuple(name for name, *_ in info)
    keys = {name: type_.upper() for name, type_, key, _ in info if key}
    odd = (
        "rowid" in names,
        any(hidden for *_, hidden in info),
        len(keys) > 1,
        set(keys.values()) - {"INTEGER"},
    )
    if root is None or not isinstance(root[0], int) or any(odd):
        return None
    return Layout(root[0], names, next(iter(keys), None))


def _text(raw: bytes) -> str:
    """Text of the file; bytes that are not UTF-8 (names cut in the middle of a character) are
    replaced."""
    return raw[: 4 * limits().text].decode("utf-8", "replace")[: limits().text]


def _as_text(value: object) -> str:
    """A value of a column of texts; other types may stand there."""
    return _text(value) if isinstance(value, bytes) else str(value)


def is_sqlite(head: bytes, path: Path) -> bool:
    """Whether the file is an SQLite database, gzipped or not. `head`: its first bytes."""
    with suppress(*DAMAGE):
        if head.startswith(GZIP_MAGIC):
            with _decompressed(path) as stream:
                head = stream.read(len(SQLITE_MAGIC))
    return head.startswith(SQLITE_MAGIC)


@contextmanager
def sqlite_file(path: Path, export: Callable[[Path, Path], None]) -> Iterator[tuple[Path, float]]:
    """The SQLite file of a recording and the share of it that is there (1: all); temporary files
    are removed. What is neither SQLite nor gzip is made into one by `export` (from, to). Raises
    UnreadableInputError, and what that does."""
    with note_read(path).open("rb") as stream:
        head = stream.read(len(SQLITE_MAGIC))
    log = path.with_name(f"{path.name}-wal")
    written_ahead = log.is_file() and log.stat().st_size > 0
    if head.startswith(SQLITE_MAGIC) and not written_ahead:
        yield path, _share_there(path)
        return
    with tempfile.TemporaryDirectory(prefix="traceanalyzer-") as folder:
        scratch = Path(folder) / "export.sqlite"
        if head.startswith(SQLITE_MAGIC):
            merged = scratch if _merge(path, log, scratch) else path
            yield merged, _share_there(merged)
        elif head.startswith(GZIP_MAGIC):
            complete = _decompress(path, scratch)
            yield scratch, min(_share_there(scratch), 1.0 if complete else _NEARLY_ALL)
        else:
            export(path, scratch)
            yield scratch, 1.0


def _merge(path: Path, log: Path, target: Path) -> bool:
    """Make a copy of a database with what its write-ahead log holds: a program that is still open,
    or was killed, leaves its last changes there. Whether that could be done; the recording itself
    stays as it is."""
    shutil.copyfile(path, target)
    shutil.copyfile(note_read(log), f"{target}-wal")
    with suppress(sqlite3.DatabaseError), closing(sqlite3.connect(target)) as connection:
        distrust(connection, target.stat().st_size)
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        return True
    return False


def _share_there(path: Path) -> float:
    """The share of the bytes that its header tells of (https://sqlite.org/fileformat2.html, section
    1.3)."""
    with path.open("rb") as stream:
        header = stream.read(100)
    if len(header) < 100:
        return 0.0
    count_is_valid = header[24:28] == header[92:96]
    stated_bytes = int.from_bytes(header[28:32], "big") * page_bytes_of(header)
    return min(path.stat().st_size / stated_bytes, 1.0) if count_is_valid and stated_bytes else 1.0


def _decompress(path: Path, target: Path) -> bool:
    """Whether the gzipped file could be decompressed to its end; what came before the damage is
    kept."""
    most = decompressed_limit(path.stat().st_size)
    with target.open("wb") as output, _decompressed(path) as stream:
        while True:
            try:
                chunk: bytes = stream.read(_CHUNK_BYTES)
            except DAMAGE:
                return False
            if not chunk:
                return True
            output.write(chunk)
            if output.tell() > most:
                raise too_large(path)


def _decompressed(path: Path) -> igzip.IGzipFile:
    return igzip.IGzipFile(path)  # type: ignore[no-untyped-call]
