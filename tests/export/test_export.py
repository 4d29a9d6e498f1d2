"""Exports: events by brute force, measurements as the tables have them, and the queries of
docs/sql.md."""

from __future__ import annotations

import gzip
import json
import re
import sqlite3

import pandas as pd
import pytest
from click.testing import CliRunner

import traceanalyzer as ta
from tests.recorded import ROOT
from traceanalyzer.cli import cli
from traceanalyzer.diagnosis.selection import measured
from traceanalyzer.export.events import EVENTS
from traceanalyzer.report.table_entries import TABLES

SAMPLES = ROOT / "sample_traces"
QUERIES = re.findall(
    r"^## (.+?)\n```sql\n(.+?)```", (ROOT / "docs" / "sql.md").read_text(), re.M | re.S
)


def export(tmp_path, *paths, name="events.sqlite", status=0):
    done = CliRunner().invoke(cli, ["export", *map(str, paths), "-o", str(tmp_path / name)])
    assert done.exit_code == status, (done.output, done.exception)
    return tmp_path / name


def rows(path, query):
    with sqlite3.connect(path) as database:
        return pd.read_sql_query(query, database)


@pytest.fixture(scope="module")
def sync_bound(tmp_path_factory):
    return export(tmp_path_factory.mktemp("sync"), SAMPLES / "sync_bound")


def test_every_event_of_the_file_is_a_row(sync_bound):
    (file,) = (SAMPLES / "sync_bound").glob("trace*.json.gz")
    with gzip.open(file) as opened:
        events = [e for e in json.load(opened)["traceEvents"] if e.get("ph") == "X"]
    kernels = rows(
        sync_bound, "SELECT name, duration_ns FROM kernel_events ORDER BY start_ns, name"
    )
    expected = [e for e in events if e["cat"] == "kernel"]
    assert sorted(kernels["name"]) == sorted(e["name"] for e in expected)
    assert kernels["duration_ns"].sum() == pytest.approx(
        sum(e["dur"] for e in expected) * 1e3, abs=len(expected)
    )
    calls = rows(sync_bound, "SELECT count(*) AS n FROM api_calls")["n"][0]
    assert calls == sum(e["cat"] in ("cuda_runtime", "cuda_driver") for e in events)


def test_a_kernel_has_the_operator_that_its_external_id_names(sync_bound):
    (file,) = (SAMPLES / "sync_bound").glob("trace*.json.gz")
    with gzip.open(file) as opened:
        events = [e for e in json.load(opened)["traceEvents"] if e.get("ph") == "X" and "args" in e]
    operator = {e["args"]["External id"]: e["name"] for e in events if e["cat"] == "cpu_op"}
    named = {
        e["args"]["correlation"]: operator[e["args"]["External id"]]
        for e in events
        if e["cat"] == "kernel" and e["args"].get("External id") in operator
    }
    found = rows(
        sync_bound, "SELECT correlation, operator FROM kernel_events WHERE operator IS NOT NULL"
    )
    assert len(named) > 100
    assert dict(zip(found["correlation"], found["operator"], strict=True)) == named


