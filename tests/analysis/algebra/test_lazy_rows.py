"""Rows that are made when they are asked for."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING

import pytest

from tests.analysis.build import TraceBuilder
from traceanalyzer.analysis.algebra import lazy_rows as module
from traceanalyzer.analysis.algebra.lazy_rows import FEW, ColumnRows, LazyRows, column_of, lazy_rows
from traceanalyzer.analysis.tables.budget import StepRow
from traceanalyzer.analysis.tables.gap_rows import gap_places
from traceanalyzer.base import dataclass
from traceanalyzer.diagnosis.measurements import measure
from traceanalyzer.diagnosis.selection import measured
from traceanalyzer.ingest import load
from traceanalyzer.report.build import build_report, report_of
from traceanalyzer.report.json import render_json
from traceanalyzer.report.kept_answers import kept_text
from traceanalyzer.report.privacy.redact import redact
from traceanalyzer.report.table_entries.kinds import RowFilter
from traceanalyzer.report.tables import in_lists, measured_rows
from traceanalyzer.report.terminal.screen import render_terminal
from traceanalyzer.trace import Trace

if TYPE_CHECKING:
    from pathlib import Path


def numbered(names: int) -> Trace:
    """A step of so many kernels, each of a name of its own and by an operator of its own, the last
    the longest."""
    b = TraceBuilder()
    b.annotation("ProfilerStep#0", 0, 1000.0 * names)
    for i in range(names):
        at = 10 + 900.0 * i
        b.op(f"op{i}x", at, at + 20)
        b.call("cudaLaunchKernel", at + 5, at + 10, correlation=i + 1)
        b.kernel(f"kernel{i}x", at + 30, at + 40 + i, correlation=i + 1)
    return b.build()


def test_only_rows_that_are_asked_for_are_made() -> None:
    asked: list[int] = []

    def make(number: int) -> str:
        asked.append(number)
        return str(number)

    rows = LazyRows(range(9, 0, -1), make)
    assert (len(rows), asked) == (9, [])
    assert (rows[1], rows[-1], rows[:3]) == ("8", "1", ["9", "8", "7"])
    assert asked == [8, 1, 9, 8, 7]
    assert list(rows) == list("987654321")


def test_few_rows_are_a_list() -> None:
    assert lazy_rows([2, 1], str) == ["2", "1"]


ROWS = {
    "kernels": lambda m: m.kernels,
    "ops": lambda m: m.ops,
    "path": lambda m: m.path,
    "gap_places": lambda m: gap_places(m.causes),
}


@pytest.mark.parametrize("table", ROWS)
def test_rows_are_the_same_whenever_they_are_made(
    monkeypatch: pytest.MonkeyPatch, table: str
) -> None:
    trace = numbered(12)
    at_once = ROWS[table](measure(trace))
    monkeypatch.setattr(module, "FEW", 1)
    rows = ROWS[table](measure(trace))
    assert len(at_once) > 1
    assert rows[:2] == at_once[:2]
    assert list(rows) == at_once
    assert isinstance(rows, LazyRows)


@dataclass(frozen=True)
class Pair:
    number: int
    name: str


def pairs(asked: list[str]) -> ColumnRows[Pair]:
    def columns() -> dict[str, list[object]]:
        asked.append("columns")
        return {"name": ["a", "b", "c"], "number": [1, 2, 3]}

    return ColumnRows(Pair, 3, columns)


def test_columns_are_made_once_and_rows_when_asked_for() -> None:
    asked: list[str] = []
    rows = pairs(asked)
    assert (len(rows), asked) == (3, [])
    assert (rows[1], rows[-1], rows[:1]) == (Pair(2, "b"), Pair(3, "c"), [Pair(1, "a")])
    assert list(rows) == [Pair(1, "a"), Pair(2, "b"), Pair(3, "c")]
    assert next(iter(rows)) is next(iter(rows))
    assert asked == ["columns"]


def test_a_column_of_rows_makes_none_of_them() -> None:
    rows = pairs([])
    assert list(column_of(rows, "number")) == list(column_of(rows[:], "number")) == [1, 2, 3]
    assert "_all" not in vars(rows)


def test_rows_of_columns_are_equal_to_a_list_of_them() -> None:
    rows = pairs([])
    assert rows == rows[:]
    assert rows[:] == rows
    assert rows != rows[:2]
    assert rows == pairs([])
    assert pickle.loads(pickle.dumps(rows)) == rows[:]  # noqa: S301 its own


@pytest.fixture
def logged(tmp_path: Path) -> Path:
    file = tmp_path / "train.log"
    lines = (f"step {i} loss {2 + i % 7:.2f} step_time_ms {100 + i % 13}" for i in range(FEW + 9))
    file.write_text("\n".join(lines))
    return file


def test_steps_of_a_long_log_are_made_when_asked_for(
    logged: Path,
) -> None:
    of = measured(load([logged]))
    report = report_of(of)
    steps: object = report.tables["steps"]
    assert isinstance(steps, ColumnRows)
    whole = render_terminal(report)
    assert "_all" not in vars(steps)
    longest = measured_rows(of, "steps", RowFilter(3))
    assert "_all" not in vars(steps)
    assert {type(one) for one in longest} == {StepRow}
    listed = build_report(load([logged]))
    assert in_lists(report.tables) == listed.tables
    assert {type(rows) for rows in listed.tables.values()} == {list}
    assert render_terminal(listed) == whole
    assert render_json(report) == render_json(listed)
    assert kept_text(report.tables) == kept_text(listed.tables)
    assert redact(report) == redact(listed)
