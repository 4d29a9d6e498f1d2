"""One name is one figure: in a report's check, in the history of runs, on its page, and for an
agent."""

from __future__ import annotations

import json
import re
import sqlite3
from contextlib import closing
from dataclasses import replace
from html import unescape
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

import traceanalyzer as ta
from tests.analyzed import reported
from tests.recorded import ROOT
from traceanalyzer.agent import verbs
from traceanalyzer.agent.sources import Sources
from traceanalyzer.comparison.metrics import shown_figures
from traceanalyzer.history import database
from traceanalyzer.history.database import MIGRATIONS
from traceanalyzer.history.runs import store_report
from traceanalyzer.report.figures.spoken import spoken_figures
from traceanalyzer.report.format import figure
from traceanalyzer.report.html import render_html

if TYPE_CHECKING:
    from pathlib import Path

SAMPLE = ROOT / "sample_traces" / "sync_bound"


def figures(path: Path) -> dict[str, float]:
    with closing(sqlite3.connect(path)) as db:
        return dict(db.execute("SELECT name, value FROM metrics").fetchall())


def test_history_and_check_have_one_figure_for_each_name(tmp_path: Path) -> None:
    report = reported(SAMPLE)
    path = tmp_path / "runs.db"
    store_report(path, report)
    stored = figures(path)
    shown = shown_figures(report)
    assert len(spoken_figures(report)) >= 14
    for name in spoken_figures(report):
        for one in (name, f"recorded.{name}"):
            assert stored[one] == pytest.approx(shown[one].value, rel=1e-4), one
    assert report.metrics.step_time_ms is not None
    assert stored["step_time_ms.median"] == pytest.approx(report.summary.step_ms, rel=1e-4)
    assert stored["recorded.step_time_ms.median"] == pytest.approx(
        report.metrics.step_time_ms.median, rel=1e-4
    )


def test_tables_as_frames_have_the_figures_of_the_report() -> None:
    report = reported(SAMPLE)
    known = report.metrics.unprofiled
    recorded = report.metrics.idle_ms
    assert known is not None
    assert recorded is not None
    places = ta.frame(str(SAMPLE), "gap_places")
    sums = places.groupby("cause", observed=True)[["idle_ms", "unprofiled_idle_ms"]].sum()
    for cause in ("sync", "launch"):
        assert sums.idle_ms[cause] == pytest.approx(getattr(recorded, cause), rel=1e-6)
        assert sums.unprofiled_idle_ms[cause] == pytest.approx(
            getattr(known.idle_ms, cause), rel=1e-6
        )
    waits = ta.frame(str(SAMPLE), "syncs")
    assert waits.unprofiled_idle_ms.sum() == pytest.approx(known.idle_ms.sync, rel=1e-6)
    steps = ta.frame(str(SAMPLE), "steps")
    assert report.metrics.step_time_ms is not None
    assert steps.duration_ms.mean() == pytest.approx(report.metrics.step_time_ms.mean, rel=1e-6)


def test_runs_of_an_older_file_get_the_same_figures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = reported(SAMPLE)
    new = tmp_path / "new.db"
    store_report(new, report)
    old = tmp_path / "old.db"
    monkeypatch.setattr(database, "MIGRATIONS", MIGRATIONS[:3])
    monkeypatch.setattr("traceanalyzer.history.runs.spoken_figures", lambda _: {})
    store_report(old, report)
    assert "recorded.step_time_ms.mean" not in figures(old)
    monkeypatch.undo()
    with database.writing(old):
        pass
    assert figures(old) == pytest.approx(figures(new), rel=1e-4)
    with closing(sqlite3.connect(old)) as db:
        (row,) = db.execute("SELECT step_time_ms, gpu_idle_share FROM runs").fetchall()
    assert row == pytest.approx(
        (figures(new)["step_time_ms.mean"], figures(new)["gpu_idle_share"]), rel=1e-4
    )


def test_what_syncs_cost_has_the_basis_of_the_report() -> None:
    report = reported(SAMPLE)
    known = report.metrics.unprofiled
    recorded = report.metrics.idle_ms
    assert known is not None
    assert recorded is not None
    shown = shown_figures(report)
    assert shown["syncs.gpu_idle_ms"].value == pytest.approx(known.idle_ms.sync)
    assert shown["recorded.syncs.gpu_idle_ms"].value == pytest.approx(recorded.sync)


def test_of_several_ranks_syncs_are_those_of_the_rank_that_is_reported() -> None:
    report = reported(SAMPLE)
    own = [replace(row, rank=0) for row in report.tables["syncs"]]
    others = [replace(row, rank=1, unprofiled_idle_ms=None) for row in own]
    ranked = [SimpleNamespace(rank=0), SimpleNamespace(rank=1)]
    several = replace(report, tables=report.tables | {"syncs": [*others, *own], "ranks": ranked})
    for name in ("syncs.calls", "syncs.gpu_idle_ms", "recorded.syncs.gpu_idle_ms"):
        assert shown_figures(several)[name] == shown_figures(report)[name]


def test_an_agent_is_told_the_figures_that_the_report_speaks_of() -> None:
    report = reported(SAMPLE)
    known = report.metrics.unprofiled
    assert known is not None
    sources = Sources([SAMPLE.parent])
    told = json.loads(verbs.diagnose(sources, str(SAMPLE)))
    assert told["step"]["without_profiler"]["value"] == near(report.summary.step_ms)
    assert told["step"]["recorded"]["value"] == near(report.metrics.step_time_ms.mean)
    parts = told["budget"]["parts"]
    assert parts["compute"] == near(known.budget_ms.compute)
    assert parts["idle: sync"] == near(known.idle_ms.sync)
    limits = dict.fromkeys(("step_time_ms.mean", "gpu_idle_share", "syncs.gpu_idle_ms"), "0")
    limits["recorded.gpu_idle_share"] = "0"
    checked = {
        one["metric"]: one["value"]
        for one in json.loads(verbs.verify(sources, str(SAMPLE), limits))["limits"]
    }
    shown = shown_figures(report)
    assert checked == {name: near(shown[name].value) for name in limits}
    scenarios = json.loads(verbs.whatif(sources, str(SAMPLE)))
    assert scenarios["base"]["value"] == near(report.summary.step_ms)


def test_the_page_has_the_figures_of_the_screen() -> None:
    report = reported(SAMPLE)
    known = report.metrics.unprofiled
    assert known is not None
    text = re.sub(r"<[^>]*>", " ", render_html(report))
    words = " ".join(unescape(text).split())
    idle = known.budget_ms.idle / known.step_time_ms
    assert f"GPU idle {figure(idle, 'share')}" in words
    assert f"step time {figure(report.summary.step_ms, 'ms')}" in words
    assert f"with the profiler {figure(report.metrics.step_time_ms.mean, 'ms')}" in words
    assert f"idle: sync {figure(known.idle_ms.sync / known.step_time_ms, 'share')}" in words


def near(value: float | None) -> float:
    """As rounded for an agent."""
    return pytest.approx(value, rel=1e-3)
