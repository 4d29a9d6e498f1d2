"""Nodes of the host tree by the names of their ranges."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from tests.analysis.build import TraceBuilder
from traceanalyzer.analysis.algebra import texts_where
from traceanalyzer.analysis.joined import host_tree
from traceanalyzer.analysis.joined.host_tree import FEW_NAMES, HostTree

if TYPE_CHECKING:
    from traceanalyzer.trace import Trace

NAMES = [f"aten::{letter}" for letter in "abcdefgh"]


def recorded() -> Trace:
    """Each of the names twice, a Python frame that is called as the first of them, and a call."""
    trace = TraceBuilder()
    for place, name in enumerate(NAMES * 2):
        trace.op(name, 100 * place, 100 * place + 50)
    trace.python(NAMES[0], 10, 40)
    trace.call("cudaLaunchKernel", 20, 30, 1).kernel("gemm", 40, 50, 1)
    return trace.build()


@pytest.mark.parametrize("count", [0, 1, FEW_NAMES, FEW_NAMES + 1, len(NAMES)])
def test_named_are_the_ranges_of_these_names(count: int) -> None:
    trace = recorded()
    tree = HostTree.build(trace)
    wanted = {*NAMES[:count], "gemm", "of no range"}
    named = tree.named(texts_where(trace.strings, wanted.__contains__))
    names = [trace.text(code) for code in tree.names(np.arange(len(named))).tolist()]
    assert named.tolist() == [name in wanted for name in names]
    assert named.sum() == 2 * count


def test_names_of_no_range_are_not_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    trace = recorded()
    compared: list[int] = []
    found = host_tree.isin_few
    monkeypatch.setattr(
        host_tree,
        "isin_few",
        lambda values, wanted: found(values, compared.extend(wanted) or wanted),
    )
    tree = HostTree.build(trace)
    wanted = {"gemm", "cudaLaunchKernel", NAMES[3]}
    assert tree.named(texts_where(trace.strings, wanted.__contains__)).sum() == 2
    assert [trace.text(code) for code in compared] == [NAMES[3]]
