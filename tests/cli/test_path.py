from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

import traceanalyzer as ta
from traceanalyzer.cli import cli

RECORDING = Path(__file__).resolve().parents[1] / "data" / "gpu" / "sync_bound.json.gz"
RANKS = Path(__file__).resolve().parents[2] / "sample_traces" / "straggler"


def path(*arguments: str | Path) -> str:
    result = CliRunner().invoke(cli, ["path", *map(str, arguments)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_the_rows_are_the_step() -> None:
    rows = json.loads(path(RECORDING, "--format", "json"))["path"]
    time = ta.analyze(RECORDING).metrics.step_time_ms
    assert time is not None
    assert sum(row["total_ms"] for row in rows) == pytest.approx(time.mean, rel=1e-5)
    assert sum(row["share_of_step"] for row in rows) == pytest.approx(1.0, abs=1e-4)
    assert [row["total_ms"] for row in rows] == sorted(
        (row["total_ms"] for row in rows), reverse=True
    )


def test_one_step_is_its_own_path() -> None:
    rows = json.loads(path(RECORDING, "--format", "json", "--step", "2"))["path"]
    (step,) = json.loads(
        CliRunner().invoke(cli, ["steps", str(RECORDING), "--step", "2", "--format", "json"]).stdout
    )["steps"]
    assert sum(row["total_ms"] for row in rows) == pytest.approx(step["duration_ms"], rel=1e-5)


def test_of_several_ranks_it_is_the_one_that_others_wait_for() -> None:
    assert {row["rank"] for row in json.loads(path(RANKS, "--format", "json"))["path"]} == {1}
    waiting = json.loads(path(RANKS, "--rank", "0", "--format", "json"))["path"]
    assert waiting[0]["kind"] == "communication"


def test_the_report_has_its_parts_and_what_carries_it() -> None:
    report = ta.analyze(RECORDING)
    assert report.metrics.critical_path is not None
    assert report.metrics.step_time_ms is not None
    assert sum(vars(report.metrics.critical_path).values()) == pytest.approx(
        report.metrics.step_time_ms.mean
    )
    assert report.tables["critical_path"]


@pytest.mark.parametrize(
    ("format_", "first"), [("csv", "rank,kind,name"), ("markdown", "| kind"), ("terminal", "")]
)
def test_it_is_written_in_every_format(format_: str, first: str) -> None:
    text = path(RECORDING, "--format", format_, "--top", "20")
    assert text.startswith(first)
    assert "cudaStreamSynchronize" in text
