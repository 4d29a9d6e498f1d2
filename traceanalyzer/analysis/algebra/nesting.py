"""What encloses what among intervals on threads, found by sorting and counting."""

from collections.abc import Iterator
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.analysis.algebra.blocks import AT_ONCE, blocks
from traceanalyzer.analysis.algebra.lookup import Column, flatnonzero32, sorted_values
from traceanalyzer.base.parallel import parallel_map
from traceanalyzer.trace import I32, I64, Bool, distinct

MAX_SHIFT = (
    2**62
)  # threads are laid end to end on one axis of int64; recordings with senseless times may not fit


class Nesting(NamedTuple):
    """The forest that intervals on threads form."""

    parent: I32  # index of the innermost enclosing interval, -1 for a root
    depth: I32  # how many intervals enclose each one
    mended: bool = False  # whether any sticks out of the one around it


SHALLOW = 16  # up to so many levels are found one by one sooner than by sorting
DIRECT_CLIMBS = 64
"""Recorded stacks are seldom deeper: up to there a climb goes step by step, and by doubling strides
beyond."""


def nest(thread: I32, start: I64, end: I64) -> Nesting:
    """Find what encloses what on each thread.

    Intervals must be sorted by (thread, start, longest first). An interval encloses a later one
    that starts before its end; what sticks out of the enclosing interval (clocks are rounded,
    recordings damaged) counts as cut off there, so a subtree is always contiguous. An empty
    interval encloses nothing.

    Depth is the number of intervals begun but not ended, the parent the last one a level higher.
    That holds where nothing sticks out; stretches in which something does are done again with a
    stack, one by one."""
    if not len(start):
        return Nesting(np.empty(0, np.int32), np.empty(0, np.int32))
    # In two halves, cut where the intervals of a thread begin or end that has them about the middle
    # of all.
    middle = len(thread) // 2
    begin = int(np.searchsorted(thread, thread[middle], "left"))
    stop = int(np.searchsorted(thread, thread[middle], "right"))
    cut = begin if stop == len(thread) or middle - begin < stop - middle else stop
    if not cut:  # but one thread
        return _nest(thread, start, end)
    halves = slice(0, cut), slice(cut, len(thread))
    before, other = parallel_map(
        lambda half: _nest(thread[half], start[half], end[half]), halves, len(start)
    )
    shifted = other.parent + np.int32(cut)
    above = np.where(other.parent < 0, np.int32(-1), shifted)
    parent = np.concatenate((before.parent, above))
    depth = np.concatenate((before.depth, other.depth))
    return Nesting(parent, depth, before.mended or other.mended)


def _nest(thread: I32, start: I64, end: I64) -> Nesting:
    base = int(start.min())
    low = int(thread.min())
    high = int(thread.max())
    span = int(end.max()) - base + 1
    if span * (high - min(low, 0) + 1) > MAX_SHIFT:
        return _nest_by_stack(thread, start, end)
    opens = end > start
    if low == high:
        depth = _depth(start, end, opens)
    else:
        shift = thread.astype(np.int64) * span - base
        depth = _depth(start + shift, end + shift, opens)
        del shift
    parent = np.full(len(depth), -1, np.int32)
    above = np.empty(0, np.int32)
    for number, members in enumerate(levels(depth)):
        if number:
            parent[members] = above[np.searchsorted(above, members) - 1]
        above = members[opens[members]]
    return Nesting(parent, depth, _mend(parent, depth, thread, start, end))


def _depth(start: I64, end: I64, opens: Bool) -> I32:
    """How many intervals that started before each one have not ended when it starts."""
    ends = sorted_values(end if opens.all() else end[opens])
    depth = np.zeros(len(start), np.int32)
    opened = 0
    for i in range(0, len(start) if len(ends) else 0, AT_ONCE):
        block = slice(i, i + AT_ONCE)
        # So many have ended at most; one less for each that is still open.
        left: I64 = opened + np.cumsum(opens[block])
        opened = int(left[-1])
        left -= opens[block]
        depth[block] = _open(ends, start[block], left)
    return depth


def _open(ends: I64, time: I64, left: I64) -> I32:
    """How many of the first so many ends, which include all up to each time, lie after it."""
    result = np.zeros(len(time), np.int32)
    rows = np.flatnonzero((left > 0) & (ends[left - 1] > time))
    left = left[rows]
    for _ in range(DIRECT_CLIMBS):
        if not len(rows):
            return result
        left -= 1
        result[rows] += 1
        open_ = (left > 0) & (ends[left - 1] > time[rows])
        rows = rows[open_]
        left = left[open_]
    result[rows] += left - np.searchsorted(ends, time[rows], side="right")
    return result


