"""The page of a history: levels and changes of a metric, budgets of runs."""

from __future__ import annotations

import json
import os
import re
import shutil

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from tests.recorded import ROOT
from traceanalyzer.cli import cli
from traceanalyzer.history.folder import stored_folder
from traceanalyzer.history.page import MetricPage, bars, metric_page, run_levels, runs_page
from traceanalyzer.history.programs import short_names
from traceanalyzer.history.runs import FirstChange, MetricSeries, MetricValue, StoredRun, Tags
from traceanalyzer.history.runs_table import OWN_COLUMNS, runs_table


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


def stored(number, program="loop", step_ms=1.0, **others):
    known = {
        "run": number,
        "stored_at": "2026-01-01T18:00:07Z",
        "tags": Tags(),
        "bottleneck": "sync",
        "confidence": 0.9,
        "step_ms": step_ms,
        "unprofiled_step_time_ms": step_ms,
        "idle_share": 0.1,
        "gpu": "H200",
        "recordings": 1,
        "selection": None,
        "same_recording_as": None,
        "program": program,
    }
    return StoredRun(**(known | others))


def tables(text):
    """The tables of a page: names of columns, and rows of cells as text."""
    for table in text.split("<table")[1:]:
        heads, _, body = table.partition("<tbody>")
        rows = body.partition("</tbody>")[0].split("<tr>")[1:]
        cells = [re.findall(r"<td[^>]*>(.*?)</td>", row) for row in rows]
        yield [re.sub("<[^>]*>", "", head) for head in re.findall(r"<th .*?</th>", heads)], cells


def test_programs_of_several_runs_are_listed_with_their_step():
    runs = [stored(1, step_ms=2.0), stored(2, "other", 5.0), stored(3, change_share=-0.5)]
    text = runs_page(runs, [])
    assert "3 runs of 2 programs." in text
    heads, rows = next(tables(text))
    assert heads == ["program", "runs", "over its runs", "last step", "change", "bottleneck"]
    assert [rows[0][i] for i in (0, 1, 3, 4, 5)] == ["loop", "2", "1.00 ms", "-50.0%", "sync"]
    assert "2.00 ms in the first run, 1.00 ms in the last" in rows[0][2]
    assert "<svg" not in rows[1][2]


def test_programs_of_one_run_each_are_listed_once_as_runs():
    text = runs_page([stored(1), stored(2, "other")], [])
    assert "<h1>2 runs.</h1>" in text
    assert len(list(tables(text))) == 1


def test_a_run_is_a_row_with_its_tags_change_and_advice():
    runs = [
        stored(1, step_ms=2.0, tags=Tags(branch="main", program="loop")),
        stored(
            2,
            step_ms=1.0,
            tags=Tags(branch="fix", program="loop"),
            step_basis="measured",
            change_share=-0.5,
            verdict="likely_faster",
        ),
    ]
    text = runs_page(runs, [], {2: "a/report.html"}, {1: FirstChange("remove_syncs", 1.1)})
    *_, (heads, rows) = tables(text)
    newest, first = (dict(zip(heads, row, strict=True)) for row in rows)
    assert heads[:3] == ["run", "program", "bottleneck"]
    assert (newest["branch"], newest["change (%)"], newest["first change"]) == ("fix", "-50.0", "-")
    assert (first["first change"], first["step with it (ms)"]) == ("remove_syncs", "1.10")
    assert (newest["step by"], first["step by"]) == ("stopwatch", "recording")
    assert (newest["verdict"], first["verdict"]) == ("likely faster", "-")
    assert newest["when"] == "2026-01-01 18:00"
    assert 'href="a/report.html"' in newest["page"]
    assert not {"selection", "same recording as"} & set(heads), "no column is empty"
    assert "Empty in every row" not in text


def test_tags_of_any_name_are_columns_of_their_own():
    tags = Tags({"class": "a", "gpu": "b", "git.branch": "c", "run": "d", "recording": "d"})
    *_, (heads, rows) = tables(runs_page([stored(1, tags=tags), stored(2, tags=tags)], []))
    assert {"a", "b", "c", "d", "H200"} <= set(rows[0])
    assert rows[0].count("d") == 1, "a tag that names the program is no column"
    assert len(heads) == len(set(heads))


