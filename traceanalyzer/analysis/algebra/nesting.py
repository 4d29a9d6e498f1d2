"""What encloses what among intervals on threads, found by sorting and counting."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from traceanalyzer.trace import I32, I64, Bool

MAX_SHIFT = 2**62
"""Threads are laid end to end on one axis of int64; recordings with senseless times may not fit."""


class Nesting(NamedTuple):
    """The forest that intervals on threads form."""

    parent: I64
    """Index of the innermost enclosing interval, -1 for a root."""
    depth: I32
    """How many intervals enclose each one."""


def nest(thread: I32, start: I64, end: I64) -> Nesting:
    """Find what encloses what on each thread.

    Intervals must be sorted by (thread, start, longest first). An interval encloses a later one that starts
    before its end; what sticks out of the enclosing interval (clocks are rounded, recordings damaged) counts as
    cut off there, so a subtree is always contiguous. An empty interval encloses nothing.

    Depth is the number of intervals begun but not ended, the parent the last one a level higher. That holds
    where nothing sticks out; stretches in which something does are done again with a stack, one by one.
    """
    if not len(start):
        return Nesting(np.empty(0, np.int64), np.empty(0, np.int32))
    base = int(start.min())
    span = int(end.max()) - base + 1
    if span * (int(thread.max()) - min(int(thread.min()), 0) + 1) > MAX_SHIFT:
        return _nest_by_stack(thread, start, end)
    shift = thread.astype(np.int64) * span - base
    opens = end > start
    depth: I64 = np.cumsum(opens) - opens
    depth -= np.searchsorted(np.sort((end + shift)[opens]), start + shift, side="right")
    del shift
    nesting = Nesting(_parents(depth, opens), depth.astype(np.int32))
    _mend(nesting, thread, start, end)
    return nesting


def levels(depth: I32 | I64) -> list[I64]:
    """The nodes of each depth, in order."""
    narrow = depth.astype(np.int16) if len(depth) and depth.max() < 2**15 else depth
    order = np.argsort(narrow, kind="stable")
    return np.split(order, np.cumsum(np.bincount(depth))[:-1])


DIRECT_CLIMBS = 64
"""Recorded stacks are seldom deeper: up to there a climb goes step by step, and by doubling strides beyond."""


def still_open(parent: I32 | I64, end: I64, node: I64, time: I64) -> I64:
    """Of each node (-1: none) and those that enclose it the innermost that ends after a time, -1 where none does.

    Takes n log n also where nodes are nested thousands deep.
    """
    result = node.copy()
    climbing = np.flatnonzero(result >= 0)
    for _ in range(DIRECT_CLIMBS):
        climbing = climbing[end[result[climbing]] <= time[climbing]]
        if not len(climbing):
            return result
        result[climbing] = parent[result[climbing]]
        climbing = climbing[result[climbing] >= 0]
    if len(climbing):
        result[climbing] = _by_strides(parent, end, result[climbing], time[climbing])
    return result


def _by_strides(parent: I32 | I64, end: I64, node: I64, time: I64) -> I64:
    """The same by strides of 2^k nodes, each skipped where all nodes on it have ended (binary lifting)."""
    strides = [(np.append(parent, -1), np.append(end, np.iinfo(np.int64).min))]
    while (strides[-1][0] >= 0).any():
        above, latest = strides[-1]
        strides.append((above[above], np.maximum(latest, latest[above])))
    result = node.copy()
    for above, latest in reversed(strides):
        skipped = (result >= 0) & (latest[result] <= time)
        result[skipped] = above[result[skipped]]
    return result


def _parents(depth: I64, opens: Bool) -> I64:
    parent = np.full(len(depth), -1, np.int64)
    above: I64 | None = None
    for here in levels(depth):
        if above is not None:
            parent[here] = above[np.searchsorted(above, here) - 1]
        above = here[opens[here]]
    return parent


def _mend(nesting: Nesting, thread: I32, start: I64, end: I64) -> None:
    """Replace, in place, the stretches between two moments without open intervals where something sticks out."""
    parent, depth = nesting
    inside = np.flatnonzero(parent >= 0)
    crossing = inside[end[inside] > end[parent[inside]]]
    if not len(crossing):
        return
    first = np.flatnonzero(depth == 0)
    stretches = np.unique(np.searchsorted(first, crossing, side="right") - 1)
    bounds = np.append(first, len(start))
    for begin, stop in zip(bounds[stretches].tolist(), bounds[stretches + 1].tolist(), strict=True):
        here = slice(begin, stop)
        mended = _nest_by_stack(thread[here], start[here], end[here])
        parent[here] = np.where(mended.parent >= 0, mended.parent + begin, -1)
        depth[here] = mended.depth


def _nest_by_stack(thread: I32, start: I64, end: I64) -> Nesting:
    parent, depth = np.empty(len(start), np.int64), np.empty(len(start), np.int32)
    stack: list[tuple[int, int]] = []
    current = None
    for i, (t, s, e) in enumerate(zip(thread.tolist(), start.tolist(), end.tolist(), strict=True)):
        if t != current:
            stack.clear()
            current = t
        while stack and stack[-1][1] <= s:
            stack.pop()
        parent[i] = stack[-1][0] if stack else -1
        depth[i] = len(stack)
        if e > s:
            stack.append((i, min(e, stack[-1][1]) if stack else e))
    return Nesting(parent, depth)
