"""SQLite promises no order of rows: the same rows in any order are the same recording."""

from __future__ import annotations

import gzip
import random
import sqlite3
from pathlib import Path

import pytest

import traceanalyzer
from traceanalyzer.report.json import as_plain

SAMPLES = Path(__file__).resolve().parents[3] / "sample_traces"


@pytest.mark.parametrize("name", ["nsys_sync_bound", "nsys_input_bound", "nsys_cuda_graph"])
def test_the_order_of_an_exports_rows_means_nothing(name: str, tmp_path: Path) -> None:
    (path,) = SAMPLES.joinpath(name).glob("*.sqlite.gz")
    plain = tmp_path / "plain.sqlite"
    shuffled = tmp_path / "shuffled.sqlite"
    for copy in (plain, shuffled):
        copy.write_bytes(gzip.decompress(path.read_bytes()))
    order = random.Random(7)  # noqa: S311
    with sqlite3.connect(shuffled) as connection:
        for (table,) in connection.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table'"
        ).fetchall():
            rows = connection.execute(f'SELECT * FROM "{table}"').fetchall()
            if len(rows) > 1:
                order.shuffle(rows)
                connection.execute(f'DELETE FROM "{table}"')
                places = ", ".join("?" * len(rows[0]))
                connection.executemany(f'INSERT INTO "{table}" VALUES ({places})', rows)
    connection.close()
    a, b = (as_plain(traceanalyzer.analyze(file)) for file in (plain, shuffled))
    a["inputs"][0].pop("path"), b["inputs"][0].pop("path")
    assert a == b