def test_what_all_programs_have_in_common_is_not_in_their_names():
    names = short_names(["loop · branch=main · H200", "other · branch=main · H200"])
    assert list(names.values()) == ["loop", "other"]
    assert short_names(["loop · H200"]) == {"loop · H200": "loop · H200"}
    assert short_names(["loop", "loop · H200"])["loop"] == "loop"


def test_runs_of_a_folder_are_as_old_as_their_recordings(tmp_path):
    for name, at in (("sync_bound", 1_700_000_000), ("sync_fixed", 1_600_000_000)):
        shutil.copytree(ROOT / "sample_traces" / name, tmp_path / name)
        for file in (tmp_path / name).iterdir():
            os.utime(file, (at, at))
    listed = CliRunner().invoke(cli, ["history", str(tmp_path), "--format", "json"])
    runs = [(row["tags"]["run"], row["stored_at"]) for row in json.loads(listed.stdout)["runs"]]
    assert runs == [
        ("sync_fixed", "2020-09-13T12:26:40Z"),
        ("sync_bound", "2023-11-14T22:13:20Z"),
    ]


def test_a_folder_of_captures_is_a_history(tmp_path):
    for name in ("sync_bound", "sync_fixed"):
        shutil.copytree(ROOT / "sample_traces" / name, tmp_path / "runs" / name)
    (tmp_path / "runs" / "sync_fixed" / "report.html").write_text("<p>")
    (tmp_path / "runs" / "notes.txt").write_text("nothing")
    page = tmp_path / "runs.html"
    done = CliRunner().invoke(cli, ["history", str(tmp_path / "runs"), "-o", str(page)])
    assert done.exit_code == 0, done.output
    text = page.read_text()
    assert "<h1>2 runs.</h1>" in text
    assert "remove_syncs" in text
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


@pytest.mark.parametrize(
    "keys",
    [
        OWN_COLUMNS,
        ("fi", "ﬁ"),
        ("__doc__", "__dict__", "__slots__"),
        ("௰",),
        ("self", "a b", "a_b"),
    ],
    ids="_".join,
)
def test_a_tag_may_have_any_name(keys):
    tags = Tags({key: f"value {i}" for i, key in enumerate(keys)})
    page = str(runs_table([stored(1, tags=tags)], {1: FirstChange("fused", 1.0)}, {}))
    assert all(value in page for value in tags.values())


def test_a_folder_that_was_read_before_is_not_read_again(tmp_path, monkeypatch):
    shutil.copytree(ROOT / "sample_traces" / "sync_bound", tmp_path / "runs" / "sync_bound")
    for file in (tmp_path / "runs" / "sync_bound").iterdir():
        os.utime(file, (1_700_000_000, 1_700_000_000))
    monkeypatch.setenv("TRACEANALYZER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("traceanalyzer.ingest.cache.identity.SETTLED_S", -1e9)
    listing = ["history", str(tmp_path / "runs"), "--format", "json"]
    first = CliRunner().invoke(cli, listing)
    monkeypatch.setattr("traceanalyzer.ingest.load", lambda *_, **__: pytest.fail("read again"))
    again = CliRunner().invoke(cli, listing)
    assert again.exit_code == 0, again.output
    assert again.stdout == first.stdout


def test_a_folder_says_how_many_of_its_recordings_are_analyzed(tmp_path):
    for name in ("sync_bound", "sync_fixed"):
        shutil.copytree(ROOT / "sample_traces" / name, tmp_path / "runs" / name)
    told = []
    stored_folder(tmp_path / "runs", tmp_path / "runs.db", lambda *done: told.append(done))
    assert told == [(0, 2), (1, 2)]


def test_runs_of_different_programs_are_no_series_of_bars():
    """Each has bars of its own scale: a program of 1,000 ms says nothing of one of 1 ms."""
    rows = [
        MetricValue(number, "2026-01-01T00:00:00Z", Tags(), value, None, program=program)
        for number, (program, value) in enumerate((("long", 1000.0), ("short", 1.0)), 1)
    ]
    both = MetricSeries("step_ms", "ms", rows)
    lines = [line for line in bars(both, 60).splitlines() if line]
    assert lines[0] == "step_ms: 2 programs, not compared with each other"
    assert [line.split()[0] for line in lines[1:]] == ["long", "#1", "short", "#2"]
    assert lines[2].count("█") == lines[4].count("█") > 20
    assert MetricPage(both).markdown().count("```mermaid") == 2
