"""Runs of a history, each with its change against the program's run before."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.analyzed import reported
from tests.recorded import ROOT
from traceanalyzer.comparison.series import over_runs
from traceanalyzer.comparison.series.over_runs import with_changes
from traceanalyzer.history.database import reading_database
from traceanalyzer.history.runs import store_report, stored_runs

SAMPLES = ROOT / "sample_traces"


@pytest.fixture
def history(tmp_path):
    """Two versions of a program with another between them."""
    path = tmp_path / "runs.db"
    for sample, program in (
        ("sync_bound", "loop"),
        ("compute_bound", "products"),
        ("sync_fixed", "loop"),
    ):
        store_report(path, reported(SAMPLES / sample), tags={"program": program})
    return path


def changed(path, **filters):
    with reading_database(path) as db:
        return with_changes(db, stored_runs(db, **filters), stored_runs(db))


def test_a_change_is_against_the_run_before_of_the_same_program(history):
    first, other, second = changed(history)
    assert (first.change_share, first.verdict) == (None, None)
    assert (other.change_share, other.verdict) == (None, None)
    assert (second.change_share, second.verdict) == (pytest.approx(-0.277, abs=0.001), "faster")


def test_the_run_before_counts_where_it_is_not_shown(history):
    (only,) = changed(history, last=1)
    assert only.verdict == "faster"


def test_the_oldest_runs_are_not_compared(history, monkeypatch):
    monkeypatch.setattr(over_runs, "MOST_COMPARED", 1)
    store_report(history, reported(SAMPLES / "sync_fixed"), tags={"program": "loop"})
    *_, earlier, last = changed(history)
    assert (earlier.change_share, earlier.verdict) == (pytest.approx(-0.277, abs=0.001), None)
    assert last.verdict == "no_change"


def test_a_recorded_step_is_not_held_against_one_without_the_profiler(history):
    with reading_database(history) as db:
        first, *_, last = stored_runs(db)
        recorded = replace(last, step_basis="recorded")
        *_, found = with_changes(db, [recorded], [first, recorded])
    assert (found.change_share, found.verdict) == (None, None)
