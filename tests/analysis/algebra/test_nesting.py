"""The vectorised nesting against a stack that goes through the intervals one by one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.analysis.build import TraceBuilder
from traceanalyzer.analysis.algebra import nesting
from traceanalyzer.analysis.algebra.nesting import nest
from traceanalyzer.analysis.joined.host_tree import HostTree

Interval = tuple[int, int, int]


def naive(intervals: list[Interval]) -> list[int]:
    """Parents of (thread, start, end) in order: the last earlier interval on the thread that is
    still open, an interval being cut off where the one around it ends."""
    parents: list[int] = []
    reach: list[int] = []
    for i, (thread, start, end) in enumerate(intervals):
        opened = [j for j in range(i) if intervals[j][0] == thread and reach[j] > start]
        parents.append(opened[-1] if opened else -1)
        reach.append(min(end, reach[opened[-1]]) if opened else end)
    return parents


def in_order(intervals: list[Interval]) -> list[Interval]:
    return sorted(intervals, key=lambda i: (i[0], i[1], -i[2]))


def parents(intervals: list[Interval]) -> list[int]:
    thread, start, end = np.array(intervals, np.int64).reshape(-1, 3).T
    return nest(thread.astype(np.int32), start, end).parent.tolist()


@st.composite
def anything(draw: st.DrawFn) -> list[Interval]:
    """Intervals that may cross, touch, coincide or be empty."""
    triples = st.tuples(st.integers(-1, 2), st.integers(0, 30), st.integers(0, 12))
    return in_order([(t, s, s + d) for t, s, d in draw(st.lists(triples, max_size=40))])


@st.composite
def proper(draw: st.DrawFn, low: int = 0, high: int = 200, depth: int = 0) -> list[Interval]:
    """Intervals that nest properly on one thread."""
    cuts = sorted(set(draw(st.lists(st.integers(low, high), max_size=6))))
    result: list[Interval] = []
    for start, end in zip(cuts[::2], cuts[1::2], strict=False):
        result.append((0, start, end))
        if depth < 4:
            result += draw(proper(start, end, depth + 1))
    return in_order(result)


@given(anything())
def test_parents_are_those_of_the_stack(intervals: list[Interval]) -> None:
    assert parents(intervals) == naive(intervals)


@given(proper())
def test_proper_nesting_needs_no_mending(intervals: list[Interval]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nesting, "_nest_by_stack", None)
        assert parents(intervals) == naive(intervals)


@given(anything())
def test_times_too_large_to_lay_end_to_end(intervals: list[Interval]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nesting, "MAX_SHIFT", 0)
        assert parents(intervals) == naive(intervals)


@given(anything())
def test_depth_counts_the_ancestors(intervals: list[Interval]) -> None:
    thread, start, end = np.array(intervals, np.int64).reshape(-1, 3).T
    found = nest(thread.astype(np.int32), start, end)
    for i, depth in enumerate(found.depth.tolist()):
        ancestors = 0
        above = int(found.parent[i])
        while above >= 0:
            ancestors = ancestors + 1
            above = int(found.parent[above])
        assert depth == ancestors


def test_absolute_times_of_decades_and_hundreds_of_threads() -> None:
    base = 1_700_000_000_000_000_000
    intervals = in_order(
        [(t, base + i, base + i + 10 - i) for t in range(300) for i in range(3)] + [(0, 0, 1)]
    )
    assert parents(intervals) == naive(intervals)


def tree_of(intervals: list[Interval]) -> HostTree:
    b = TraceBuilder()
    for i, (thread, start, end) in enumerate(intervals):
        if i % 3 == 2:
            b.call("cudaLaunchKernel", start, end, thread=max(thread, 0))
        elif i % 3 == 1:
            b.annotation("a", start, end, thread=max(thread, 0))
        else:
            b.op("o", start, end, thread=max(thread, 0))
    return HostTree.build(b.build())


def ancestors_or_self(tree: HostTree, node: int) -> list[int]:
    """Innermost first."""
    found = []
    while node >= 0:
        found.append(node)
        node = int(tree.parent[node])
    return found


@given(anything())
def test_subtrees_are_contiguous(intervals: list[Interval]) -> None:
    tree = tree_of(intervals)
    lineage = [set(ancestors_or_self(tree, n)) for n in range(len(tree.start))]
    for node, stop in enumerate(tree.subtree_end.tolist()):
        assert [n for n in range(len(lineage)) if node in lineage[n]] == list(range(node, stop))


@given(anything())
def test_sums_and_nearest_nodes(intervals: list[Interval]) -> None:
    tree = tree_of(intervals)
    values = np.arange(1, len(tree.start) + 1) ** 2
    wanted = ~tree.is_call
    lineage = [ancestors_or_self(tree, n) for n in range(len(tree.start))]
    for node in range(len(lineage)):
        assert tree.subtree_sum(values, np.array([node]))[0] == sum(
            v for n, v in enumerate(values.tolist()) if node in lineage[n]
        )
        chosen = [n for n in lineage[node] if wanted[n]]
        assert tree.innermost(wanted)[node] == (chosen[0] if chosen else -1)
        assert tree.outermost(wanted)[node] == (chosen[-1] if chosen else -1)


def test_equal_times_put_the_range_around_the_call() -> None:
    tree = HostTree.build(
        TraceBuilder().call("cudaLaunchKernel", 0, 5).op("aten::mm", 0, 5).build()
    )
    assert tree.parent[tree.node_of_call[0]] == tree.node_of_range[0]


def test_python_frames_stay_out_and_overruns_are_counted() -> None:
    b = TraceBuilder().python("f", 0, 100).op("outer", 10, 20).op("inner", 15, 21)
    tree = HostTree.build(b.build())
    assert tree.node_of_range.tolist() == [-1, 0, 1]
    assert tree.repaired == 1


def test_an_empty_trace() -> None:
    tree = HostTree.build(TraceBuilder().build())
    assert len(tree.parent) == len(tree.subtree_end) == len(tree.innermost(tree.is_call)) == 0
    assert len(tree.outermost(tree.is_call)) == 0
