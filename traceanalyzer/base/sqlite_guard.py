"""SQLite files of strangers: a schema is code (views, generated columns, triggers), and must not
run for ever.

See "Defense Against The Dark Arts" of SQLite's own documentation
(https://www.sqlite.org/security.html)."""

import sqlite3
from collections.abc import Collection

INSTRUCTIONS = 20_000_000
INSTRUCTIONS_A_BYTE = 100
"""What reading may take of SQLite's instructions. A row of a table takes one for each two bytes or
so."""
WRITTEN_BYTES = (
    16 << 20
)  # a report that is stored is never larger; no value that is read is larger than its file
LARGEST_VALUE = 2**31 - 1  # bytes; more is no number to SQLite
ASKED_EVERY = 100_000
_FUNCTIONS = frozenset(
    {"coalesce", "like", "count", "min", "max", "substr", "typeof", "group_concat"}
)
"""What this program's own queries call."""


def distrust(connection: sqlite3.Connection, size: int) -> None:
    """Let no statement on a file of `size` bytes run functions of its schema, recurse, or go on and
    on. A statement that does raises sqlite3.OperationalError."""
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, min(max(size, WRITTEN_BYTES), LARGEST_VALUE))
    connection.set_authorizer(_harmless)
    left = INSTRUCTIONS + INSTRUCTIONS_A_BYTE * size

    def spent() -> bool:
        nonlocal left
        left -= ASKED_EVERY
        return left < 0

    connection.set_progress_handler(spent, ASKED_EVERY)


def allow_reads_of(connection: sqlite3.Connection, tables: Collection[str]) -> None:
    """Let statements read these tables by the functions this program uses, and do nothing else."""
    known = frozenset(tables) | {"sqlite_master"}

    def asked(
        action: int, what: str | None, name: str | None, _: str | None, within: str | None
    ) -> int:
        allowed = (
            action == sqlite3.SQLITE_SELECT
            or (action == sqlite3.SQLITE_READ and what in known and within is None)
            or (action == sqlite3.SQLITE_FUNCTION and str(name).lower() in _FUNCTIONS)
        )
        return sqlite3.SQLITE_OK if allowed else sqlite3.SQLITE_DENY

    connection.set_authorizer(asked)


def _harmless(action: int, _: str | None, name: str | None, *__: str | None) -> int:
    unknown = action == sqlite3.SQLITE_FUNCTION and str(name).lower() not in _FUNCTIONS
    return (
        sqlite3.SQLITE_DENY if unknown or action == sqlite3.SQLITE_RECURSIVE else sqlite3.SQLITE_OK
    )
