"""Opening a history file: whose it is, which schema it has, and one clear line for whatever is
wrong with it.

Writers queue for the write lock, each for one transaction. Not WAL but SQLite's ordinary journal
mode: it is one file then, which can be copied, and lies safely on the network file systems that
clusters share."""

import os
import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from traceanalyzer.base import TraceAnalyzerError, UnreadableInputError
from traceanalyzer.base.files import note_read
from traceanalyzer.base.sqlite_guard import distrust
from traceanalyzer.history.migrations import MIGRATIONS

if TYPE_CHECKING:
    from sqlite_utils import Database


PATIENCE_S = 60.0
"""A run is written in milliseconds; whoever holds the lock for a minute has stopped."""
APPLICATION_ID = 0x5472416E  # `TrAn` in the file's header: tells a history from other SQLite files
WRONG = {
    "SQLITE_NOTADB": "not an SQLite database",
    "SQLITE_CORRUPT": "the database is damaged; restore a copy, or name another file",
    "SQLITE_BUSY": f"another program has kept the database locked for {PATIENCE_S:.0f} s",
    "SQLITE_READONLY": "the database cannot be written",
    "SQLITE_CANTOPEN": "the database cannot be opened",
    "SQLITE_FULL": "the disk is full",
    "SQLITE_IOERR": "the database cannot be read or written (input/output error)",
}
"""What SQLite's result codes mean for a user; extended codes begin with these."""


_OBJECTS = (
    "SELECT type, name, sql FROM sqlite_master WHERE type IN ('table', 'view') AND "
    "typeof(sql) = 'text'"
)


@contextmanager
def reading(path: Path) -> "Iterator[Database]":
    """The history in a file, to be read. Raises UnreadableInputError where there is none."""
    # SQLite takes an empty file for a database; to bring its schema up to date would write into it.
    if not note_read(path).is_file() or not path.stat().st_size:
        raise UnreadableInputError(f"{path}: no such history; analyze --store {path} makes one")
    with _errors_of(path):
        # Not "ro": what a writer that was killed left half done can then be taken back first.
        with _connection(path, "rw") as db:
            db.execute("PRAGMA query_only = ON")
            _check_owner(db, path)
            if _version(db) == len(MIGRATIONS):
                _check_schema(db, path)
                yield db
                return
        with writing(path) as db:
            yield db


@contextmanager
def writing(path: Path) -> "Iterator[Database]":
    """The history in a file, made where there is none, in one transaction of the only writer.
    Raises TraceAnalyzerError where the file cannot be written or is something else."""
    with _errors_of(path), _no_empty_file(path), _connection(path, "rwc") as db:
        db.execute("BEGIN IMMEDIATE")
        try:
            _check_owner(db, path)
            if (had := _version(db)) < len(MIGRATIONS):  # the schema is brought up to date
                for migration in MIGRATIONS[had:]:
                    migration(db)
                db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                db.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")
            _check_schema(db, path)
            yield db
            db.execute("COMMIT")
        finally:
            if db.conn.in_transaction:
                db.execute("ROLLBACK")


def check_storable(path: Path) -> None:
    """Refuse a file that no run can be stored in before the work, not after it; makes no file."""
    if path.exists():
        with writing(path):
            return
    if not path.parent.is_dir():
        raise TraceAnalyzerError(
            f"cannot write {path}: {path.parent} is not a folder; make it first"
        )
    if not os.access(path.parent, os.W_OK):
        raise TraceAnalyzerError(f"cannot write {path}: Permission denied")


@contextmanager
def _no_empty_file(path: Path) -> Iterator[None]:
    """Where a new history cannot be written (a full disk), no empty file stays, which would be
    taken for one."""
    existed = path.exists()
    try:
        yield
    finally:
        if not existed and path.is_file() and not path.stat().st_size:
            path.unlink(missing_ok=True)


@contextmanager
def _connection(path: Path, mode: str) -> "Iterator[Database]":
    from sqlite_utils import Database

    # No implicit transactions: where one begins and ends is said here.
    uri = f"{path.resolve().as_uri()}?mode={mode}"
    with closing(
        sqlite3.connect(uri, uri=True, timeout=PATIENCE_S, isolation_level=None)
    ) as connection:
        connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
        distrust(connection, path.stat().st_size if path.exists() else 0)
        connection.execute("PRAGMA foreign_keys = ON")
        yield Database(connection, execute_plugins=False)


@contextmanager
def _errors_of(path: Path) -> Iterator[None]:
    try:
        yield
    except (UnicodeDecodeError, OverflowError) as error:
        raise TraceAnalyzerError(f"{path}: {WRONG['SQLITE_CORRUPT']}") from error
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorname", "")
        wrong = next((text for name, text in WRONG.items() if code.startswith(name)), str(error))
        raise TraceAnalyzerError(f"{path}: {wrong}") from error


def _check_owner(db: "Database", path: Path) -> None:
    """Raises UnreadableInputError where the file is somebody else's, or a newer version's."""
    owner = db.execute("PRAGMA application_id").fetchone()[0]
    if owner != APPLICATION_ID and (
        owner or db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    ):
        raise UnreadableInputError(
            f"{path}: a database of something else; a history needs a file of its own"
        )
    if _version(db) > len(MIGRATIONS):
        newer = (
            f"(schema {_version(db)}, this version knows {len(MIGRATIONS)}): update traceanalyzer"
        )
        raise UnreadableInputError(f"{path}: written by a newer traceanalyzer {newer}")


def _check_schema(db: "Database", path: Path) -> None:
    """Raises UnreadableInputError where a table lacks columns, or a view, which is code, is not
    this program's."""
    found = {str(name): (kind, _plain(sql)) for kind, name, sql in db.execute(_OBJECTS).fetchall()}
    for name, (kind, sql, columns) in _expected(MIGRATIONS).items():
        kind_found, sql_found = found.get(name, ("", ""))
        same = kind_found == kind and sql_found.startswith(f"create {kind}")
        if not same or (sql_found != sql if kind == "view" else not columns <= _columns(db, name)):
            why = "is not as this version makes it: damaged, changed, or of another version"
            raise UnreadableInputError(f"{path}: its {kind} {name} {why}")


@cache
def _expected(
    migrations: "tuple[Callable[[Database], None], ...]",
) -> dict[str, tuple[str, str, frozenset[str]]]:
    """Kind, statement and columns of what a history has, by name."""
    from sqlite_utils import Database

    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        made = Database(connection, execute_plugins=False)
        for migration in migrations:
            migration(made)
        return {
            name: (kind, _plain(sql), _columns(made, name))
            for kind, name, sql in made.execute(_OBJECTS).fetchall()
            if not name.startswith("sqlite_")
        }


def _columns(db: "Database", table: str) -> frozenset[str]:
    return frozenset(row[0] for row in db.execute("SELECT name FROM pragma_table_info(?)", [table]))


def _plain(sql: str) -> str:
    """The statement without line breaks and comments, in lower case."""
    return " ".join(re.sub(r"--[^\n]*", "", sql).replace('"', "").lower().split())


def _version(db: "Database") -> int:
    return int(db.execute("PRAGMA user_version").fetchone()[0])
