"""What is made a row of a table is not made anew for each row: the work of a report is counted, not
timed."""

from __future__ import annotations

import sys
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import traceanalyzer
from tests.analysis.build import TraceBuilder
from traceanalyzer.analysis.algebra import blocks
from traceanalyzer.analysis.causes import critical_path
from traceanalyzer.analysis.joined.host_tree import HostTree
from traceanalyzer.analysis.tables import gap_rows, path_rows
from traceanalyzer.diagnosis.selection import measured
from traceanalyzer.report.build import build_report, report_of
from traceanalyzer.report.table_entries import TABLES
from traceanalyzer.report.table_entries.kinds import RowFilter
from traceanalyzer.report.tables import measured_rows
from traceanalyzer.trace import Run, Trace

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from traceanalyzer.analysis.causes.gaps import Gaps
    from traceanalyzer.analysis.time.timed import Timed
    from traceanalyzer.trace import I32

FEW, MANY = 8, 48
"""Steps of two recordings that are alike but for that."""


def steps_of(count: int) -> Trace:
    """So many steps of a matmul that reads its result, an all-reduce of a size of its own, and a
    loss that waits."""
    trace = TraceBuilder()
    for step in range(count):
        at = step * 1000
        trace.annotation(f"ProfilerStep#{step}", at, at + 990)
        trace.op("aten::mm", at + 10, at + 60, shapes="[[64, 64], [64, 64]]")
        trace.call("cudaLaunchKernel", at + 20, at + 30, 3 * step)
        trace.kernel("gemm", at + 40, at + 240, 3 * step, stream=7)
        trace.op("nccl:all_reduce", at + 70, at + 130)
        trace.call("cudaLaunchKernel", at + 80, at + 90, 3 * step + 1)
        trace.kernel("ncclDevKernel_AllReduce_Sum", at + 300, at + 600, 3 * step + 1, stream=9)
        trace.op("aten::item", at + 610, at + 800)
        trace.call("cudaMemcpyAsync", at + 620, at + 630, 3 * step + 2)
        trace.call("cudaStreamSynchronize", at + 640, at + 790)
        trace.kernel("Memcpy DtoH", at + 700, at + 710, 3 * step + 2, kind=1, stream=7)
    return trace.build()


def test_properties_are_not_read_once_a_row() -> None:
    few, many = (_array_properties(count) for count in (FEW, MANY))
    more = {name: (few[name], times) for name, times in many.items() if times > few[name] + 2}
    assert many["Steps.duration"] > 0
    assert not more, f"read more often where there are more steps: {more}"


def _array_properties(steps: int) -> Counter[str]:
    """How often a report of so many steps and its tables read each property that makes an array."""
    run = Run((steps_of(steps),))
    read: Counter[str] = Counter()
    with pytest.MonkeyPatch.context() as patch:
        for owner, name, made in _properties():

            def counted(self: Any, made: Any = made, key: str = f"{owner.__name__}.{name}") -> Any:
                value = made.fget(self)
                if isinstance(value, np.ndarray):
                    read[key] += 1
                return value

            patch.setattr(owner, name, property(counted))
        of = measured(run)
        report_of(of)
        for table in TABLES:
            measured_rows(of, table.name, RowFilter())
    return read


def _properties() -> Iterator[tuple[type, str, property]]:
    """The properties of the package's classes that are made anew when read."""
    owners = {
        id(value): value
        for module in list(sys.modules.values())
        if getattr(module, "__name__", "").startswith(traceanalyzer.__name__)
        for value in vars(module).values()
        if isinstance(value, type) and value.__module__.startswith(traceanalyzer.__name__)
    }
    for owner in owners.values():
        for name, value in vars(owner).items():
            if isinstance(value, property):
                yield owner, name, value


def test_parts_of_the_critical_path_share_the_names(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: Counter[int] = Counter()
    made = HostTree.innermost
    monkeypatch.setattr(
        HostTree, "innermost", lambda tree, which: (asked.update([0]), made(tree, which))[1]
    )
    times = []
    for at_once in (critical_path.AT_ONCE, 8):
        monkeypatch.setattr(critical_path, "AT_ONCE", at_once)
        asked.clear()
        build_report(Run((steps_of(MANY),)))
        times.append(asked[0])
    assert times[0] == times[1] > 0


def test_names_around_nodes_are_made_once_for_all_gaps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of millions of gaps, which are looked at some at a time."""
    made: list[Timed] = []
    of = path_rows.NodeNames.of
    monkeypatch.setattr(path_rows.NodeNames, "of", lambda timed: (made.append(timed), of(timed))[1])
    causes = measured(Run((steps_of(MANY),))).critical.causes
    gaps = causes.gaps
    monkeypatch.setattr(blocks, "AT_ONCE", 8)
    assert len(gaps) > 2 * blocks.AT_ONCE
    gap_rows.nodes_behind(causes.timed, gaps, np.arange(len(gaps)))
    assert len(made) == 1


def test_where_the_host_was_in_gaps_is_found_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The ledger and the table of places ask for the same nodes of the host tree."""
    asked: list[int] = []
    found = gap_rows.nodes_behind

    def counted(timed: Timed, gaps: Gaps, chosen: NDArray[np.integer[Any]]) -> I32:
        asked.append(len(chosen))
        return found(timed, gaps, chosen)

    monkeypatch.setattr(gap_rows, "nodes_behind", counted)
    of = measured(Run((steps_of(FEW),)))
    report_of(of)
    assert of.critical.ledger is not None
    assert of.critical.gap_places
    assert len(asked) == 1
