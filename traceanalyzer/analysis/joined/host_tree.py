"""Nesting of host ranges and API calls on each thread, found by sorting; see `HostTree`."""

from functools import cached_property
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.analysis.algebra import (
    Column,
    LookedUp,
    at,
    blockwise,
    flatnonzero32,
    isin_few,
    levels,
    nest,
    run_lengths,
    subtree_ends,
)
from traceanalyzer.base import dataclass
from traceanalyzer.trace import (
    I32,
    I64,
    U8,
    Bool,
    RangeKind,
    Trace,
    constant_column,
    distinct,
    is_constant,
    narrowed,
    ordered,
)

Scalar = TypeVar("Scalar", bound=np.generic)
FEW = 4
"""Where fewer than one in so many nodes is wanted, it is quicker to go through these than through
the tree."""
FEW_NAMES = 3
"""So many names are sooner compared one by one than looked up."""


@dataclass(frozen=True, eq=False)
class OfNodes(LookedUp):
    """A column of ranges and calls by node, looked up where it is asked for: `column[nodes]` is an
    array, `column[:]` all of it. For trees of hardly anything but calls: there it takes no longer,
    and nothing is held twice."""

    of_range: I64
    of_call: I64
    is_call: Bool
    row: Column  # as in `HostTree`

    @property
    def dtype(self) -> np.dtype[np.int64]:
        """Type of its numbers."""
        return self.of_call.dtype

    def __len__(self) -> int:
        return len(self.row)

    def __getitem__(self, node: Any) -> Any:
        row = self.row[node]
        is_call = self.is_call[node]
        if row.ndim == 0:
            return (self.of_call if is_call else self.of_range)[row]
        if not len(self.of_call):
            return self.of_range[row]
        result = self.of_call.take(row, mode="clip")
        ranges = np.flatnonzero(~is_call)
        result[ranges] = self.of_range[row[ranges]]
        return result


