"""Tables read as texts of thousands of rows have the values that reading row by row gives."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.recorded import NSYS, label
from traceanalyzer.ingest import nsys
from traceanalyzer.ingest.nsys import database as sqlite_file
from traceanalyzer.ingest.nsys import nvtx
from traceanalyzer.ingest.nsys.database import Database, NotWholeError, open_database
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
    raise NotWholeError


def same(path: Path, columns: dict[str, int]) -> None:
    with open_database(path, "table") as database:
        whole, single = database.integers("t", columns), row_by_row(database, columns)
    for name in columns:
        assert whole[name].dtype == np.int64
        assert whole[name].tolist() == single[name].tolist(), name


@given(st.lists(st.tuples(ODD, NUMBERS, st.none()), max_size=12), st.sampled_from([1, -3, LEAST, 2**63 - 20]))
@settings(max_examples=150)
def test_any_values(tmp_path_factory: pytest.TempPathFactory, rows: Any, first: int) -> None:
    path = written(tmp_path_factory.mktemp("t"), rows, first)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sqlite_file, "_ROWS_A_PART", 4)
        same(path, COLUMNS)
        same(path, {"missing": 3})


@given(st.lists(st.none() | st.text(max_size=5) | st.binary(max_size=5), max_size=9))
def test_texts(tmp_path_factory: pytest.TempPathFactory, texts: list[Any]) -> None:
    path = written(tmp_path_factory.mktemp("t"), [(1, 2, text) for text in texts])
    with pytest.MonkeyPatch.context() as patch, open_database(path, "table") as database:
        patch.setattr(sqlite_file, "_ROWS_A_PART", 4)
        single = [row[0] for row in database.rows("t", {"text": b""})]
        try:
            found = [one for part in database.parts("t", {"a": -1}, text="text") for one in part.texts]
        except NotWholeError:
            assert any(b"\n" in one for one in single)
        else:
            assert found == single


def test_a_table_without_rowid_or_with_a_column_of_that_name(tmp_path: Path) -> None:
    for i, columns in enumerate(("a INTEGER PRIMARY KEY, b) WITHOUT ROWID", "a, b, rowid)")):
        path = tmp_path / f"{i}.sqlite"
        with sqlite3.connect(path) as db:
            db.execute(f"CREATE TABLE t ({columns}")
            db.execute("INSERT INTO t (a, b) VALUES (1, 2), (3, 4)")
        db.close()
        with open_database(path, "table") as database:
            with pytest.raises(NotWholeError):
                list(database.parts("t", {"a": 0}))
            assert database.integers("t", {"a": 0})["a"].tolist() == [1, 3]


@pytest.mark.parametrize("path", NSYS, ids=label)
def test_recordings(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_file, "_ROWS_A_PART", 100)
    found = nsys.read(path)
    monkeypatch.setattr(Database, "parts", refused)
    for one, other in zip(found, nsys.read(path), strict=True):
        assert one.strings == other.strings
        for name, table in vars(one).items():
            if isinstance(table, Table):
                for column, values in vars(table).items():
                    assert np.array_equal(values, getattr(getattr(other, name), column)), (name, column)


@given(
    st.lists(st.sampled_from([b"aten::add, seq = 3", b"aten::mm", b"", b"step", b"x, op_id = 4", b"a, sizes = [[1]]"]))
)
def test_texts_that_are_alike_are_looked_at_once(texts: list[bytes]) -> None:
    results = []
    for alike in (0, 10**9):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(nvtx, "MANY_ALIKE", alike)
            strings = Codes()
            names = nvtx._Names(strings)  # type: ignore[arg-type]
            for _ in range(2):
                names.extend(texts)
        results.append((names.code.tolist(), names.sequence.tolist(), names.shapes.tolist(), strings.values))
    assert results[0] == results[1]


class Codes:
    """The strings of an export that has none of its own."""

    def __init__(self) -> None:
        self.values: list[str] = []

    def code(self, text: str) -> int:
        if text not in self.values:
            self.values.append(text)
        return self.values.index(text)
