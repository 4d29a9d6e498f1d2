"""What a notebook shows: a report that draws itself, saves, plots; frames with sound types; the
notebook in docs."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

import traceanalyzer as ta
from docs import notebooks
from traceanalyzer.base.errors import TraceAnalyzerError

ROOT = Path(__file__).resolve().parents[1]
SAMPLE, FIXED = (ROOT / "sample_traces" / name for name in ("sync_bound", "sync_fixed"))
TIMINGS = ROOT / "sample_traces" / "timing_input_bound"


@pytest.fixture(scope="module")
def report():
    return ta.analyze(SAMPLE)


def test_a_report_and_a_run_are_one_line(report):
    assert repr(report).startswith("<Report: sync- and compute-bound")
    assert "\n" not in repr(report)
    assert len(repr(report)) < 400
    assert len(repr(ta.load(SAMPLE))) < 400


def test_a_report_draws_its_first_screen(report):
    drawn = report._repr_html_()
    assert drawn.startswith("<pre>")
    assert "What to change" in drawn
    assert "<script" not in drawn


@pytest.mark.parametrize(
    ("name", "begins"),
    [("r.html", "<!DOCTYPE html>"), ("r.md", "## Summary"), ("r.json", "{"), ("r.txt", "")],
)
def test_a_report_is_saved_by_its_suffix(report, tmp_path, name, begins):
    path = report.save(tmp_path / name)
    text = path.read_text(encoding="utf-8")
    assert text.startswith(begins)
    assert len(text) > 1_000


def test_what_is_saved_is_read_back(report, tmp_path):
    path = report.save(tmp_path / "r.json")
    assert ta.compare(path, report).step.difference_ms == pytest.approx(0.0, abs=1e-5)


def test_another_suffix_and_a_missing_folder_are_said(report, tmp_path):
    with pytest.raises(TraceAnalyzerError, match=r"\.html, \.htm, \.md, \.json, \.txt"):
        report.save(tmp_path / "r.pdf")
    with pytest.raises(TraceAnalyzerError, match="cannot write"):
        report.save(tmp_path / "missing" / "r.md")


def test_plots_are_figures_of_the_reports_numbers(report):
    budget = report.plot.budget()
    total = sum(bar.x[0] for bar in budget.data)
    assert total == pytest.approx(report.summary.step_ms, rel=0.01)
    kernels = report.plot.kernels(3)
    assert len(kernels.data[0].x) == 3
    # Plotly draws from the bottom: the longest is on top.
    assert list(kernels.data[0].x) == sorted(kernels.data[0].x)
    assert len(report.plot.roofline().data[0].x) > 0
    timeline = report.plot.timeline()
    assert sum(len(bars.x) for bars in timeline.data) == len(report.details.timelines[0].events)
    assert {bars.name for bars in timeline.data} >= {"compute"}
    assert not ta.analyze(TIMINGS).plot.timeline().data


def test_frames_have_sound_types():
    kernels = ta.frame(SAMPLE, "kernels")
    assert kernels["tensor_cores"].dtype == "boolean"
    assert "class" in kernels
    assert "cls" not in kernels
    gaps = ta.frame(SAMPLE, "gaps")
    assert gaps["start_ms"].min() == 0
    assert gaps["duration_ms"].dtype == "float64"
    assert isinstance(gaps["cause"].dtype, pd.CategoricalDtype)
    assert gaps.attrs["origin_ns"] > 0
    assert set(kernels.attrs["definitions"]) >= set(kernels.columns) - {"rank"}


def test_columns_have_their_type_where_nothing_was_recorded():
    kernels = ta.frame(SAMPLE, "kernels")
    collectives = ta.frame(SAMPLE, "comm")
    assert kernels["rank"].dtype == "Int64"
    assert kernels["rank"].isna().all()
    assert len(collectives) == 0
    assert (collectives["rank"].dtype, collectives["total_ms"].dtype) == ("Int64", "float64")
    assert ta.frame(SAMPLE, "steps")["start_ms"].dtype == "float64"


def test_a_prediction_is_a_line():
    shown = repr(ta.whatif(SAMPLE))
    assert shown.startswith("<WhatIf: ")
    assert len(shown) < 200


def test_moments_of_a_frame_and_of_the_table_are_the_same():
    gaps = ta.frame(SAMPLE, "gaps")
    back = gaps["start_ms"] * 1e6 + gaps.attrs["origin_ns"]
    assert (back.diff().dropna() >= 0).all()


def test_a_table_that_is_not_there_is_said_with_those_that_are(report):
    with pytest.raises(ValueError, match=r"nope.*kernels"):
        ta.frame(SAMPLE, "nope")
    with pytest.raises(ValueError, match="findings"):
        ta.frame(report, "nope")


def test_findings_are_a_table(report):
    findings = ta.frame(report, "findings")
    assert list(findings["id"]) == [f.id for f in report.findings]
    assert list(ta.frame(report, "recommendations")["id"]) == [r.id for r in report.recommendations]
    assert list(ta.frame(SAMPLE, "findings")["id"]) == list(findings["id"])


def test_events_are_tables_of_a_recording_not_of_a_report(report):
    ops = ta.frame(SAMPLE, "device_ops")
    assert len(ops) == len(ta.load(SAMPLE).traces[0].device_ops)
    with pytest.raises(ValueError, match="give the recording"):
        ta.frame(report, "device_ops")


def test_whatif_takes_speedups():
    answers = ta.whatif(SAMPLE, speedups={"aten::addmm": 2.0})
    faster = next(s for s in answers.scenarios if s.id == "aten::addmm=2")
    assert 0 < faster.step_ms < answers.unprofiled_step_ms


@pytest.mark.parametrize("path", notebooks.NOTEBOOKS, ids=lambda path: path.name)
def test_the_notebook_runs_and_shows_what_its_cells_give(path, monkeypatch):
    monkeypatch.chdir(ROOT)
    notebook = json.loads(path.read_text(encoding="utf-8"))
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert len(cells) >= 8
    for cell, text in zip(cells, notebooks.outputs(notebook), strict=True):
        for output in cell["outputs"]:
            # Versions of pandas space columns differently.
            assert "".join(output["data"]["text/plain"]).split() == text.split(), (
                "run python -m docs.notebooks"
            )