def levels(depth: NDArray[Any]) -> list[I32]:
    """The nodes of each depth, in order."""
    deepest = int(depth.max(initial=-1))
    if deepest < SHALLOW:
        return [flatnonzero32(depth == level) for level in range(deepest + 1)]
    narrow = depth.astype(np.int16) if deepest < 2**15 else depth
    order = np.argsort(narrow, kind="stable").astype(np.int32)
    return np.split(order, np.cumsum(np.bincount(depth))[:-1])


def levels_deepest_first(depth: NDArray[Any]) -> Iterator[I32 | I64]:
    """The nodes that are inside of others, the deepest level first, each in order, some at a
    time."""
    deepest = int(depth.max(initial=0))
    if deepest >= SHALLOW:
        yield from (
            level[here] for level in reversed(levels(depth)[1:]) for here in blocks(len(level))
        )
    else:
        for level, block in product(range(deepest, 0, -1), blocks(len(depth))):
            yield block.start + np.flatnonzero(depth[block] == level)


def subtree_ends(parent: Column, depth: NDArray[Any]) -> I32:
    """For each node the node after its last descendant; a parent comes before its children, and a
    subtree is contiguous."""
    result = np.arange(1, len(depth) + 1, dtype=np.int32)
    for nodes in levels_deepest_first(depth):
        result[parent[nodes]] = result[nodes]  # the last of several children stays
    return result


def innermost_open_at(parent: Column, end: Column, node: I64, time: I64) -> I64:
    """For each node (-1: none) the innermost of it and those that enclose it that ends after a
    time, -1 where none does.

    Takes n log n also where nodes are nested thousands deep."""
    result = node.copy()
    climbing = np.flatnonzero(result >= 0)
    for _ in range(DIRECT_CLIMBS):
        climbing = climbing[end[result[climbing]] <= time[climbing]]
        if not len(climbing):
            return result
        result[climbing] = parent[result[climbing]]
        climbing = climbing[result[climbing] >= 0]
    if len(climbing):
        result[climbing] = _by_strides(parent[:], end[:], result[climbing], time[climbing])
    return result


def _by_strides(parent: I32 | I64, end: I64, node: I64, time: I64) -> I64:
    """`innermost_open_at` by strides of 2^k nodes, each skipped where all nodes on it have ended
    (binary lifting)."""
    never = np.iinfo(np.int64).min
    strides = [(np.append(parent, -1), np.append(end, never))]
    while (strides[-1][0] >= 0).any():
        above, latest = strides[-1]
        strides.append((above[above], np.maximum(latest, latest[above])))
    result = node.copy()
    for above, latest in reversed(strides):
        skipped = (result >= 0) & (latest[result] <= time)
        result[skipped] = above[result[skipped]]
    return result


def _mend(parent: I32, depth: I32, thread: I32, start: I64, end: I64) -> bool:
    """Replace, in place, the stretches between two moments without open intervals where something
    sticks out; whether there are any."""
    crossing = np.flatnonzero((parent >= 0) & (end > end[parent]))
    if not len(crossing):
        return False
    bounds = np.append(np.flatnonzero(depth == 0), len(start))
    for stretch in distinct(np.searchsorted(bounds, crossing, side="right") - 1).tolist():
        rows = slice(int(bounds[stretch]), int(bounds[stretch + 1]))
        mended = _nest_by_stack(thread[rows], start[rows], end[rows])
        parent[rows] = np.where(mended.parent >= 0, mended.parent + rows.start, -1)
        depth[rows] = mended.depth
    return True


def _nest_by_stack(thread: I32, start: I64, end: I64) -> Nesting:
    parent = np.empty(len(start), np.int32)
    depth = np.empty(len(start), np.int32)
    ends = list[int]()  # of the open intervals, each cut off at that of the one around it
    nodes = list[int]()
    on = 0
    rows = zip(thread.tolist(), start.tolist(), end.tolist(), strict=True)
    for i, (number, first, last) in enumerate(rows):
        if number != on:
            ends.clear()
            nodes.clear()
            on = number
        while ends and ends[-1] <= first:
            ends.pop()
            nodes.pop()
        parent[i] = nodes[-1] if nodes else -1
        depth[i] = len(nodes)
        if last > first:
            ends.append(min(last, ends[-1]) if ends else last)
            nodes.append(i)
    return Nesting(parent, depth, mended=True)
