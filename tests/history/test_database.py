"""Files that are no history, damaged, locked, of other versions; the steps of the schema."""

import os
import signal
import sqlite3
import struct
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from sqlite_utils import Database

from tests.report.reports import full
from traceanalyzer.base.errors import TraceAnalyzerError
from traceanalyzer.history import database
from traceanalyzer.history.database import (
    APPLICATION_ID,
    JOURNAL_MAGIC,
    MIGRATIONS,
    check_storable,
    reading_database,
    writing,
)
from traceanalyzer.history.runs import is_reference, store_report, stored_report

KILLED = """
import os, signal, sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute("PRAGMA cache_size = 1")
db.execute("BEGIN IMMEDIATE")
db.execute("UPDATE reports SET json = json || json")
db.execute("DELETE FROM runs")
os.kill(os.getpid(), signal.SIGKILL)
"""
"""Dies within a transaction of which parts are in the file already."""


@pytest.fixture
def path(tmp_path):
    return tmp_path / "runs.db"


def pragma(path, name):
    with closing(sqlite3.connect(path)) as db:
        return db.execute(f"PRAGMA {name}").fetchone()[0]


def fails(path, says):
    """Reading and writing both fail with one line that names the file, and leave it as it was."""
    before = path.read_bytes() if path.is_file() else None
    for use in (reading_database, writing):
        with pytest.raises(TraceAnalyzerError, match=says) as raised, use(path) as db:
            db.execute("SELECT * FROM run_overview").fetchall()
        assert str(raised.value).startswith(f"{path}: ")
        assert "\n" not in str(raised.value)
    assert before is None or path.read_bytes() == before


def test_a_new_history_says_whose_it_is_and_which_schema_it_has(path):
    store_report(path, full())
    assert pragma(path, "application_id") == APPLICATION_ID
    assert pragma(path, "user_version") == len(MIGRATIONS)
    assert path.read_bytes()[68:72] == b"TrAn"
    assert [p.name for p in path.parent.iterdir()] == ["runs.db"]


@pytest.mark.parametrize("had", range(1, len(MIGRATIONS)))
def test_an_older_schema_is_read_as_it_is_and_brought_up_to_date_by_storing(path, monkeypatch, had):
    monkeypatch.setattr(database, "MIGRATIONS", MIGRATIONS[:had])
    store_report(path, full())
    monkeypatch.undo()
    before = path.read_bytes()
    with reading_database(path) as db:
        assert db.execute("SELECT count(*) FROM run_overview").fetchone() == (1,)
    assert stored_report(f"{path}#1").summary == full().summary
    assert path.read_bytes() == before
    assert store_report(path, full()) == 2
    assert pragma(path, "user_version") == len(MIGRATIONS)
    assert stored_report(f"{path}#1").summary == full().summary


def test_a_step_that_fails_changes_nothing(path, monkeypatch):
    store_report(path, full())

    def broken(db):
        db.execute("CREATE TABLE half (x)")
        raise sqlite3.OperationalError("step failed")

    monkeypatch.setattr(database, "MIGRATIONS", (*MIGRATIONS, broken))
    with pytest.raises(TraceAnalyzerError, match="step failed"), writing(path):
        pass
    monkeypatch.undo()
    with reading_database(path) as db:
        assert "half" not in db.table_names()
    assert pragma(path, "user_version") == len(MIGRATIONS)


def test_what_is_no_database(path):
    path.write_text("runs, but not in a database " * 50)
    fails(path, "not an SQLite database")


def test_a_database_of_something_else(path):
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE customers (id)")
        db.commit()
    fails(path, "a database of something else")


def test_a_newer_schema(path):
    store_report(path, full())
    with closing(sqlite3.connect(path)) as db:
        db.execute(f"PRAGMA user_version = {len(MIGRATIONS) + 1}")
    fails(path, "written by a newer traceanalyzer")


def test_a_damaged_database(path):
    store_report(path, full())
    data = bytearray(path.read_bytes())
    data[100:] = b"\xff" * (len(data) - 100)
    path.write_bytes(data)
    fails(path, "the database is damaged|not an SQLite database")


