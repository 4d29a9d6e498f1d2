# ruff: noqa: E501, PT017 either outcome is right, but an error has one line
"""What lies beside a recording, or is given with it: a bad one costs what it would have said."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing

import pytest

from tests.hostile.test_recordings import small
from traceanalyzer.base.errors import TraceAnalyzerError
from traceanalyzer.history.database import reading_database
from traceanalyzer.history.runs import (
    metric_names,
    metric_series,
    store_report,
    stored_report,
    stored_runs,
)
from traceanalyzer.ingest import load
from traceanalyzer.ingest.ncu import read_counters
from traceanalyzer.report.build import build_report
from traceanalyzer.trace.circumstances import ALLOWED_VARIABLES

BAD = [
    b"\xff",
    b'{"a": "\xff"}',
    b"[" * 100_000,
    b'{"a":' * 100_000,
    b"",
    b"null",
    b'{"step_time_ms": "x"}',
]


@pytest.fixture
def capture(tmp_path):
    small().write(tmp_path / "trace.rank0.json.gz")
    return tmp_path


@pytest.mark.parametrize("data", BAD)
@pytest.mark.parametrize("name", ["environment.json", "unprofiled.rank0.json", "nvml.rank0.jsonl"])
def test_a_bad_neighbour_leaves_the_recording_readable(capture, name, data):
    (capture / name).write_bytes(data)
    run = load([capture])
    assert len(run.traces[0].device_ops) == 4
    assert build_report(run).metrics.step_time_ms is not None


@pytest.mark.parametrize(
    "time", ["1e307", "9" * 400, "9" * 5000, "1e-300", "0", "-1", "true", "NaN"]
)
def test_a_step_time_without_the_profiler_that_no_step_takes(capture, time):
    (capture / "unprofiled.rank0.json").write_text(f'{{"step_time_ms": {time}}}')
    run = load([capture])
    assert run.traces[0].unprofiled_step_ns is None
    build_report(run)


@pytest.mark.parametrize("number", ["1e307", "9" * 400, "-1", "1e-300"])
def test_clocks_and_rates_out_of_all_reason(capture, number):
    (capture / "nvml.rank0.jsonl").write_text(
        f'{{"gpu": 0, "sm_clock_mhz": {number}}}\n{{"gpu": {number}}}'
    )
    (capture / "environment.json").write_text(
        f'{{"ceilings": {{"copy_gbs": {number}, "matmul_tflops": {{"bf16": {number}}}}}}}'
    )
    build_report(load([capture]))


def test_only_variables_of_the_list_are_read(capture):
    values = {
        "HOSTNAME": "gpu5",
        "USER": "mallory",
        "MASTER_ADDR": "10.0.0.1",
        "WANDB_API_KEY": "k",
        "OMP_NUM_THREADS": "8",
    }
    (capture / "environment.json").write_text(json.dumps({"variables": values}))
    names = {condition.name for condition in load([capture]).traces[0].conditions}
    assert names == {"OMP_NUM_THREADS"}


def test_the_collector_keeps_what_the_reader_reads():
    from traceanalyzer.collect.host import environment

    assert tuple(environment.ALLOWED_VARIABLES) == ALLOWED_VARIABLES


@pytest.mark.parametrize(
    "text",
    [
        '"ID","Kernel Name","Grid Size"\n"","",""\n"0","k","(' + "9" * 5000 + ', 1, 1)"\n',
        '"ID","x Kernel Name"\n"",""\n"0","k"\n',
        '"ID","Kernel Name","Metric Name"\n"0","k","m"\n',
        '"Kernel Name"\n"ID","Kernel Name"\n"' + "\0" * 9,
    ],
)
def test_an_ncu_report_of_another_form(tmp_path, text):
    path = tmp_path / "n.csv"
    path.write_text(text)
    try:
        kernels = read_counters(path)
    except TraceAnalyzerError as error:
        assert "\n" not in str(error)
    else:
        assert {kernel.blocks for kernel in kernels} <= {-1}


@pytest.fixture
def history(tmp_path):
    from tests.report.reports import full

    path = tmp_path / "runs.db"
    store_report(path, full(), tags={"a": "b"})
    return path


def all_of(path):
    with reading_database(path) as db:
        runs = stored_runs(db)
        metric_names(db)
        metric_series(db, "step_time_ms", runs)
    return stored_report(f"{path}#latest")


@pytest.mark.parametrize(
    "statement",
    [
        "ALTER TABLE runs DROP COLUMN recordings",
        "ALTER TABLE metrics RENAME COLUMN unit TO units",
        "DROP VIEW run_overview",
        "UPDATE runs SET confidence = 'x'",
        "UPDATE runs SET recordings = 'x'",
        "UPDATE runs SET stored_at = 7",
        "UPDATE metrics SET value = x'ff'",
        "UPDATE metrics SET name = CAST(x'ff' AS TEXT) WHERE rowid = 1",
        "UPDATE reports SET json = x'ff'",
        "UPDATE reports SET json = 5",
        "UPDATE tags SET value = x'ff'",
    ],
)
def test_a_history_that_another_version_or_hand_has_changed(history, statement):
    with closing(sqlite3.connect(history)) as db, db:
        if "DROP COLUMN" in statement:
            db.execute("DROP VIEW finding_history")
            db.execute("DROP VIEW metric_history")
            db.execute("DROP VIEW run_overview")
        db.execute(statement)
    try:
        all_of(history)
    except TraceAnalyzerError as error:
        assert "\n" not in str(error)


def test_a_view_of_a_history_that_never_ends_is_refused(history):
    with closing(sqlite3.connect(history)) as db, db:
        db.execute("DROP VIEW run_overview")
        db.execute(
            "CREATE VIEW run_overview AS WITH RECURSIVE r(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM r) SELECT x FROM r"
        )
    with pytest.raises(TraceAnalyzerError, match="run_overview"):
        all_of(history)


def test_a_saved_report_whose_batches_differ_in_length(tmp_path):
    from tests.report.reports import full
    from traceanalyzer.comparison.compare import compare_reports
    from traceanalyzer.report.json import render_json
    from traceanalyzer.report.read import report_from_json

    saved = json.loads(render_json(full()))

    def spoil(value):
        if isinstance(value, dict):
            for key, item in value.items():
                if key == "batch_ms" and isinstance(item, list):
                    value[key] = [*item, 1.0, 2.0]
                spoil(item)
        elif isinstance(value, list):
            for item in value:
                spoil(item)

    spoil(saved)
    compare_reports(full(), report_from_json(json.dumps(saved)), ("a", "b"))
