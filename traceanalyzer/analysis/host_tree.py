"""Nesting of host ranges and API calls on each thread, found by sorting; see `HostTree`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from traceanalyzer.trace import RangeKind

if TYPE_CHECKING:
    from traceanalyzer.trace import I32, I64, Bool, Trace


@dataclass(frozen=True, eq=False)
class HostTree:
    """Host ranges (operators, annotations, library calls; not Python frames) and API calls as one forest.

    A *node* is a range or a call. Nodes are sorted by (thread, start, longest first), so a parent always
    comes before its children, and a node's subtree is the contiguous stretch of nodes that follows it.
    All arrays have one entry a node.
    """

    start: I64
    end: I64
    """As recorded; `repaired` counts nodes that end after their parent."""
    thread: I32
    parent: I64
    """Node of the innermost enclosing node on the same thread, -1 for a root."""
    depth: I32
    is_call: Bool
    """Whether the node is an API call (else a host range)."""
    row: I64
    """Row in `Trace.api_calls` or `Trace.host_ranges`."""
    node_of_call: I64
    """For each API call its node."""
    node_of_range: I64
    """For each host range its node, -1 for Python frames and OS calls (they are not in this tree)."""
    repaired: int = 0

    @classmethod
    def build(cls, trace: Trace) -> HostTree:
        """Make the forest of a trace."""
        ranges, calls = trace.host_ranges, trace.api_calls
        kept = np.flatnonzero((ranges.kind != RangeKind.PYTHON) & (ranges.kind != RangeKind.OS))
        start = np.concatenate((ranges.start[kept], calls.start))
        end = np.concatenate((ranges.end[kept], calls.end))
        thread = np.concatenate((ranges.thread[kept], calls.thread))
        is_call = np.concatenate((np.zeros(len(kept), bool), np.ones(len(calls), bool)))
        row = np.concatenate((kept, np.arange(len(calls))))
        # Of two nodes with equal times the range encloses the call.
        order = np.lexsort((is_call, -end, start, thread))
        start, end, thread, is_call, row = start[order], end[order], thread[order], is_call[order], row[order]
        parent = nest(thread, start, end)
        node_of_range = np.full(len(ranges), -1, np.int64)
        node_of_call = np.full(len(calls), -1, np.int64)
        node_of_range[row[~is_call]] = np.flatnonzero(~is_call)
        node_of_call[row[is_call]] = np.flatnonzero(is_call)
        inside = parent >= 0
        repaired = int((end[inside] > end[parent[inside]]).sum())
        return cls(
            start, end, thread, parent, depths(parent), is_call, row, node_of_call, node_of_range, repaired
        )


def nest(thread: I32, start: I64, end: I64) -> I64:
    """The innermost enclosing interval of each interval on the same thread, -1 where there is none.

    Intervals must be sorted by (thread, start, longest first). An interval encloses a later one if it has
    not ended when that one starts, even where the later one ends after it (damaged recordings). Time goes
    by the number of intervals; the work is one pass with a stack.
    """
    parent = np.empty(len(start), np.int64)
    stack: list[int] = []
    ends: list[int] = []
    current = -1
    for i, (t, s, e) in enumerate(zip(thread.tolist(), start.tolist(), end.tolist(), strict=True)):
        if t != current:
            stack.clear()
            ends.clear()
            current = t
        while ends and ends[-1] <= s:
            stack.pop()
            ends.pop()
        parent[i] = stack[-1] if stack else -1
        stack.append(i)
        ends.append(e)
    return parent


def depths(parent: I64) -> I32:
    """How many ancestors each node has, from parents that precede their children."""
    depth = np.zeros(len(parent), np.int32)
    ancestor = parent.copy()
    while True:
        inside = ancestor >= 0
        if not inside.any():
            return depth
        depth[inside] += 1
        ancestor[inside] = parent[ancestor[inside]]
