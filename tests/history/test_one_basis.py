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
from typing import TYPE_CHECKING, Any

import pytest

import traceanalyzer as ta
from tests.analyzed import reported
from tests.recorded import ROOT
from traceanalyzer.agent import verbs
from traceanalyzer.agent.sources import Sources
from traceanalyzer.comparison.limits import Limit, check_limits
from traceanalyzer.comparison.metrics import figures_by_path
from traceanalyzer.history import database
from traceanalyzer.history.database import MIGRATIONS
from traceanalyzer.history.runs import _metrics, store_report
from traceanalyzer.integrations.trackers import tracked_figures
from traceanalyzer.report.figures.names import figure_name
from traceanalyzer.report.format import figure
from traceanalyzer.report.html import render_html
from traceanalyzer.report.json import render_json

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SAMPLE = ROOT / "sample_traces" / "sync_bound"
SAMPLES = sorted(path for path in SAMPLE.parent.iterdir() if path.is_dir())


def figures(path: Path) -> dict[str, float]:
    with closing(sqlite3.connect(path)) as db:
        return dict(db.execute("SELECT name, value FROM metrics").fetchall())


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.name)
def test_a_name_is_one_figure_on_every_surface(path: Path, tmp_path: Path) -> None:
    """JSON, `check`, `history`, MCP's `verify` and the tracker: figures of the same name are equal,
    and those of the summary are what the first screen shows."""
    report = reported(path)
    printed = json.loads(render_json(report))
    in_json = dict(leaves(printed["metrics"])) | dict(leaves(printed["summary"], "summary."))
    checked = figures_by_path(report)
    store_report(tmp_path / "runs.db", report)
    stored = figures(tmp_path / "runs.db")
    assert stored == in_json
    for name, value in in_json.items():
        assert checked[name].value == pytest.approx(value, rel=1e-3, abs=1e-6), name
    names = [name for name in in_json if name.startswith("summary.")]
    names += [name.removeprefix("summary.") for name in names]
    limits = {name: "0" for name in names if name in in_json}
    told = json.loads(verbs.verify(Sources([path.parent]), str(path), limits))["limits"]
    assert {one["metric"]: one["value"] for one in told} == {
        name: near(in_json[name]) for name in limits
    }
    tracked = tracked_figures(report)
    for name in ("step_ms", "idle_share", "confidence"):
        assert (tracked.get(name) or 0.0) == near(printed["summary"][name] or 0.0)


def leaves(value: dict[str, Any], within: str = "") -> Iterator[tuple[str, Any]]:
    """Numbers of a JSON document by path."""
    for name, inner in value.items():
        if isinstance(inner, dict):
            yield from leaves(inner, f"{within}{name}.")
        elif isinstance(inner, int | float) and not isinstance(inner, bool):
            yield within + name, inner


def test_a_summary_has_the_step_that_it_speaks_of() -> None:
    report = reported(SAMPLE)
    known = report.metrics.unprofiled
    assert known is not None
    assert report.summary.budget_ms == known.budget_ms
    assert report.summary.idle_ms == known.idle_ms
    assert report.summary.idle_share == pytest.approx(known.budget_ms.idle / known.step_time_ms)
    recorded = reported(ROOT / "sample_traces" / "timing_input_bound")
    assert recorded.summary.budget_ms is None


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("step_ms", "summary.step_ms"),
        ("step_time_ms", "step_time_ms.mean"),
        ("metrics.budget_ms.idle", "budget_ms.idle"),
        ("recorded.gpu_idle_share", "gpu_idle_share"),
        ("summary.idle_share", "summary.idle_share"),
    ],
)
def test_short_and_older_names_are_the_ones_of_the_json(written: str, name: str) -> None:
    assert figure_name(written) == name
    (verdict,) = check_limits([Limit.of(written, "max", "0")], reported(SAMPLE), None, None)
    assert verdict.limit.metric == name
    assert verdict.value == figures_by_path(reported(SAMPLE))[name].value


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
    for had in (3, 4):
        old = tmp_path / f"old{had}.db"
        monkeypatch.setattr(database, "MIGRATIONS", MIGRATIONS[:3])
        monkeypatch.setattr("traceanalyzer.history.runs._figures", lambda of: _metrics(of.metrics))
        store_report(old, report)
        monkeypatch.undo()
        if had == 4:
            monkeypatch.setattr(database, "MIGRATIONS", MIGRATIONS[:4])
            with database.writing(old):
                pass
            assert "recorded.step_time_ms.mean" in figures(old)
            monkeypatch.undo()
        with database.writing(old):
            pass
        assert figures(old) == pytest.approx(figures(new), rel=1e-4)
        with closing(sqlite3.connect(old)) as db:
            (row,) = db.execute("SELECT step_ms, idle_share FROM run_overview").fetchall()
            (own,) = db.execute("SELECT step_time_ms, gpu_idle_share FROM runs").fetchall()
        of = figures(new)
        assert row == pytest.approx((of["summary.step_ms"], of["summary.idle_share"]), rel=1e-4)
        assert own == pytest.approx((of["step_time_ms.mean"], of["gpu_idle_share"]), rel=1e-4)


def test_what_syncs_cost_has_a_name_for_each_basis() -> None:
    report = reported(SAMPLE)
    known = report.metrics.unprofiled
    recorded = report.metrics.idle_ms
    assert known is not None
    assert recorded is not None
    found = figures_by_path(report)
    assert found["syncs.unprofiled_idle_ms"].value == pytest.approx(known.idle_ms.sync)
    assert found["syncs.gpu_idle_ms"].value == pytest.approx(recorded.sync)


def test_of_several_ranks_syncs_are_those_of_the_rank_that_is_reported() -> None:
    report = reported(SAMPLE)
    own = [replace(row, rank=0) for row in report.tables["syncs"]]
    others = [replace(row, rank=1, unprofiled_idle_ms=None) for row in own]
    ranked = [SimpleNamespace(rank=0), SimpleNamespace(rank=1)]
    several = replace(report, tables=report.tables | {"syncs": [*others, *own], "ranks": ranked})
    for name in ("syncs.calls", "syncs.gpu_idle_ms", "syncs.unprofiled_idle_ms"):
        assert figures_by_path(several)[name] == figures_by_path(report)[name]


def test_an_agent_is_told_the_figures_that_the_report_speaks_of() -> None:
    report = reported(SAMPLE)
    known = report.metrics.unprofiled
    assert known is not None
    sources = Sources([SAMPLE.parent])
    told = json.loads(verbs.diagnose(sources, str(SAMPLE)))
    assert {"verdict", "sure", "answer"}.isdisjoint(told)
    for name in ("bottleneck", "confidence", "headline"):
        assert told[name] == getattr(report.summary, name)
    assert told["step"]["without_profiler"]["value"] == near(report.summary.step_ms)
    assert told["step"]["recorded"]["value"] == near(report.metrics.step_time_ms.mean)
    parts = told["budget"]["parts"]
    assert parts["compute"] == near(known.budget_ms.compute)
    assert parts["idle: sync"] == near(known.idle_ms.sync)
    limits = dict.fromkeys(("summary.step_ms", "gpu_idle_share", "syncs.gpu_idle_ms"), "0")
    checked = {
        one["metric"]: one["value"]
        for one in json.loads(verbs.verify(sources, str(SAMPLE), limits))["limits"]
    }
    shown = figures_by_path(report)
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
