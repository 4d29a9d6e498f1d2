"""`analyze --store` and `history`."""

import csv
import io
import json
import re

import pytest

from tests.analyzed import reported
from tests.recorded import ROOT
from tests.report.reports import full
from traceanalyzer.history.runs import store_report
from traceanalyzer.report.model import Report


@pytest.fixture
def runs(tmp_path):
    """A history of four runs of two branches, of which two are of the same recording."""
    path = tmp_path / "runs.db"
    for branch, mean, mark in (
        ("main", 10.0, "a"),
        ("fix", 5.0, "b"),
        ("main", 12.0, "a"),
        ("<b>\x1b[1m`|", 8.0, "d"),
    ):
        store_report(path, timed(mean), tags={"branch": branch, "gpu": "H200"}, fingerprint=mark)
    return path


def timed(mean: float) -> Report:
    from dataclasses import replace

    report = full()
    assert report.metrics.step_time_ms is not None
    return replace(
        report,
        metrics=replace(
            report.metrics, step_time_ms=replace(report.metrics.step_time_ms, mean=mean)
        ),
    )


def listed(out):
    return [row["run"] for row in json.loads(out)["runs"]]


def test_analyze_keeps_the_report_as_it_prints_it(asked, run, tmp_path):
    path = tmp_path / "runs.db"
    options = ("--store", path, "--tag", "branch=main", "--tag", "lr=1e-3=x")
    status, out, err = run(
        "analyze", "t.json", "--format", "json", "--redact", "--rank", 0, *options
    )
    assert (status, err) == (0, f"traceanalyzer: stored as {path}#1\n")
    assert "alice" not in out
    assert b"alice" not in path.read_bytes()
    assert run("analyze", "t.json", "--store", path)[0] == 0
    rows = json.loads(run("history", path, "--format", "json")[1])["runs"]
    assert [row["tags"] for row in rows] == [{"branch": "main", "lr": "1e-3=x"}, {}]
    assert [row["selection"] for row in rows] == ["--rank 0", None]


@pytest.mark.parametrize("tag", ["branch", "=main", "branch=#1"])
def test_a_tag_is_a_key_and_a_value(asked, run, tmp_path, tag):
    assert run("analyze", "t.json", "--store", tmp_path / "runs.db", "--tag", tag)[0] == 2


def test_the_history_is_not_overwritten_by_the_report(asked, run, tmp_path):
    path = tmp_path / "runs.db"
    assert run("analyze", "t.json", "--format", "json", "-o", path, "--store", path)[0] == 2
    assert not path.exists()


def test_a_tag_needs_a_store(asked, run):
    assert run("analyze", "t.json", "--tag", "a=b")[0] == 2


def test_a_history_that_cannot_be_written_is_refused_before_the_work(asked, run, tmp_path):
    (tmp_path / "notes.txt").write_text("my notes, not a database at all" * 10)
    status, out, err = run("analyze", "t.json", "--store", tmp_path / "notes.txt")
    assert (status, out) == (1, "")
    assert "not an SQLite database" in err
    assert asked.paths == []


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ((), [1, 2, 3, 4]),
        (("--tag", "branch=main"), [1, 3]),
        (("--tag", "branch=main", "--tag", "gpu=H100"), []),
        (("--bottleneck", "sync", "--last", 2), [3, 4]),
        (("--bottleneck", "compute"), []),
        (("--since", "5m"), [1, 2, 3, 4]),
        (("--since", "2000-01-01"), [1, 2, 3, 4]),
        (("--since", "2999-12-31T23:59+02:00"), []),
    ],
)
def test_runs_are_filtered(runs, run, options, expected):
    assert listed(run("history", runs, "--format", "json", *options)[1]) == expected


@pytest.mark.parametrize("when", ["yesterday", "7w", "2026-13-01", "999999d"])
def test_a_moment_that_is_none_is_a_usage_error(runs, run, when):
    assert run("history", runs, "--since", when)[0] == 2


@pytest.mark.parametrize("form", ["terminal", "markdown", "csv"])
def test_runs_as_a_table(runs, run, form):
    status, out, err = run("history", runs, "--format", form)
    assert (status, err) == (0, "")
    assert "branch=fix" in out
    assert "\x1b" not in out or form == "csv"