def test_a_folder(tmp_path):
    with pytest.raises(TraceAnalyzerError, match="no such history"), reading_database(tmp_path):
        pass
    with pytest.raises(TraceAnalyzerError, match="cannot be opened"), writing(tmp_path):
        pass


def test_a_file_that_is_not_there_is_not_made_by_reading(path):
    with (
        pytest.raises(TraceAnalyzerError, match="no such history; analyze --store"),
        reading_database(path),
    ):
        pass
    check_storable(path)
    assert not path.exists()


def test_a_folder_that_is_not_there(tmp_path):
    with pytest.raises(TraceAnalyzerError, match="is not a folder; make it first"):
        check_storable(tmp_path / "gone" / "runs.db")


def test_a_history_that_cannot_be_written(path, monkeypatch):
    store_report(path, full())
    connection = database._connection
    monkeypatch.setattr(database, "_connection", lambda path, mode: connection(path, "ro"))
    with pytest.raises(TraceAnalyzerError, match=r"runs\.db: the database cannot be written"):
        store_report(path, full())


def test_a_writer_that_was_killed_leaves_nothing_half_done(path):
    store_report(path, full())
    killed = subprocess.run([sys.executable, "-c", KILLED, str(path)], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert Path(f"{path}-journal").stat().st_size > 0
    with reading_database(path) as db:
        assert db.execute("SELECT count(*) FROM runs").fetchone() == (1,)
    assert store_report(path, full()) == 2
    assert pragma(path, "integrity_check") == "ok"


def test_reading_what_a_killed_writer_left_writes_nothing(path):
    store_report(path, full())
    subprocess.run([sys.executable, "-c", KILLED, str(path)], check=False)
    journal = Path(f"{path}-journal")
    before = path.read_bytes(), journal.read_bytes()
    assert stored_report(f"{path}#latest").summary == full().summary
    assert (path.read_bytes(), journal.read_bytes()) == before


def journal_that_names(path: Path, victim: Path) -> bytes:
    """A rollback journal without pages whose last record has SQLite delete a file."""
    data = path.read_bytes()
    page = int.from_bytes(data[16:18], "big")
    name = str(victim).encode()
    head = JOURNAL_MAGIC + struct.pack(">IIIII", 0, 7, len(data) // page, 512, page)
    last_page = struct.pack(">I", (1 << 30) // page + 1)
    tail = struct.pack(">II", len(name), sum(name)) + JOURNAL_MAGIC
    return head.ljust(512, b"\0") + last_page + name + tail


def test_a_journal_that_names_a_further_file_deletes_nothing(path, tmp_path):
    store_report(path, full())
    victim = tmp_path / "thesis.tex"
    victim.write_text("three years of work")
    journal = Path(f"{path}-journal")
    journal.write_bytes(journal_that_names(path, victim))
    fails(path, "names a further file")
    with pytest.raises(TraceAnalyzerError, match="names a further file"):
        check_storable(path)
    assert victim.read_text() == "three years of work"
    assert journal.exists()


@pytest.mark.parametrize(
    "head",
    [
        JOURNAL_MAGIC
        + struct.pack(">IIIII", 0, 7, 2**31, 512, 4096),  # the file would become 8 TB long
        JOURNAL_MAGIC + struct.pack(">IIIII", 2**32 - 1, 7, 10**6, 512, 65536),
        b"notes about the runs, which SQLite would remove as a journal without a record",
        JOURNAL_MAGIC,
    ],
)
def test_a_journal_of_another_file_is_refused_and_nothing_changes(path, head):
    store_report(path, full())
    before = path.read_bytes()
    journal = Path(f"{path}-journal")
    journal.write_bytes(head.ljust(512, b"\0"))
    fails(path, "is no journal of this file")
    with pytest.raises(TraceAnalyzerError, match="is no journal of this file"):
        store_report(path, full())
    assert path.read_bytes() == before
    assert journal.read_bytes() == head.ljust(512, b"\0")


@pytest.mark.parametrize("link", [os.symlink, os.link])
def test_a_journal_that_is_a_link_is_not_written_through(path, tmp_path, link):
    store_report(path, full())
    victim = tmp_path / "thesis.tex"
    victim.write_bytes(bytes(2000))
    link(victim, f"{path}-journal")
    fails(path, "is no file of its own, so no journal of SQLite")
    assert victim.read_bytes() == bytes(2000)


def test_a_write_ahead_log_beside_a_history_is_not_believed(path):
    store_report(path, full())
    Path(f"{path}-wal").write_bytes(b"x" * 100)
    fails(path, "-wal lies beside it, which no history has")
    Path(f"{path}-wal").unlink()
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA journal_mode = WAL")
    fails(path, "kept in SQLite's WAL mode")


@pytest.mark.parametrize(
    ("statement", "says"),
    [
        ("CREATE TRIGGER t AFTER INSERT ON runs BEGIN DELETE FROM tags; END", "has a trigger"),
        ("CREATE VIEW mine AS SELECT 1", "has the view mine"),
        ("CREATE TABLE mine (x)", "has the table mine"),
        ("CREATE INDEX mine ON runs(abs(id))", "has the index mine"),
        ("ALTER TABLE runs ADD COLUMN x CHECK (x > 0)", "its table runs is not as"),
    ],
)
def test_code_that_no_history_has_does_not_run(path, statement, says):
    store_report(path, full())
    with closing(sqlite3.connect(path)) as db, db:
        db.execute(statement)
    fails(path, says)


def test_reading_cannot_write(path):
    store_report(path, full())
    with pytest.raises(TraceAnalyzerError, match="cannot be written"), reading_database(path) as db:
        db.execute("DELETE FROM runs")


def test_a_lock_that_is_never_given_back(path, monkeypatch):
    store_report(path, full())
    monkeypatch.setattr(database, "PATIENCE_S", 0.01)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(TraceAnalyzerError, match="kept the database locked"):
            store_report(path, full())
        with reading_database(path) as db:
            assert db.execute("SELECT count(*) FROM runs").fetchone() == (1,)


def test_references(path):
    for branch in ("main", "fix", "main"):
        store_report(path, full(), tags={"branch": branch})
    for reference in ("1", "latest", "branch=main", "branch=fix"):
        assert is_reference(f"{path}#{reference}")
        assert stored_report(f"{path}#{reference}").summary == full().summary
    assert not is_reference(str(path))
    assert not is_reference("trace.json")
    odd = Path(f"{path}#1")
    odd.write_text("{}")
    assert not is_reference(str(odd))


@pytest.mark.parametrize(
    ("reference", "says"),
    [
        ("#4", r"runs\.db#4: no such run; it holds 3 run\(s\), 1 to 3"),
        ("#999999999999999999", "no such run"),
        ("#branch=other", "no such run"),
        ("#last", "no stored run; name one as"),
        ("", "no stored run"),
    ],
)
def test_a_reference_to_no_run_says_what_there_is(path, reference, says):
    for _ in range(3):
        store_report(path, full())
    with pytest.raises(TraceAnalyzerError, match=says):
        stored_report(f"{path}{reference}")


def test_a_reference_into_no_file(path):
    with pytest.raises(TraceAnalyzerError, match="no such history"):
        stored_report(f"{path}#1")
    with writing(path):
        pass
    with pytest.raises(TraceAnalyzerError, match="it holds no runs"):
        stored_report(f"{path}#latest")


def test_the_documentation_has_every_table_and_column(path):
    rows = {
        line.split("`")[1]: line
        for line in (Path(__file__).parents[2] / "docs" / "history.md")
        .read_text(encoding="utf-8")
        .splitlines()
        if line.startswith("| `")
    }
    with writing(path):
        pass
    with closing(sqlite3.connect(path)) as connection:
        db = Database(connection)
        tables = {name: db[name].columns_dict for name in [*db.table_names(), *db.view_names()]}
    assert set(rows) == set(tables) - {"sqlite_sequence"}
    missing = [
        f"{name}.{column}"
        for name in rows
        for column in tables[name]
        if f"`{column}`" not in rows[name]
    ]
    assert missing == [
        f"run_overview.{column}"
        for column in tables["run_overview"]
        if column not in ("step_ms", "idle_share", "same_recording_as")
    ]
