"""Nesting of host ranges and API calls on each thread, found by sorting; see `HostTree`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from traceanalyzer.analysis.algebra.nesting import levels, nest
from traceanalyzer.analysis.algebra.order import stable_order
from traceanalyzer.trace import RangeKind, alike

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from traceanalyzer.trace import I32, I64, U8, Bool, Trace

Scalar = TypeVar("Scalar", bound=np.generic)

FEW = 4
"""Where fewer than one in so many nodes is wanted, it is quicker to go through these than through the tree."""


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
    parent: I32
    """Node of the innermost enclosing node on the same thread, -1 for a root."""
    depth: I32
    kind: U8
    """`RangeKind`, 0 for an API call."""
    is_call: Bool
    """Whether the node is an API call (else a host range)."""
    name: I32
    """Name (code) of the range, -1 for an API call."""
    row: I32
    """Row in `Trace.api_calls` or `Trace.host_ranges`."""
    node_of_call: I32
    """For each API call its node."""
    node_of_range: I32
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
        kind = np.concatenate((ranges.kind[kept], np.zeros(len(calls), np.uint8)))
        row = np.concatenate((kept.astype(np.int32), np.arange(len(calls), dtype=np.int32)))
        name = np.concatenate((ranges.name[kept], alike(-1, len(calls), np.int32)))
        del kept
        order = _order(thread, start, end, kind)
        start, end, thread, kind, row = start[order], end[order], thread[order], kind[order], row[order]
        name = name[order]
        del order
        is_call = kind == 0
        wide, depth = nest(thread, start, end)
        parent = wide.astype(np.int32)
        del wide
        node_of_range = np.full(len(ranges), -1, np.int32)
        node_of_call = np.full(len(calls), -1, np.int32)
        node_of_range[row[~is_call]] = np.flatnonzero(~is_call)
        node_of_call[row[is_call]] = np.flatnonzero(is_call)
        inside = parent >= 0
        repaired = int((end[inside] > end[parent[inside]]).sum())
        return cls(start, end, thread, parent, depth, kind, is_call, name, row, node_of_call, node_of_range, repaired)

    @cached_property
    def levels(self) -> list[I32]:
        """The nodes of each depth, in order."""
        return [here.astype(np.int32) for here in levels(self.depth)]

    @cached_property
    def operator(self) -> I32:
        """For each node the nearest operator among itself and its ancestors, -1 where there is none."""
        return self.innermost(self.kind == RangeKind.OP)

    @cached_property
    def outer_operator(self) -> I32:
        """For each node the farthest operator among itself and its ancestors, -1 where there is none."""
        return self.outermost(self.kind == RangeKind.OP)

    @cached_property
    def annotation(self) -> I32:
        """The same of annotations."""
        return self.innermost(self.kind == RangeKind.ANNOTATION)

    @cached_property
    def subtree_end(self) -> I32:
        """For each node the node after its last descendant: its subtree is [node, subtree_end[node])."""
        result = np.empty(len(self.start), np.int32)
        for here in self.levels:
            following = np.append(here[1:], np.int32(len(self.start)))
            above = self.parent[here]
            inside = above >= 0
            following[inside] = np.minimum(following[inside], result[above[inside]])
            result[here] = following
        return result

    def subtree_sum(self, values: I64) -> I64:
        """For each node the sum of `values` (one a node) over the node and its descendants."""
        before = np.concatenate((np.zeros(1, np.int64), np.cumsum(values)))
        result: I64 = before[self.subtree_end] - before[:-1]
        return result

    def named(self, texts: Bool) -> Bool:
        """Which nodes are ranges of these names (of `texts_where`)."""
        result: Bool = texts[self.name]
        return result

    def of_ranges(self, values: NDArray[Scalar], otherwise: object) -> NDArray[Scalar]:
        """For each node the value (one a host range) of its range; `otherwise` for API calls."""
        result = np.full(len(self.start), otherwise, values.dtype)
        result[~self.is_call] = values[self.row[~self.is_call]]
        return result

    def innermost(self, wanted: Bool) -> I32:
        """For each node the nearest wanted node among itself and its ancestors, -1 where there is none."""
        rows = np.flatnonzero(wanted)
        if len(rows) * FEW < len(wanted):
            return self._innermost_of_few(rows)
        result = np.where(wanted, np.arange(len(wanted), dtype=np.int32), np.int32(-1))
        for here in self.levels[1:]:
            missing = here[result[here] < 0]
            result[missing] = result[self.parent[missing]]
        return result

    def _innermost_of_few(self, rows: I64) -> I32:
        """The same from the wanted nodes: each holds from its place on, and what is around it after its subtree."""
        stop = self.subtree_end[rows].astype(np.int64)
        above = np.append(rows, -1)[nest(np.zeros(len(rows), np.int32), rows, stop).parent]
        # At one place inner ends come before outer ones, and these before what starts there.
        place = np.concatenate(([0], stop[::-1], rows))
        holds = np.concatenate(([-1], above[::-1], rows)).astype(np.int32)
        order = np.argsort(place, kind="stable")
        return np.repeat(holds[order], np.diff(np.append(place[order], len(self.start))))

    def outermost(self, wanted: Bool) -> I32:
        """For each node the farthest wanted node among itself and its ancestors, -1 where there is none."""
        rows = np.flatnonzero(wanted)
        if not len(rows):
            return np.full(len(self.start), -1, np.int32)
        reach = np.maximum.accumulate(self.subtree_end[rows])
        top = rows[np.concatenate(([True], rows[1:] >= reach[:-1]))]
        # Their subtrees follow each other: from each begin and end on it is that node, and none.
        edges = np.stack((top, self.subtree_end[top]), axis=1).ravel()
        holds = np.stack((top, np.full(len(top), -1)), axis=1).ravel().astype(np.int32)
        return np.repeat(np.append(np.int32(-1), holds), np.diff(edges, prepend=0, append=len(self.start)))

    def counted(self, chosen: Bool) -> I64:
        """For each node how many chosen ones there are among itself and those that enclose it."""
        result = chosen.astype(np.int64)
        for here in self.levels[1:]:
            result[here] += result[self.parent[here]]
        return result

    def enclosing(self, nearest: I32, node: I32 | I64) -> I64:
        """`nearest` (of `innermost`) strictly above each of these nodes, -1 for -1 and for roots."""
        parent = np.where(node >= 0, self.parent[node], -1)
        result: I64 = np.where(parent >= 0, nearest[parent], -1)
        return result


def _order(thread: I32, start: I64, end: I64, kind: U8) -> I64:
    """The order by thread, then start, longest first, of two nodes with equal times the range before the call.

    The times of ranges and of calls ascend, so that the sort has but to merge them; only what starts at the same time
    on the same thread is left to be sorted.
    """
    order = np.argsort(start, kind="stable")
    order = order[stable_order(thread[order])]
    alike = np.zeros(len(order) + 1, bool)
    alike[1:-1] = (np.diff(start[order]) == 0) & (np.diff(thread[order]) == 0)
    tied = np.flatnonzero(alike[1:] | alike[:-1])
    rows = order[tied]
    order[tied] = rows[np.lexsort((kind[rows] == 0, -end[rows], start[rows], thread[rows]))]
    return order
