"""Opening a history file: whose it is, which schema it has, and one clear line for whatever is
wrong with it.

Writers queue for the write lock, each for one transaction. Not WAL but SQLite's ordinary journal
mode: it is one file then, which can be copied, and lies safely on the network file systems that
clusters share."""

import os
import re
import shutil
import sqlite3
import struct
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from traceanalyzer.base import TraceAnalyzerError, UnreadableInputError, dataclass
from traceanalyzer.base.files import note_read
from traceanalyzer.base.sqlite_guard import distrust
from traceanalyzer.history import migrations

if TYPE_CHECKING:
    from sqlite_utils import Database


MIGRATIONS: "tuple[Callable[[Database], None], ...]" = (
    migrations.create_tables,
    migrations.views,
    migrations.json_views,
    migrations.one_basis,
    migrations.summary_names,
)
"""In the order in which they are applied; a file's `user_version` counts those it has had."""
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
HALF_WRITTEN = "SQLITE_READONLY_ROLLBACK"  # a writer was killed: its journal has to be rolled back
JOURNAL = "-journal"
"""Suffix of SQLite's rollback journal. It is there while a run is stored, and after a writer was
killed."""
JOURNAL_MAGIC = bytes.fromhex("d9d505f920a163d7")
"""The last bytes of a journal that names a further file, which SQLite deletes as it rolls back
(https://www.sqlite.org/fileformat2.html#the_rollback_journal). A history is never written
together with another database, so its own journal names none."""
JOURNAL_HEADER = struct.Struct(">8sIIIII")
"""What a journal begins with: its magic, records, a nonce, pages of the file before, sizes of a sector
and of a page."""
PAGE_SIZES = {1 << bits for bits in range(9, 17)}
WAL_SUFFIXES = ("-wal", "-shm")
WAL_VERSION = 2  # bytes 18 and 19 of the header: the file is written by way of a -wal file
VERSIONS_AT = slice(18, 20)
OBJECTS = "SELECT type, name, coalesce(sql, '') FROM sqlite_master WHERE typeof(name) = 'text'"
OWN_NAMES = "sqlite_"  # SQLite names its own tables and indexes so; nobody else can


@contextmanager
def reading_database(path: Path) -> "Iterator[Database]":
    """The history in a file, to be read; the file stays as it is, whatever lies beside it.

    An older schema, and a file that a killed writer left half written, are read from a copy in
    which they are mended. Raises UnreadableInputError where there is no history."""
    # SQLite takes an empty file for a database; to bring its schema up to date would write into it.
    if not note_read(path).is_file() or not path.stat().st_size:
        raise UnreadableInputError(f"{path}: no such history; analyze --store {path} makes one")
    with _errors_of(path):
        _check_neighbours(path)
        if _is_current(path):
            with _connection(path, "ro") as db:
                _check_owner(db, path)
                _check_schema(db, path)
                yield db
            return
        with _copied(path) as copy, _written(copy, path) as db:
            db.execute("PRAGMA query_only = ON")
            yield db


def _is_current(path: Path) -> bool:
    """Whether the file can be read as it is: its schema is not an older one, and no writer that
    was killed left it half written."""
    try:
        with _connection(path, "ro") as db:
            return _version(db) >= len(MIGRATIONS)
    except sqlite3.OperationalError as error:
        if getattr(error, "sqlite_errorname", "") == HALF_WRITTEN:
            return False
        raise


@contextmanager
def _copied(path: Path) -> Iterator[Path]:
    """A copy of the file, with its journal, for as long as it is read."""
    with TemporaryDirectory(prefix="traceanalyzer-") as folder:
        copy = Path(folder) / "history.db"
        shutil.copyfile(path, copy)
        journal = _beside(path, JOURNAL)
        if journal.exists():
            _check_neighbours(path)
            shutil.copyfile(journal, _beside(copy, JOURNAL))
        yield copy


@contextmanager
def writing(path: Path) -> "Iterator[Database]":
    """The history in a file, made where there is none, in one transaction of the only writer.
    Raises TraceAnalyzerError where the file cannot be written or is something else."""
    with _errors_of(path), _no_empty_file(path):
        _check_neighbours(path)
        with _written(path, path) as db:
            yield db


@contextmanager
def _written(path: Path, named: Path) -> "Iterator[Database]":
    """The history in `path`, brought up to date, in one transaction; errors name it `named`."""
    with _connection(path, "rwc") as db:
        db.execute("BEGIN IMMEDIATE")
        try:
            _check_owner(db, named)
            _migrate(db)
            _check_schema(db, named)
            yield db
            db.execute("COMMIT")
        finally:
            if db.conn.in_transaction:
                db.execute("ROLLBACK")


def _migrate(db: "Database") -> None:
    had = _version(db)
    if had == len(MIGRATIONS):
        return
    for migration in MIGRATIONS[had:]:
        migration(db)
    db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    db.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")


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
    opened = sqlite3.connect(uri, uri=True, timeout=PATIENCE_S, isolation_level=None)
    with closing(opened) as connection:
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
        raise TraceAnalyzerError(f"{path}: {_meaning(error)}") from error


def _meaning(error: sqlite3.Error) -> str:
    code = getattr(error, "sqlite_errorname", "")
    for name, text in WRONG.items():
        if code.startswith(name):
            return text
    return str(error)


