"""What needs a package that is not installed says so in a line, with the command that installs it."""

from __future__ import annotations

import sys

import pytest
from click.testing import CliRunner

from tests.recorded import ROOT
from traceanalyzer.base import TraceAnalyzerError
from traceanalyzer.cli import cli

SAMPLES = ROOT / "sample_traces"
OF_EXTRAS = ("pyarrow", "pyarrow.parquet", "duckdb", "distributed", "fsspec", "mcp", "mcp.server")
STEPS = str(SAMPLES / "timing_irregular" / "timings.rank0.jsonl")


@pytest.mark.parametrize(
    "arguments",
    [
        ["fleet", str(SAMPLES / "straggler")],
        ["fleet", str(ROOT / "tests" / "data" / "stragglers" / "ST.parquet")],
        ["fleet", STEPS, "--timing", "days", "--run", "exp7"],
        ["export", str(SAMPLES / "sync_bound"), "-o", "tables.parquet"],
        ["export", "--digests", str(SAMPLES / "straggler"), "-o", "digests"],
        ["analyze", "s3://bucket/trace.json.gz"],
        ["mcp"],
    ],
)
def test_a_missing_package_is_one_line(arguments, monkeypatch, tmp_path) -> None:
    for name in OF_EXTRAS:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(sys.modules, "traceanalyzer.agent.server", raising=False)
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(cli, arguments)
    assert isinstance(result.exception, TraceAnalyzerError), result.exception
    assert "pip install '" in str(result.exception)
    assert "\n" not in str(result.exception)
    assert list(tmp_path.rglob("*.parquet")) == []
