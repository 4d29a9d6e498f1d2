"""Exports of 2 GiB and more: sparse files that take no disk."""

from __future__ import annotations

import os
import sqlite3
from typing import TYPE_CHECKING

import pytest

import traceanalyzer
from tests.nsys_builder import small_run
from traceanalyzer.base.errors import UnreadableInputError
from traceanalyzer.history.database import reading_database
from traceanalyzer.ingest import load
from traceanalyzer.ingest.sqlite.database import open_database

if TYPE_CHECKING:
    from pathlib import Path

BORDER = 2**31
PAGE_BYTES = 65_536
KERNELS = "CUPTI_ACTIVITY_KIND_KERNEL"


@pytest.fixture
def small(tmp_path: Path) -> Path:
    return small_run("3.24.0").write(tmp_path / "small.sqlite")


@pytest.mark.parametrize("size", [BORDER - 1, BORDER, 3 * BORDER + 17])
def test_an_export_is_read_whatever_its_size(size: int, small: Path) -> None:
    before = rows(small)
    os.truncate(small, size)
    assert rows(small) == before
    assert traceanalyzer.analyze(small).summary.headline


def test_rows_beyond_the_border_are_read_by_pages_and_by_sqlite(
    small: Path, tmp_path: Path
) -> None:
    large = with_tables_beyond(BORDER, small, tmp_path / "large.sqlite")
    assert rows(large) == rows(small)
    with open_database(large, "large") as database, open_database(small, "small") as plain:
        assert database.layouts[KERNELS].root * PAGE_BYTES > BORDER
        parts = list(database.parts(KERNELS, {"start": -1, "end": -1}))
        assert [part.integers["start"].tolist() for part in parts] == [
            part.integers["start"].tolist()
            for part in plain.parts(KERNELS, {"start": -1, "end": -1})
        ]
        assert [*database.rows(KERNELS, {"start": -1})] == [*plain.rows(KERNELS, {"start": -1})]


def rows(path: Path) -> list[tuple[int, ...]]:
    ops = load([path]).traces[0].device_ops
    return list(zip(ops.start.tolist(), ops.end.tolist(), ops.stream.tolist(), strict=True))


def with_tables_beyond(place: int, source: Path, path: Path) -> Path:
    """A copy of a database whose tables lie behind this place."""
    with sqlite3.connect(path) as db:
        db.execute(f"PRAGMA page_size = {PAGE_BYTES}")
        db.execute("CREATE TABLE first (x)")
    db.close()
    pages = place // PAGE_BYTES + 1
    os.truncate(path, pages * PAGE_BYTES)
    with path.open("r+b") as file:
        file.seek(28)
        file.write(pages.to_bytes(4, "big"))
    with sqlite3.connect(path) as db:
        db.execute("ATTACH ? AS source", (str(source),))
        for name, sql in db.execute(
            "SELECT name, sql FROM source.sqlite_master WHERE type = 'table'"
        ).fetchall():
            db.execute(sql)
            db.execute(f'INSERT INTO main."{name}" SELECT * FROM source."{name}"')
    db.close()
    return path


def test_a_large_file_that_is_no_history_is_one_error(small: Path) -> None:
    os.truncate(small, BORDER)
    with (
        pytest.raises(UnreadableInputError, match="a database of something else"),
        reading_database(small),
    ):
        pass