def test_the_same_recording_is_seen(runs, run):
    rows = list(csv.DictReader(io.StringIO(run("history", runs, "--format", "csv")[1])))
    assert [row["same_recording_as"] for row in rows] == ["", "", "1", ""]


def test_no_run_matches(runs, run):
    assert run("history", runs, "--tag", "a=b") == (0, "No run matches.\n", "")
    assert run("history", runs, "--tag", "a=b", "--metric", "step_time_ms") == (
        0,
        "No run matches.\n",
        "",
    )


def test_a_metric_over_runs(runs, run):
    series = json.loads(run("history", runs, "--metric", "step_time_ms", "--format", "json")[1])
    assert (series["metric"], series["unit"]) == ("step_time_ms.mean", "ms")
    assert [row["value"] for row in series["values"]] == [10.0, 5.0, 12.0, 8.0]
    assert [row["change_share"] for row in series["values"]] == [None, None, 0.2, None]
    assert len({row["program"] for row in series["values"]}) == 3


def test_a_metric_is_drawn_from_zero(runs, run):
    lines = run("history", runs, "--metric", "step_time_ms.mean")[1].splitlines()
    assert lines[0] == "step_time_ms.mean: 3 programs, not compared with each other"
    first, second = (line.count("█") for line in lines if line.startswith(("#1 ", "#3 ")))
    assert first == pytest.approx(second * 10 / 12, abs=0.51)
    assert all(len(line) <= 80 for line in lines)


def test_a_metric_as_markdown_has_a_chart(runs, run):
    out = run("history", runs, "--metric", "step_time_ms.mean", "--format", "markdown")[1]
    assert "bar [10, 12]" in out
    assert out.count("bar [") == 3
    assert "<b>" not in re.sub("``.*?``|`[^`]*`", "", out)


def test_a_metric_as_a_page(runs, run, tmp_path):
    page = tmp_path / "page.html"
    assert run("history", runs, "--metric", "step_time_ms.mean", "-o", page) == (0, "", "")
    text = page.read_text()
    assert "Step time, mean" in text
    assert "<b>\\u001b" not in text
    assert not re.search(r"<script[^>]* src=", text)


def test_metrics_are_listed(runs, run):
    assert {"name": "budget_ms.idle", "unit": "ms", "runs": 4} in json.loads(
        run("history", runs, "--metrics", "--format", "json")[1]
    )["metrics"]


def test_an_unknown_metric_names_similar_ones(runs, run):
    status, out, err = run("history", runs, "--metric", "step_time.mean")
    assert (status, out) == (1, "")
    assert "step_time_ms.mean" in err


@pytest.mark.parametrize(
    "options", [("--metrics", "--format", "html"), ("--metric", "a", "--metrics"), ("--last", 0)]
)
def test_what_makes_no_sense_is_a_usage_error(runs, run, options):
    assert run("history", runs, *options)[0] == 2


def test_no_history_is_one_line(run, tmp_path):
    status, out, err = run("history", tmp_path / "runs.db")
    assert (status, out, err.count("\n")) == (1, "", 1)


def test_no_run_is_overwritten_by_what_is_made_from_it(runs, run):
    before = runs.read_bytes()
    status, _, err = run(
        "compare", f"{runs}#1", f"{runs}#branch=fix", "--format", "json", "-o", runs
    )
    assert (status, runs.read_bytes()) == (2, before)
    assert "would overwrite what it is made from" in err


def test_an_empty_file_is_no_history_and_stays_empty(tmp_path, run):
    path = tmp_path / "empty.db"
    path.touch()
    status, out, err = run("history", path)
    assert (status, out, path.read_bytes()) == (1, "", b"")
    assert "no such history" in err


def test_a_metric_of_the_recorded_step_says_which_one_the_list_has(tmp_path, run):
    """The list has the step without the profiler."""
    runs = tmp_path / "runs.db"
    for _ in range(2):
        store_report(runs, reported(ROOT / "sample_traces" / "sync_bound"))
    for name in ("step_time_ms.median", "idle_ms.sync"):
        _, out, _ = run("history", str(runs), "--metric", name)
        words = " ".join(out.split())
        assert "As recorded, with the profiler; the list of runs has the step without it" in words
        assert "summary." in words
    for name in ("summary.step_ms", "kernels_per_step"):
        assert "As recorded" not in run("history", str(runs), "--metric", name)[1]
