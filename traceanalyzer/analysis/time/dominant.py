"""In which operator, call or range the host was for the longest time, for many stretches of time at once."""

from typing import NamedTuple

import numpy as np

from traceanalyzer.analysis.algebra import one_of
from traceanalyzer.analysis.joined.host_tree import HostTree
from traceanalyzer.analysis.time.host_pieces import Cut, HostPieces
from traceanalyzer.analysis.time.host_timeline import HostTimeline
from traceanalyzer.trace import I64, RangeKind, ranked

WORKING = (int(RangeKind.OP), int(RangeKind.LIBRARY))  # work, as calls are; other ranges say where it is
AT_ONCE = 1 << 16  # pieces that are looked at together, but for a stretch that has more
NOTHING = -1  # time of a thread that has no piece within a stretch


def dominant_nodes(timeline: HostTimeline, start: I64, end: I64, thread: I64) -> tuple[I64, I64]:
    """For each stretch [start, end) the node in which the host was longest, -1 outside all; and its thread.

    Of the launching threads the one that worked most counts, in operators and calls. Where that is less than half the
    time, it is `thread` (-1: the one that was most inside anything).
    """
    none = np.full(len(start), -1, np.int64)
    if not timeline.threads:
        return none, thread
    each = [_shares(timeline.tree, one.pieces, start, end) for one in timeline.threads]
    node, working, inside = (np.stack(column) for column in zip(*each, strict=True))
    threads = np.array([one.thread for one in timeline.threads])
    busiest, stretch = working.argmax(axis=0), np.arange(len(start))
    asked = (threads[:, None] == thread) & (working != NOTHING)
    otherwise = np.where(asked.any(axis=0), asked.argmax(axis=0), inside.argmax(axis=0))
    chosen = np.where(working[busiest, stretch] * 2 < end - start, otherwise, busiest)
    known = (working != NOTHING).any(axis=0)
    return np.where(known, node[chosen, stretch], none), np.where(known, threads[chosen], thread)


class _Shares(NamedTuple):
    """What a thread did within each stretch; `NOTHING` where it has no piece there."""

    node: I64  # where it was for the longest time, -1 outside all
    working: I64  # time in operators and calls, ns
    inside: I64  # time in any node, ns


def _shares(tree: HostTree, pieces: HostPieces, start: I64, end: I64) -> _Shares:
    result = _Shares(*(np.full(len(start), NOTHING, np.int64) for _ in _Shares._fields))
    block = pieces.block_of(start)
    for rows in _runs(np.argsort(block, kind="stable"), np.sort(block)):
        cut = pieces.within(int(start[rows].min()), int(end[rows].max()))
        low = np.searchsorted(cut.end, start[rows], side="right")
        count = np.searchsorted(cut.start, end[rows], side="left") - low
        known = count > 0
        rows, low, count = rows[known], low[known], count[known]
        for some in _runs(np.arange(len(rows)), np.cumsum(count) // AT_ONCE):
            here = rows[some]
            _add_shares(result, here, tree, cut, low[some], count[some], start[here], end[here])
    return result


def _runs(rows: I64, number: I64) -> list[I64]:
    """The rows in runs of one number each."""
    return np.split(rows, np.flatnonzero(np.diff(number)) + 1) if len(rows) else []


def _add_shares(
    result: _Shares, rows: I64, tree: HostTree, cut: Cut, low: I64, count: I64, start: I64, end: I64
) -> None:
    """Write down what was done in these stretches (rows): each has `count` pieces, from the one at `low` on."""
    stretch = np.repeat(np.arange(len(rows)), count)
    piece = np.arange(len(stretch)) + np.repeat(low - np.cumsum(count) + count, count)
    spent = np.minimum(cut.end[piece], end[stretch]) - np.maximum(cut.start[piece], start[stretch])
    # pieces of one node are put together, in the order of stretches and of nodes
    least, most = int(cut.node[piece].min()), int(cut.node[piece].max())
    width = most - least + 1
    keys, which = ranked(stretch * width + (cut.node[piece] - least))
    stretch, node, spent = keys // width, keys % width + least, np.bincount(which, spent).astype(np.int64)
    first = np.searchsorted(stretch, np.arange(len(rows)))
    longest = np.flatnonzero(spent == np.maximum.reduceat(spent, first)[stretch])
    result.node[rows] = node[longest[np.searchsorted(longest, first)]]
    within = node >= 0
    works = within & (tree.is_call[node] | one_of(tree.kind[node], WORKING))
    result.working[rows] = np.add.reduceat(spent * works, first)
    result.inside[rows] = np.add.reduceat(spent * within, first)
