"""Tables read from the pages of the file have the values that SQLite gives row by row."""

from __future__ import annotations

import random
import sqlite3
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.recorded import NSYS, label
from traceanalyzer.base.errors import UnreadableInputError
from traceanalyzer.ingest import nsys
from traceanalyzer.ingest.nsys import nvtx_names
from traceanalyzer.ingest.sqlite import pages, records
from traceanalyzer.ingest.sqlite.database import Database, NotInPagesError, open_database
from traceanalyzer.trace import Table

if TYPE_CHECKING:
    from pathlib import Path

COLUMNS = {"a": -1, "b": -7, "missing": 5, "rowid": -1}
NUMBERS = st.none() | st.integers(-(2**63), 2**63 - 1)
ODD = st.one_of(
    NUMBERS,
    st.floats(-1e15, 1e15),
    st.sampled_from(["12", "x", "", "1,2", " 7", "3.5", "9" * 30, b"4", b"\x00", "5\n6"]),
)
LEAST = -(2**63)


def written(folder: Path, rows: list[tuple[Any, Any, Any]], first: int = 1) -> Path:
    path = folder / "table.sqlite"
    path.unlink(missing_ok=True)
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE t (a, b INTEGER, text TEXT)")
        for i, row in enumerate(rows):
            db.execute("INSERT INTO t (rowid, a, b, text) VALUES (?, ?, ?, ?)", (first + i, *row))
    db.close()
    return path


def row_by_row(database: Database, columns: dict[str, int]) -> dict[str, Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Database, "parts", refused)
        return database.integers("t", columns)


def refused(*_: Any, **__: Any) -> Any:
    raise NotInPagesError


def same(path: Path, columns: dict[str, int]) -> None:
    with open_database(path, "table") as database:
        whole = database.integers("t", columns)
        single = row_by_row(database, columns)
    for name in columns:
        assert whole[name].dtype == np.int64
        assert whole[name].tolist() == single[name].tolist(), name


@given(
    st.lists(st.tuples(ODD, NUMBERS, st.none()), max_size=12),
    st.sampled_from([1, -3, LEAST, 2**63 - 20]),
)
@settings(max_examples=150)
def test_any_values(tmp_path_factory: pytest.TempPathFactory, rows: Any, first: int) -> None:
    path = written(tmp_path_factory.mktemp("t"), rows, first)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pages, "PAGES_AT_ONCE", 1)
        same(path, COLUMNS)
        same(path, {"missing": 3})


def unlike(count: int) -> list[tuple[Any, Any, Any]]:
    """Rows of which hardly two have the same header."""
    drawn = random.Random(3)  # noqa: S311
    return [
        (drawn.getrandbits(drawn.randrange(63)), drawn.choice([None, 0, 300]), "x" * (i % 500))
        for i in range(count)
    ]


def test_rows_with_hundreds_of_different_headers(tmp_path: Path) -> None:
    path = written(tmp_path, unlike(3000))
    same(path, COLUMNS)
    with open_database(path, "table") as database:
        found = [text for part in database.parts("t", {"a": 0}, text="text") for text in part.texts]
    assert found == [b"x" * (i % 500) for i in range(3000)]


def test_headers_that_cannot_be_told_apart_are_read_by_sqlite(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path, unlike(100))
    monkeypatch.setattr(records, "_MIXING", 0)
    with open_database(path, "table") as database, pytest.raises(NotInPagesError):
        list(database.parts("t", COLUMNS))
    same(path, COLUMNS)


@given(st.lists(st.none() | st.text(max_size=70) | st.binary(max_size=70) | NUMBERS, max_size=9))
def test_texts(tmp_path_factory: pytest.TempPathFactory, texts: list[Any]) -> None:
    path = written(tmp_path_factory.mktemp("t"), [(1, 2, text) for text in texts])
    with open_database(path, "table") as database:
        single = [row[0] for row in database.rows("t", {"text": b""})]
        found = database.each("t", {"a": -1}, lambda part: part.texts, text="text")
        assert [one for part in found for one in part] == single


@given(
    st.integers(1, 3000),
    st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=5),
    st.sampled_from([512, 4096, 65536]),
)
@settings(max_examples=30, deadline=None)
def test_many_rows_and_sizes_of_pages(
    tmp_path_factory: pytest.TempPathFactory, rows: int, values: list[int], page: int
) -> None:
    """Trees of one to three levels."""
    path = tmp_path_factory.mktemp("t") / "table.sqlite"
    with sqlite3.connect(path) as db:
        db.execute(f"PRAGMA page_size = {page}")
        db.execute("CREATE TABLE t (a, b INTEGER, text TEXT)")
        given = [(values[i % len(values)], i, "x" * (i % 90)) for i in range(rows)]
        db.executemany("INSERT INTO t VALUES (?, ?, ?)", given)
        db.execute("DELETE FROM t WHERE b % 7 = 3")
    db.close()
    kept = [row for row in given if row[1] % 7 != 3]
    with open_database(path, "table") as database:
        found = list(database.parts("t", {"a": 0, "b": -1, "rowid": 0}, text="text"))
    assert [x for part in found for x in part.integers["a"].tolist()] == [row[0] for row in kept]
    assert [x for part in found for x in part.integers["rowid"].tolist()] == [
        row[1] + 1 for row in kept
    ]
    assert [x for part in found for x in part.texts] == [row[2].encode() for row in kept]


