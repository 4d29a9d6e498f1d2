"""One name is one figure, in a report's check and in the history of runs."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

import traceanalyzer as ta
from tests.analyzed import reported
from tests.recorded import ROOT
from traceanalyzer.comparison.metrics import shown_figures
from traceanalyzer.history import database
from traceanalyzer.history.database import MIGRATIONS
from traceanalyzer.history.runs import store_report
from traceanalyzer.report.figures.spoken import spoken_figures

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
