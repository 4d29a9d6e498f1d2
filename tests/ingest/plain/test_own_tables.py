"""Tables that this program wrote are refused by name: their rows are no steps."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.recorded import ranks
from traceanalyzer.base import UnreadableInputError
from traceanalyzer.cli import cli
from traceanalyzer.ingest.detect import detect
from traceanalyzer.ingest.plain.own_tables import columns_of_tables
from traceanalyzer.report.json import RENAMED
from traceanalyzer.report.table_entries import TABLES


def test_the_columns_of_every_table_are_known() -> None:
    now = {
        table.asked_as: [RENAMED.get(one.name, one.name) for one in dataclasses.fields(table.row)]
        for table in TABLES
    }
    assert columns_of_tables() == now, "own_tables.toml: write the columns as they are now"


@pytest.mark.parametrize("name", [table.asked_as for table in TABLES])
def test_a_table_of_each_kind_is_refused_by_name(tmp_path: Path, name: str) -> None:
    columns = columns_of_tables()[name]
    file = tmp_path / "table.csv"
    file.write_text(f"{','.join(columns)}\n{','.join('1' for _ in columns)}\n")
    with pytest.raises(UnreadableInputError, match=f"`traceanalyzer show {name}` wrote"):
        detect(file)
    file.write_text(json.dumps({name: [dict.fromkeys(columns, 1)]}, indent=2))
    with pytest.raises(UnreadableInputError, match=f"`traceanalyzer show {name}` wrote"):
        detect(file)


@pytest.mark.parametrize("command", ["kernels", "steps", "gaps", "comm", "path"])
@pytest.mark.parametrize("form", ["csv", "json", "markdown"])
def test_what_show_writes_is_refused(tmp_path: Path, command: str, form: str) -> None:
    recorded = [str(path) for path in ranks("ranks2/straggler.base")]
    shown = CliRunner().invoke(cli, ["show", command, *recorded, "--format", form])
    file = tmp_path / "table"
    file.write_text(shown.stdout)
    with pytest.raises(UnreadableInputError, match="traceanalyzer show"):
        detect(file)


@pytest.mark.parametrize(
    "text",
    [
        "step,duration_ms,name\n1,12.5,a\n2,12.6,a\n3,12.4,a\n",
        "rank,step,step_time_ms,loss\n0,1,12.5,0.1\n0,2,12.6,0.1\n",
        '{"step": 1, "step_time_ms": 12.5}\n{"step": 2, "step_time_ms": 12.6}\n',
    ],
)
def test_a_log_with_a_column_of_that_name_is_read(tmp_path: Path, text: str) -> None:
    file = tmp_path / "log"
    file.write_text(text)
    assert detect(file).name == "timing"


def test_a_database_of_export_is_refused_by_name(tmp_path: Path) -> None:
    written = tmp_path / "events.sqlite"
    one = str(ranks("ranks2/straggler.base")[0])
    assert CliRunner().invoke(cli, ["export", one, "-o", str(written)]).exit_code == 0
    found = detect(written)
    with pytest.raises(UnreadableInputError, match="the database `traceanalyzer export` wrote"):
        found.read(written)