@pytest.mark.parametrize(
    ("statement", "why"),
    [
        ("INSERT INTO t VALUES (1, 2, printf('%5000d', 7))", "a row that goes on in other pages"),
        ("INSERT INTO t VALUES (0.5, 2, 'x')", "no integer"),
        ("INSERT INTO t (rowid, a) VALUES (-5, 1)", "a negative number of the row"),
        ("ALTER TABLE t ADD COLUMN added INTEGER DEFAULT 3", "a value that is in the schema alone"),
    ],
)
def test_what_is_not_plain_is_left_to_sqlite(statement: str, why: str, tmp_path: Path) -> None:
    path = written(tmp_path, [(1, 2, "a"), (3, None, "b")])
    with sqlite3.connect(path) as db:
        db.execute(statement)
    db.close()
    with open_database(path, "table") as database:
        with pytest.raises(NotInPagesError):
            list(database.parts("t", {"a": 0, "added": 0}, text="text"))
        same_texts = database.each("t", {"a": 0, "added": 0}, lambda part: part.texts, text="text")
        assert len(same_texts) == 1, why
    same(path, {"a": -1, "b": -7, "added": 0})


@pytest.mark.parametrize("seed", range(60))
def test_damaged_pages_give_what_sqlite_gives_or_are_left_to_it(seed: int, tmp_path: Path) -> None:
    """Any byte may be any other: never another exception, never a place outside of the page."""
    chance = random.Random(seed)  # noqa: S311 not for cryptography
    path = written(tmp_path, [(i, i * i, f"text {i}") for i in range(400)])
    data = bytearray(path.read_bytes())
    for _ in range(chance.choice((1, 3, 30))):
        data[chance.randrange(100, len(data))] = chance.choice(
            (0, 1, 5, 13, 127, 128, 255, chance.randrange(256))
        )
    path.write_bytes(bytes(data[: chance.choice((len(data), len(data) - 3000))]))
    with suppress(UnreadableInputError), open_database(path, "table") as database:
        rows = list(database.rows("t", {"a": -1, "b": -7}))
        if not database.damaged:
            try:
                found = list(database.parts("t", {"a": -1, "b": -7}))
            except NotInPagesError:
                return
            assert [
                pair
                for p in found
                for pair in zip(*(p.integers[n].tolist() for n in "ab"), strict=True)
            ] == rows


def test_a_table_without_rowid_or_with_a_column_of_that_name(tmp_path: Path) -> None:
    for i, columns in enumerate(("a INTEGER PRIMARY KEY, b) WITHOUT ROWID", "a, b, rowid)")):
        path = tmp_path / f"{i}.sqlite"
        with sqlite3.connect(path) as db:
            db.execute(f"CREATE TABLE t ({columns}")
            db.execute("INSERT INTO t (a, b) VALUES (1, 2), (3, 4)")
        db.close()
        with open_database(path, "table") as database:
            with pytest.raises(NotInPagesError):
                list(database.parts("t", {"a": 0}))
            assert database.integers("t", {"a": 0})["a"].tolist() == [1, 3]


@pytest.mark.parametrize("path", NSYS, ids=label)
def test_recordings(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "PAGES_AT_ONCE", 2)
    found = nsys.read(path)
    monkeypatch.setattr(Database, "parts", refused)
    for one, other in zip(found, nsys.read(path), strict=True):
        assert one.strings == other.strings
        for name, table in vars(one).items():
            if isinstance(table, Table):
                for column, values in vars(table).items():
                    assert np.array_equal(values, getattr(getattr(other, name), column)), (
                        name,
                        column,
                    )


PIECES = b"aten::add|aten::mm|x||, seq = 3|, seq = 12|, op_id = 4|, op_id = 007|, op_id = |, sizes = [[1]]|step 7|5|,"
NINES = b"|, seq = " + b"9" * 18 + b"|, seq = " + b"9" * 19 + b"|\n|\xff"
EMITTED = st.sampled_from((PIECES + NINES).split(b"|"))


@given(st.lists(st.lists(EMITTED, max_size=4).map(b"".join), max_size=12))
@settings(max_examples=300)
def test_texts_say_together_what_each_says_alone(texts: list[bytes]) -> None:
    together = Codes()
    alone = Codes()
    name, sequence, shapes = nvtx_names.RangeNames(together).of(texts)  # type: ignore[arg-type]
    each = [nvtx_names.RangeNames(alone)._said(text) for text in texts]  # type: ignore[arg-type]
    named = [together.values[code] if code >= 0 else "" for code in name.tolist()]
    assert named == [alone.values[said[0]] if said[0] >= 0 else "" for said in each]
    assert sequence.tolist() == [said[1] for said in each]
    shaped = [together.values[code] if code >= 0 else "" for code in shapes.tolist()]
    assert shaped == [alone.values[said[2]] if said[2] >= 0 else "" for said in each]


class Codes:
    """The strings of an export that has none of its own."""

    def __init__(self) -> None:
        self.values: list[str] = []

    def code(self, text: str) -> int:
        if text not in self.values:
            self.values.append(text)
        return self.values.index(text)
