"""The page of a history: levels and changes of a metric, budgets of runs."""

from __future__ import annotations

import json
import shutil

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from tests.recorded import ROOT
from traceanalyzer.cli import cli
from traceanalyzer.history.page import metric_page, run_levels, runs_page
from traceanalyzer.history.runs import MetricSeries, MetricValue, StoredRun, Tags


def series(values, metric="step_time_ms.mean"):
    rows = [
        MetricValue(i, "2026-01-01T00:00:00Z", Tags(branch="<main>"), value, None)
        for i, value in enumerate(values, 1)
    ]
    return MetricSeries(metric, "ms", rows)


def spans(values):
    return [(level.first, level.end) for level in run_levels(values)]


def test_values_that_vary_by_little_are_one_level():
    assert spans([10.0, 10.1, 9.9, 10.05, 10.1]) == [(0, 5)]


def test_a_level_begins_where_two_runs_leave_the_band():
    assert spans([10.0, 10.1, 10.0, 12.0, 12.1, 12.0]) == [(0, 3), (3, 6)]


def test_one_odd_run_is_no_change_unless_it_is_the_last():
    assert spans([10.0, 10.1, 14.0, 10.0, 10.1]) == [(0, 5)]
    assert spans([10.0, 10.1, 10.0, 14.0]) == [(0, 3), (3, 4)]


def test_a_noisy_metric_needs_a_larger_change():
    noisy = [10.0, 12.0, 8.0, 11.0, 9.0]
    assert spans([*noisy, 11.9, 12.1]) == [(0, 7)]


@given(st.lists(st.floats(-1e6, 1e6), max_size=40))
def test_levels_are_the_series_in_order(values):
    found = run_levels(values)
    assert [level.first for level in found] == ([0] if values else []) + [
        level.end for level in found[:-1]
    ]
    assert not values or found[-1].end == len(values)


def test_a_metrics_page_says_run_time_and_tags_and_where_it_changed():
    text = metric_page(series([10.0, 10.0, 10.0, 5.0, 5.0]))
    assert 'data-def="#4 2026-01-01T00:00:00Z branch=&lt;main&gt;: 5.00 ms"' in text
    assert 'data-def="changed with run #4"' in text
    assert "-50.0%" in text
    assert len(text) < 60_000


def test_the_heading_is_a_sentence():
    assert (
        "<h1>Step time, mean: 10.0 ms in the first of 5 runs, 5.00 ms in the last.</h1>"
        in metric_page(series([10.0, 10.0, 10.0, 5.0, 5.0]))
    )
    assert "<h1>Step time, mean: 10.0 ms in the only run.</h1>" in metric_page(series([10.0]))
    assert "<h1>No run to show.</h1>" in runs_page([], [])


def test_programs_are_drawn_apart_and_a_change_names_its_commit():
    rows = [
        MetricValue(i, "2026-01-01", Tags(case=case), value, None, f"case={case}", f"c0ffee{i}")
        for i, (case, value) in enumerate(
            [*[("a", 10.0)] * 6, ("a", 5.0), ("a", 5.0), *[("b", 100.0)] * 4], 1
        )
    ]
    text = metric_page(MetricSeries("step_time_ms.mean", "ms", rows))
    assert "Step time, mean: case=a" in text
    assert "Step time, mean: case=b" in text
    assert "-50.0% c0ffee7" in text
    assert text.count("changed with") == text.count("changed with c0ffee7") > 0


def test_fewer_than_five_runs_have_no_band():
    four, five = (metric_page(series([10.0] * count)).count("<rect") for count in (4, 5))
    assert five > four


def test_a_history_without_runs_has_a_page():
    assert "No run matches." in metric_page(series([]))
    assert "No run matches." in runs_page([], [])


@pytest.mark.parametrize("count", [1, 1_000])
def test_a_history_of_any_length_is_drawn(count):
    run = StoredRun(1, "2026-01-01", Tags(), "sync", 0.9, 1.0, None, 0.2, "H200", 1, None, None)
    runs = [StoredRun(**{**vars(run), "run": i}) for i in range(1, count + 1)]
    text = runs_page(
        runs,
        [
            series([float(i % 3)] * count, f"summary.idle_ms.{c}")
            for i, c in enumerate(("launch", "sync"))
        ],
    )
    assert "idle: sync 1.00 ms" in text
    assert len(text) < 400_000


def test_the_page_lists_programs_with_their_step_and_their_pages():
    def run(number, program, step_ms, bottleneck="sync"):
        return StoredRun(
            run=number,
            stored_at="2026-01-01T00:00:00Z",
            tags=Tags(),
            bottleneck=bottleneck,
            confidence=0.9,
            step_ms=step_ms,
            unprofiled_step_time_ms=step_ms,
            idle_share=0.1,
            gpu="H200",
            recordings=1,
            selection=None,
            same_recording_as=None,
            program=program,
        )

    runs = [run(1, "loop", 2.0), run(2, "other", 5.0, "launch"), run(3, "loop", 1.0)]
    text = runs_page(runs, [], {3: "a/report.html"})
    assert "3 runs of 2 programs." in text
    table = text.partition("<tbody>")[2].partition("</tbody>")[0]
    rows = table.split("<tr>")[1:]
    assert len(rows) == 2
    assert all(part in rows[0] for part in ("loop", "1.00 ms", "-50.0%", "sync", "a/report.html"))
    assert "2.00 ms in the first run, 1.00 ms in the last" in rows[0]
    assert "<svg" not in rows[1]


def test_a_folder_of_captures_is_a_history(tmp_path):
    for name in ("sync_bound", "sync_fixed"):
        shutil.copytree(ROOT / "sample_traces" / name, tmp_path / "runs" / name)
    (tmp_path / "runs" / "sync_fixed" / "report.html").write_text("<p>")
    (tmp_path / "runs" / "notes.txt").write_text("nothing")
    page = tmp_path / "runs.html"
    done = CliRunner().invoke(cli, ["history", str(tmp_path / "runs"), "-o", str(page)])
    assert done.exit_code == 0, done.output
    text = page.read_text()
    assert "2 runs of 2 programs." in text
    assert 'href="runs/sync_fixed/report.html"' in text
    listed = CliRunner().invoke(cli, ["history", str(tmp_path / "runs"), "--format", "json"])
    steps = {row["tags"]["run"]: row["step_ms"] for row in json.loads(listed.stdout)["runs"]}
    assert steps == {
        "sync_bound": pytest.approx(1.388, abs=0.001),
        "sync_fixed": pytest.approx(1.004, abs=0.001),
    }


def test_a_folder_without_recordings_is_refused(tmp_path):
    done = CliRunner().invoke(cli, ["history", str(tmp_path)])
    assert done.exit_code == 1
    assert "no recording and no capture in this folder" in str(done.exception)
