"""Runs are kept whole, each once, whoever else writes at the same time."""

import sqlite3
import subprocess
import sys
from contextlib import closing

import pytest

from tests.report.reports import empty, full, hostile
from traceanalyzer.base.errors import UnreadableInputError
from traceanalyzer.history.database import reading_database
from traceanalyzer.history.runs import (
    fingerprint,
    metric_series,
    store_report,
    stored_report,
    stored_runs,
)
from traceanalyzer.report.json import render_json

RUNS_OF_A_WRITER = 100
WRITER = f"""
import sys
from pathlib import Path
from tests.report.reports import full
from traceanalyzer.history.runs import store_report
report, path, name = full(), Path(sys.argv[1]), sys.argv[2]
sys.stdin.readline()
for n in range({RUNS_OF_A_WRITER}):
    store_report(path, report, tags={{"writer": name, "n": str(n)}})
"""


@pytest.fixture
def path(tmp_path):
    return tmp_path / "runs.db"


def rows(path, sql):
    with closing(sqlite3.connect(path)) as db:
        return db.execute(sql).fetchall()


@pytest.mark.parametrize("report", [full(), empty()], ids=["full", "empty"])
def test_a_report_comes_back_as_it_was(path, report):
    number = store_report(path, report)
    assert render_json(stored_report(f"{path}#{number}")) == render_json(report)


def test_names_and_figures_out_to_do_harm_are_kept_as_the_json_has_them(path):
    store_report(path, hostile())
    assert rows(path, "SELECT count(*) FROM findings") == [(len(hostile().findings),)]
    assert rows(path, "SELECT DISTINCT total_ms FROM kernels") == [(None,)]


def test_figures_are_in_plain_tables(path):
    store_report(
        path,
        full(),
        tags={"branch": "main", "gpu": "H200"},
        fingerprint="f00",
        selection="--rank 1",
    )
    run = rows(
        path, "SELECT bottleneck, step_time_ms, gpu, recordings, selection, fingerprint FROM runs"
    )
    assert run == [("sync", 15.8612, "NVIDIA H200", 1, "--rank 1", "f00")]
    assert rows(path, "SELECT value, unit FROM metrics WHERE name = 'budget_ms.idle'") == [
        (6.8332, "ms")
    ]
    assert rows(path, "SELECT position, id, class, headroom_ms FROM findings") == [
        (1, "host-waits", "sync", 6.491235),
        (2, "exposed-copies", "transfer", 0.198),
    ]
    assert rows(path, "SELECT count(*), max(position) FROM kernels") == [(30, 30)]
    assert rows(path, "SELECT name, shapes FROM ops") == [("aten::addmm", "[[4096], [64, 1024]]")]
    assert rows(path, "SELECT tags FROM run_overview") == [("branch=main gpu=H200",)]
    assert rows(path, "PRAGMA foreign_key_check") == []


def test_what_a_recording_cannot_tell_has_no_row(path):
    store_report(path, empty())
    names = rows(path, "SELECT name FROM metrics ORDER BY name")
    assert names == [("summary.confidence",), ("warmup_steps",)]
    assert rows(path, "SELECT step_time_ms, gpu FROM runs") == [(None, None)]


def test_the_same_recording_twice_is_two_runs_and_seen_as_such(path):
    for _ in range(2):
        store_report(path, full(), fingerprint="f00")
    store_report(path, full(), fingerprint="other")
    store_report(path, full())
    seen = rows(path, "SELECT run_id, same_recording_as FROM run_overview ORDER BY run_id")
    assert seen == [(1, None), (2, 1), (3, None), (4, None)]


def test_a_number_is_never_given_again_and_a_run_goes_with_all_it_has(path):
    store_report(path, full(), tags={"a": "b"})
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA foreign_keys = ON")
        db.execute("DELETE FROM runs")
        db.commit()
    left = [
        rows(path, f"SELECT count(*) FROM {t}")[0][0]
        for t in ("tags", "metrics", "kernels", "reports")
    ]
    assert left == [0, 0, 0, 0]
    assert store_report(path, full()) == 2


def test_a_run_that_fails_half_way_leaves_nothing(path):
    store_report(path, full())
    with pytest.raises(Exception, match=r"NOT NULL|binding"):
        store_report(path, full(), tags={"branch": None})  # type: ignore[dict-item]
    assert rows(path, "SELECT count(*) FROM runs") == [(1,)]


def test_two_processes_lose_nothing_and_double_nothing(path):
    command = [sys.executable, "-c", WRITER, str(path)]
    writers = [subprocess.Popen([*command, name], stdin=subprocess.PIPE) for name in "AB"]
    for writer in writers:
        writer.stdin.write(b"\n")
        writer.stdin.flush()
    assert [writer.wait() for writer in writers] == [0, 0]
    for writer in writers:
        writer.stdin.close()
    assert rows(path, "SELECT count(*), count(DISTINCT id) FROM runs") == [
        (2 * RUNS_OF_A_WRITER,) * 2
    ]
    assert rows(path, "SELECT count(*) FROM reports") == [(2 * RUNS_OF_A_WRITER,)]
    written = rows(
        path,
        "SELECT w.value, count(DISTINCT n.value), count(*) FROM tags w JOIN tags n ON n.run_id = w.run_id "
        "WHERE w.key = 'writer' AND n.key = 'n' GROUP BY 1",
    )
    assert written == [(name, RUNS_OF_A_WRITER, RUNS_OF_A_WRITER) for name in "AB"]
    assert rows(path, "PRAGMA integrity_check") == [("ok",)]


def test_a_fingerprint_is_of_contents_not_of_names_and_order(tmp_path):
    a, b, copy, other = (tmp_path / name for name in ("a", "b", "copy", "other"))
    for file, text in ((a, "1"), (b, "2"), (copy, "1"), (other, "3")):
        file.write_text(text)
    assert (
        fingerprint([str(a), str(b)])
        == fingerprint([str(b), str(copy)])
        != fingerprint([str(a), str(other)])
    )
    assert fingerprint([str(a), str(tmp_path / "gone")]) is None
    assert fingerprint([]) is None


@pytest.mark.parametrize("value", ["9e999", "-9e999", "1e300"])
def test_a_figure_out_of_all_reason_is_damage(path, value):
    store_report(path, full())
    with closing(sqlite3.connect(path)) as db, db:
        db.execute(f"UPDATE metrics SET value = {value} WHERE name = 'step_time_ms.mean'")
    with reading_database(path) as db, pytest.raises(UnreadableInputError, match="damaged"):
        metric_series(db, "step_time_ms", stored_runs(db))