@dataclass(frozen=True, eq=False)
class HostTree:
    """Host ranges (operators, annotations, library calls; not Python frames) and API calls as one
    forest.

    A *node* is a range or a call. Nodes are sorted by (thread, start, longest first), so a parent
    always comes before its children, and a node's subtree is the contiguous stretch of nodes that
    follows it. All arrays have one entry a node."""

    start: Column
    end: Column  # as recorded; `repaired` counts nodes that end after their parent
    thread: I32
    parent: Column  # node of the innermost enclosing node on the same thread, -1 for a root
    depth: NDArray[Any]  # how many nodes enclose it; of as few bytes as that needs
    kind: U8  # `RangeKind`, 0 for an API call
    is_call: Bool  # whether the node is an API call (else a host range)
    row: Column  # row in `Trace.api_calls` or `Trace.host_ranges`
    node_of_call: Column  # for each API call its node
    # for each host range its node, -1 for Python frames and OS calls (they are not in this tree)
    node_of_range: I32
    range_name: I32  # for each host range its name (code)
    repaired: int = 0

    @classmethod
    def build(cls, trace: Trace) -> "HostTree":
        """Make the forest of a trace."""
        ranges = trace.host_ranges
        calls = trace.api_calls
        nodes = _sorted_nodes(trace)
        is_call = nodes.is_call
        parent, depth, mended = nest(nodes.thread, nodes.start, nodes.end)
        sticking_out = (parent >= 0) & (nodes.end > nodes.end[parent])
        repaired = int(sticking_out.sum()) if mended else 0
        node_of_range = np.full(len(ranges), -1, np.int32)
        node_of_range[nodes.row[~is_call]] = flatnonzero32(~is_call)
        node_of_call = np.full(len(calls), -1, np.int32)
        node_of_call[nodes.row[is_call]] = flatnonzero32(is_call)
        rows = run_lengths(nodes.row, counts=True)
        start: Column = nodes.start
        end: Column = nodes.end
        if nodes.ranges * FEW < len(is_call):
            start = OfNodes(ranges.start, calls.start, is_call, rows)
            end = OfNodes(ranges.end, calls.end, is_call, rows)
        shallow = depth.max(initial=0) < 2**7
        return cls(
            start=start,
            end=end,
            thread=nodes.thread,
            parent=run_lengths(parent),
            depth=depth.astype(np.int8) if shallow else narrowed(depth),
            kind=nodes.kind,
            is_call=is_call,
            row=rows,
            node_of_call=run_lengths(node_of_call, counts=True),
            node_of_range=node_of_range,
            range_name=ranges.name,
            repaired=repaired,
        )

    @cached_property
    def has_operators(self) -> bool:
        """Whether any node is an operator."""
        return bool((self.kind == RangeKind.OP).any())

    @cached_property
    def operator(self) -> I32:
        """For each node the nearest operator among itself and its ancestors, -1 where there is
        none."""
        return self.innermost(self.kind == RangeKind.OP)

    @cached_property
    def outer_operator(self) -> I32:
        """For each node the farthest operator among itself and its ancestors, -1 where there is
        none."""
        return self.outermost(self.kind == RangeKind.OP)

    @cached_property
    def annotation(self) -> Column:
        """For each node the nearest annotation among itself and its ancestors, -1 where there is
        none."""
        return run_lengths(self.innermost(self.kind == RangeKind.ANNOTATION))

    @cached_property
    def subtree_end(self) -> Column:
        """For each node the node after its last descendant: its subtree is [node,
        subtree_end[node])."""
        return run_lengths(subtree_ends(self.parent, self.depth), counts=True)

    def subtree_sum(self, values: I64 | Bool, node: I32 | I64) -> I64:
        """For each of these nodes the sum of `values` (one for every node) over the node and its
        descendants."""
        if len(node) * FEW < len(values):
            stop = self.subtree_end[node]
            edges = distinct(np.concatenate((node, stop)))
            between = (
                np.add.reduceat(values, edges[edges < len(values)], dtype=np.int64)
                if len(edges)
                else edges
            )
            before = np.append(np.int64(0), np.cumsum(between))
            return before[np.searchsorted(edges, stop)] - before[np.searchsorted(edges, node)]
        before = np.zeros(len(values) + 1, np.int32 if values.dtype == np.bool_ else np.int64)
        np.cumsum(values, dtype=before.dtype, out=before[1:])
        stop = self.subtree_end

        def inside(nodes: I32 | I64) -> I64:
            up_to = before.take(stop.take(nodes))
            return np.subtract(up_to, before.take(nodes), dtype=np.int64)

        return blockwise(inside, node)

    def named(self, texts: Bool) -> Bool:
        """Which nodes are ranges of these names (of `texts_where`)."""
        of_ranges = self._names_of_ranges
        names = np.flatnonzero(texts[: len(of_ranges)] & of_ranges)
        few = len(names) <= FEW_NAMES
        is_named = isin_few(self.range_name, names) if few else texts.take(self.range_name)
        result = np.zeros(len(self.start) + 1, bool)
        result[self.node_of_range[np.flatnonzero(is_named)]] = True
        return result[:-1]  # the last one is of ranges that are no nodes

    @cached_property
    def _names_of_ranges(self) -> Bool:
        """By code: whether any range has this name. Most names that are asked for none has."""
        result = np.zeros(int(self.range_name.max(initial=-1)) + 2, bool)
        result[self.range_name] = True
        return result[:-1]  # the last one is of ranges without a name

    def names(self, node: I32 | I64) -> I32:
        """Name (code) of the range that each of these nodes is, -1 for API calls and for -1."""
        result = np.full(len(node), -1, np.int32)
        of_range = np.flatnonzero(~at(self.is_call, node, True))
        result[of_range] = self.range_name[self.row[node[of_range]]]
        return result

    def of_ranges(self, values: NDArray[Scalar], otherwise: object) -> NDArray[Scalar]:
        """For each node the value (one a host range) of its range; `otherwise` for API calls."""
        result = np.full(len(self.start) + 1, otherwise, values.dtype)
        result[self.node_of_range] = values
        return result[:-1]  # the last one is of ranges that are no nodes

    @cached_property
    def outermost_operators(self) -> I64:
        """The nodes that are operators and inside of none, ascending."""
        rows = np.flatnonzero(self.kind == RangeKind.OP)
        return rows[self.outer_operator[rows] == rows]

    def innermost(self, wanted: Bool) -> I32:
        """For each node the nearest wanted node among itself and its ancestors, -1 where there is
        none."""
        rows = np.flatnonzero(wanted).astype(np.int32)
        if not len(rows):
            return constant_column(-1, len(wanted), np.int32)
        if len(rows) * FEW < len(wanted):
            stop = self.subtree_end[rows].astype(np.int64)
            if (rows[1:] >= stop[:-1]).all():
                return self._held(rows, stop)
            # Each of the few holds from its place on, and what is around it after its subtree.
            one_thread = np.zeros(len(rows), np.int32)
            around = nest(one_thread, rows.astype(np.int64), stop).parent
            above = at(rows, around, -1)
            # At one place inner ends come before outer ones, and these before what starts there.
            place = np.concatenate(([0], stop[::-1], rows))
            outside = np.full(1, -1, np.int32)
            holds = np.concatenate((outside, above[::-1], rows))
            order = np.argsort(place, kind="stable")
            length = np.diff(np.append(place[order], len(self.start)))
            return np.repeat(holds[order], length)
        result = np.arange(len(wanted), dtype=np.int32)
        others = np.flatnonzero(~wanted).astype(np.int32)
        result[others] = -1
        for level in levels(self.depth[others])[1:]:
            nodes = others[level]
            result[nodes] = result.take(self.parent.take(nodes))
        return result

    def outermost(self, wanted: Bool) -> I32:
        """For each node the farthest wanted node among itself and its ancestors, -1 where there is
        none."""
        rows = np.flatnonzero(wanted).astype(np.int32)
        if not len(rows):
            return constant_column(-1, len(self.start), np.int32)
        stop = self.subtree_end[rows]
        reach = np.maximum.accumulate(stop)
        is_top = np.concatenate(([True], rows[1:] >= reach[:-1]))
        return self._held(rows[is_top], stop[is_top])

    def _held(self, rows: I32, stop: I32 | I64) -> I32:
        """For each node the one of these rows in whose subtree, which ends there, it is, -1 where it is
        in none. Their subtrees follow each other."""
        # From each begin on it is that node, from each end on none.
        edges = np.stack((rows, stop), axis=1).ravel()
        holds = np.full(2 * len(rows) + 1, -1, np.int32)
        holds[1::2] = rows
        return np.repeat(holds, np.diff(edges, prepend=0, append=len(self.start)))

    def counted(self, chosen: Bool) -> I32:
        """For each node how many chosen ones there are among itself and those that enclose it."""
        rows = np.flatnonzero(chosen)
        if not len(rows):
            return constant_column(0, len(chosen), np.int32)
        result = np.zeros(len(chosen) + 1, np.int32)
        result[rows] = 1
        np.subtract.at(result, self.subtree_end[rows], np.int32(1))
        return np.cumsum(result[:-1], dtype=np.int32, out=result[:-1])

    def enclosing(self, nearest: I32, node: I32 | I64) -> I32:
        """`nearest` (of `innermost`) strictly above each of these nodes, -1 for -1 and for
        roots."""
        return at(nearest, at(self.parent, node, -1), -1)


