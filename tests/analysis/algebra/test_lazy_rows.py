"""Rows that are made when they are asked for."""

from __future__ import annotations

import pytest

from tests.analysis.build import TraceBuilder
from traceanalyzer.analysis.algebra import lazy_rows as module
from traceanalyzer.analysis.algebra.lazy_rows import LazyRows, lazy_rows
from traceanalyzer.analysis.tables.gap_rows import gap_places
from traceanalyzer.diagnosis.measurements import measure
from traceanalyzer.trace import Trace


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
