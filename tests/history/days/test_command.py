"""`fleet` asked about days of steps and about logs of operations."""

import json

from click.testing import CliRunner

from tests.history.days.logs import write_logs
from tests.recorded import ROOT
from traceanalyzer.cli import cli


def test_the_front_door(tmp_path):
    logs = write_logs(tmp_path / "logs", 300)
    run = CliRunner().invoke
    first = run(
        cli, ["fleet", *map(str, logs), "--timing", str(tmp_path / "store"), "--format", "json"]
    )
    again = run(cli, ["fleet", "--timing", str(tmp_path / "store"), "--format", "json"])
    folder = run(cli, ["fleet", str(tmp_path / "store"), "--format", "json"])
    assert json.loads(first.stdout)["steps"] == 300
    assert first.stdout == again.stdout == folder.stdout
    operations = run(
        cli, ["fleet", str(ROOT / "tests/data/stragglers/ST.parquet"), "--format", "json"]
    )
    assert round(json.loads(operations.stdout)["slowdown"]["s"], 3) == 1.179
    assert run(cli, ["fleet"]).exit_code == 2