class _Nodes(NamedTuple):
    """Ranges and calls as nodes by thread, start and length."""

    start: I64
    end: I64
    thread: I32
    is_call: Bool
    kind: U8
    row: I32
    ranges: int  # how many of them are ranges


def _sorted_nodes(trace: Trace) -> _Nodes:
    ranges = trace.host_ranges
    calls = trace.api_calls
    kept = np.flatnonzero((ranges.kind != RangeKind.PYTHON) & (ranges.kind != RangeKind.OS))
    start = np.append(ranges.start[kept], calls.start)
    end = np.append(ranges.end[kept], calls.end)
    thread = _threads(ranges.thread[kept], calls.thread)
    # Of two nodes with equal times the range encloses the call.
    order = ordered(start, lambda tied: (tied >= len(kept), -end[tied]))
    order = order.astype(np.int32)
    if not is_constant(thread):
        order = order[np.argsort(thread[order], kind="stable")]
        thread = thread[order]
    start = start[order]
    end = end[order]
    is_call = order >= len(kept)
    kind = np.zeros(len(order), np.uint8)
    kind[~is_call] = ranges.kind[kept[order[~is_call]]]
    row = np.subtract(order, len(kept), out=order)
    row[~is_call] = kept[row[~is_call]]  # that far from the end
    return _Nodes(start, end, thread, is_call, kind, row, len(kept))


def _threads(of_ranges: I32, of_calls: I32) -> I32:
    """The threads of both, without taking memory where they are all the same."""
    several = [part for part in (of_ranges, of_calls) if len(part)]
    if several and all((part == several[0][0]).all() for part in several):
        return constant_column(int(several[0][0]), len(of_ranges) + len(of_calls), np.int32)
    return np.concatenate((of_ranges, of_calls))