def _beside(path: Path, suffix: str) -> Path:
    """What SQLite keeps beside a file, links followed as it does."""
    return Path(f"{path.resolve()}{suffix}")


def _check_neighbours(path: Path) -> None:
    """Raises UnreadableInputError where SQLite would write, delete or believe files that a history
    never has: a journal that names a further file or is a link, a write-ahead log."""
    for suffix in WAL_SUFFIXES:
        if os.path.lexists(_beside(path, suffix)):
            raise UnreadableInputError(
                f"{path}: {path.name}{suffix} lies beside it, which no history has; remove it"
            )
    if path.is_file() and WAL_VERSION in _head(path, VERSIONS_AT.stop)[VERSIONS_AT]:
        raise UnreadableInputError(
            f"{path}: kept in SQLite's WAL mode, which no history is; "
            "turn it off (PRAGMA journal_mode = DELETE)"
        )
    journal = _beside(path, JOURNAL)
    if not os.path.lexists(journal):
        return
    if journal.is_symlink() or not journal.is_file() or journal.stat().st_nlink > 1:
        raise UnreadableInputError(
            f"{path}: {path.name}{JOURNAL} beside it is no file of its own, so no journal of SQLite; remove it"
        )
    if _tail(journal) == JOURNAL_MAGIC:
        raise UnreadableInputError(
            f"{path}: {path.name}{JOURNAL} beside it names a further file, which SQLite would "
            "delete; no history has such a journal: remove it"
        )
    if not _may_be_of(journal, path.stat().st_size if path.is_file() else 0):
        raise UnreadableInputError(
            f"{path}: {path.name}{JOURNAL} beside it is no journal of this file; remove it"
        )


def _may_be_of(journal: Path, size: int) -> bool:
    """Whether a journal can be that of a file of so many bytes, which only grows while it is
    written: SQLite brings the file to whatever length its journal states."""
    head = _head(journal, JOURNAL_HEADER.size)
    if head[:1] in (b"", b"\0"):
        return True  # not begun: SQLite rolls nothing back
    if len(head) < JOURNAL_HEADER.size:
        return False
    magic, _, _, pages, _, page_size = JOURNAL_HEADER.unpack(head)
    return magic == JOURNAL_MAGIC and page_size in PAGE_SIZES and pages * page_size <= size


def _head(path: Path, length: int) -> bytes:
    with path.open("rb") as file:
        return file.read(length)


def _tail(path: Path) -> bytes:
    """The last bytes of a journal, as many as its magic has."""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(size - len(JOURNAL_MAGIC), 0))
        return file.read()


def _check_owner(db: "Database", path: Path) -> None:
    """Raises UnreadableInputError where the file is somebody else's, or a newer version's, or has
    statements that run by themselves."""
    owner = db.execute("PRAGMA application_id").fetchone()[0]
    objects = db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    if owner != APPLICATION_ID and (owner or objects):
        raise UnreadableInputError(
            f"{path}: a database of something else; a history needs a file of its own"
        )
    if _version(db) > len(MIGRATIONS):
        raise UnreadableInputError(
            f"{path}: written by a newer traceanalyzer (schema {_version(db)}, this version knows "
            f"{len(MIGRATIONS)}): update traceanalyzer"
        )
    trigger = "SELECT name FROM sqlite_master WHERE type NOT IN ('table', 'view', 'index')"
    found = db.execute(trigger).fetchone()
    if found:
        raise UnreadableInputError(
            f"{path}: has a trigger ({found[0]}), a statement that runs by itself, "
            "which no history has"
        )


@dataclass(frozen=True)
class SchemaObject:
    """A table, view or index of a database."""

    kind: str
    sql: str  # as `_plain` gives it; empty for an index that SQLite made

    @classmethod
    def all_of(cls, db: "Database") -> "dict[str, SchemaObject]":
        """What a database has by name, without SQLite's own."""
        return {
            str(name): cls(str(kind), _plain(str(sql)))
            for kind, name, sql in db.execute(OBJECTS).fetchall()
            if not str(name).startswith(OWN_NAMES)
        }


def _check_schema(db: "Database", path: Path) -> None:
    """Raises UnreadableInputError where a table, view or index is not as this program makes it, or
    is one more: views, triggers, defaults, checks and indexes are code."""
    found = SchemaObject.all_of(db)
    expected = _expected(MIGRATIONS)
    for name, wanted in expected.items():
        if found.get(name) != wanted:
            why = "is not as this version makes it: damaged, changed, or of another version"
            raise UnreadableInputError(f"{path}: its {wanted.kind} {name} {why}")
    for name, other in found.items():
        if name not in expected:
            raise UnreadableInputError(
                f"{path}: has the {other.kind} {name}, which no history has; "
                "keep your own in a database beside it"
            )


@cache
def _expected(
    steps: "tuple[Callable[[Database], None], ...]",
) -> dict[str, SchemaObject]:
    """What a history has, by name."""
    from sqlite_utils import Database

    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        history = Database(connection, execute_plugins=False)
        for migration in steps:
            migration(history)
        return SchemaObject.all_of(history)


def _plain(sql: str) -> str:
    """The statement without line breaks and comments, in lower case."""
    uncommented = re.sub(r"--[^\n]*", "", sql)
    return " ".join(uncommented.replace('"', "").lower().split())


def _version(db: "Database") -> int:
    return int(db.execute("PRAGMA user_version").fetchone()[0])