@pytest.mark.parametrize("name", ["sync_bound", "nsys_sync_bound", "tensor_parallel"])
def test_frames_and_export_are_the_same(tmp_path, name):
    path = SAMPLES / name
    made = export(tmp_path, path)
    with sqlite3.connect(made) as database:
        there = {
            one
            for (one,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        }
    for table in EVENTS:
        frame = ta.frame(path, table)
        assert (table in there) == (len(frame) > 0)
        if len(frame):
            stored = rows(made, f"SELECT * FROM {table} ORDER BY id").drop(columns="id")
            assert list(stored) == list(frame)
            for column in frame:
                expected = [None if pd.isna(one) else one for one in frame[column]]
                assert [None if pd.isna(one) else one for one in stored[column]] == expected, (
                    table,
                    column,
                )
    for table in TABLES:
        if table.of_every_rank:
            assert len(ta.frame(path, table.name)) == (
                len(rows(made, f"SELECT * FROM {table.name}")) if table.name in there else 0
            )
    gaps = rows(made, "SELECT * FROM gaps ORDER BY start_ns, id")
    assert (gaps["duration_ns"] / 1e6).tolist() == pytest.approx(
        ta.frame(path, "gaps")["duration_ms"].tolist()
    )


def test_each_frame_says_what_its_columns_mean_and_is_typed_where_it_is_empty():
    one = ta.frames(SAMPLES / "sync_bound")
    for name, frame in (one | ta.frames(SAMPLES / "tensor_parallel")).items():
        assert set(frame.attrs["definitions"]) == set(frame), name
        assert all(frame.attrs["definitions"].values()), name
    assert one["memory_events"].empty
    assert set(one["memory_events"].dtypes.astype(str)) <= {"int64", "Int64"}
    assert one["iterations"].empty
    assert one["iterations"]["phase"].dtype == "category"
    assert one["iterations"]["gap_ms"].dtype == "float64"


def test_columns_have_the_same_type_in_every_recording():
    first, *others = (
        ta.frames(SAMPLES / name) for name in ("sync_bound", "timing_input_bound", "straggler")
    )
    for frames in others:
        for name, frame in frames.items():
            both = frame.columns.intersection(first[name].columns)
            found = frame[both].dtypes.astype(str).to_dict()
            assert found == first[name][both].dtypes.astype(str).to_dict(), name
    assert str(first["api_calls"]["name"].dtype) == "category"
    assert str(first["kernels"]["calls"].dtype) == "float64"


def test_waits_and_overheads_are_those_of_the_file():
    path = SAMPLES / "sync_bound"
    (file,) = path.glob("trace*.json.gz")
    with gzip.open(file) as opened:
        events = [e for e in json.load(opened)["traceEvents"] if e.get("ph") == "X"]
    for table, category in (("waits", "cuda_sync"), ("overheads", "overhead")):
        expected = sorted(round(e["dur"] * 1e3) for e in events if e["cat"] == category)
        found = sorted(ta.frame(path, table)["duration_ns"].tolist())
        assert found == pytest.approx(expected, abs=1)
        assert found


@pytest.mark.parametrize(("question", "query"), QUERIES, ids=[question for question, _ in QUERIES])
def test_queries_of_the_page_have_an_answer(sync_bound, question, query):
    assert len(rows(sync_bound, query)) > 0


def test_there_are_ten_queries():
    assert len(QUERIES) == 10


def test_parquet_holds_the_same(tmp_path):
    pytest.importorskip("pyarrow")
    folder = export(tmp_path, SAMPLES / "sync_bound", name="events.parquet")
    assert len(pd.read_parquet(folder / "device_ops.parquet")) == len(
        ta.frame(SAMPLES / "sync_bound", "device_ops")
    )
    export(tmp_path, SAMPLES / "sync_bound", name="events.parquet", status=1)


def test_what_cannot_be_written_leaves_nothing(tmp_path):
    export(tmp_path, SAMPLES / "sync_bound", name="events.txt", status=2)
    export(tmp_path, SAMPLES / "sync_bound", name="no/such/folder.sqlite", status=1)
    kept = export(tmp_path, SAMPLES / "sync_bound")
    before = kept.read_bytes()
    export(tmp_path, SAMPLES / "README.md", status=1)
    assert kept.read_bytes() == before
    assert [one.name for one in tmp_path.iterdir()] == ["events.sqlite"]


def test_what_speaks_of_all_ranks_is_exported_once(tmp_path):
    """Not once for each rank: that would be ranks squared."""
    path = export(tmp_path, SAMPLES / "straggler")
    of = measured(ta.load(SAMPLES / "straggler"))
    assert len(of.each) > 1
    skew = rows(path, "SELECT * FROM skew")
    assert "rank" not in skew
    assert len(skew) == len(of.ranks.collectives) > 0
    assert rows(path, "SELECT count(*) AS n FROM ranks")["n"][0] == len(of.each)


def test_the_report_is_exported_with_the_tables(sync_bound):
    report = ta.analyze(SAMPLES / "sync_bound")
    (summary,) = rows(sync_bound, "SELECT * FROM summary").itertuples()
    assert (summary.headline, summary.step_ms) == (
        report.summary.headline,
        pytest.approx(report.summary.step_ms),
    )
    found = rows(sync_bound, "SELECT finding, headroom_ms FROM findings ORDER BY id")
    assert found["finding"].tolist() == [one.id for one in report.findings]
    advice = rows(sync_bound, "SELECT remedy, predicted_step_ms FROM recommendations ORDER BY id")
    assert advice["remedy"].tolist() == [one.remedy for one in report.recommendations]
    joined = rows(sync_bound, "SELECT count(*) AS n FROM evidence JOIN findings USING (finding)")
    assert joined["n"][0] == sum(len(one.evidence) for one in report.findings)


def test_what_the_report_says_is_redacted_as_well(tmp_path):
    path = tmp_path / "events.sqlite"
    arguments = [str(SAMPLES / "straggler"), "-o", str(path), "--redact"]
    done = CliRunner().invoke(cli, ["export", *arguments])
    assert done.exit_code == 0, done.output
    texts = rows(path, "SELECT where_found FROM evidence")["where_found"].tolist()
    assert not [text for text in texts if str(ROOT) in text]
    assert rows(path, "SELECT finding FROM findings")["finding"][0] == "straggler"
