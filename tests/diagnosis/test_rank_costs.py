"""Ranks that hold up a run are named, and cost, the same in findings, advice, tables and fleets."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from tests.analyzed import measurements, reported
from tests.recorded import ROOT
from traceanalyzer.cli import cli
from traceanalyzer.report.table_entries import rows

SAMPLE = ROOT / "sample_traces" / "straggler"
HEALTHY = ROOT / "sample_traces" / "communication_bound"


def test_a_rank_that_is_named_costs_what_the_advice_gains() -> None:
    report = reported(SAMPLE)
    fix = next(one for one in report.recommendations if one.remedy == "fix_straggler")
    assert fix.predicted_step_ms is not None
    assert report.summary.step_ms is not None
    named = {row.rank: row.gain_ms for row in report.tables["ranks"] if row.straggler}
    assert named == {1: pytest.approx(report.summary.step_ms - fix.predicted_step_ms)}
    assert rows.ranks(measurements(SAMPLE)) == report.tables["ranks"]


def test_a_fleet_names_it_with_the_same_cost() -> None:
    report = reported(SAMPLE)
    answer = CliRunner().invoke(cli, ["fleet", str(SAMPLE), "--format", "json"])
    assert answer.exit_code == 0
    culprits = {one["rank"]: one["gain_ms"] for one in json.loads(answer.stdout)["culprits"]}
    named = {row.rank: row.gain_ms for row in report.tables["ranks"] if row.straggler}
    assert culprits == pytest.approx(named, rel=1e-4)


def test_nobody_is_named_where_no_finding_does() -> None:
    assert not any(row.straggler for row in reported(HEALTHY).tables["ranks"])
