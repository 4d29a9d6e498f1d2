"""`doctor` on a machine without a GPU."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from traceanalyzer.base.extras import how_to_install
from traceanalyzer.cli import cli


def test_it_says_what_is_missing_and_records_what_it_can():
    pytest.importorskip("torch")
    done = CliRunner().invoke(cli, ["doctor"])
    assert done.exit_code == 0, done.output
    lines = done.output.splitlines()
    assert lines[0].startswith("ok  python: 3.")
    assert lines[-1].startswith("ok  self-test: recorded ")
    assert {line[:4] for line in lines} <= {"ok  ", "--  ", "    "}


def test_without_torch_the_self_test_is_left_out(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    done = CliRunner().invoke(cli, ["doctor"])
    assert done.exit_code == 0, done.output
    lines = done.output.splitlines()
    assert lines[-1] == "--  self-test: left out, it needs torch"
    assert "unknown without torch" not in done.output
    missing = " ".join(done.output.split())
    for extra in ("parquet", "fleet", "mcp"):
        assert f"-- extra {extra}: " in missing
        assert how_to_install(extra) in missing
