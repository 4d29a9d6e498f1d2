"""The time of a host thread cut into pieces, each from a moment at which a range or call starts or
ends to the next.

There are up to twice as many pieces as ranges and calls. So they are not all kept, but cut block by
block when asked for.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from traceanalyzer.analysis.joined.host_tree import HostTree
from traceanalyzer.trace import I32, I64, distinct

AT_ONCE = 1 << 14  # nodes of a block: what is made of so many stays in the processor's cache
MOST_KEPT = 32
"""Blocks of a thread whose pieces are kept, 400 kB each: those of a recording of 250 MB. Of more
blocks, which are gone through from the first to the last, only the last one is."""


class Cut(NamedTuple):
    """Pieces that follow each other."""

    moments: I64  # where each begins, and where the last one ends
    node: I32  # innermost node of the host tree in each, -1 outside all

    @property
    def start(self) -> I64:
        """Start of each piece."""
        return self.moments[:-1]

    @property
    def end(self) -> I64:
        """End of each piece."""
        return self.moments[1:]


class HostPieces:
    """The pieces of one thread."""

    def __init__(self, tree: HostTree, thread: int) -> None:
        self.thread = thread
        self._tree = tree
        begin, end = np.searchsorted(tree.thread, (thread, thread + 1)).tolist()
        start = tree.start[begin:end]
        self._since = distinct(start[::AT_ONCE])  # when each block begins
        # first node of each block, and where the last one ends
        self._nodes = np.append(begin + np.searchsorted(start, self._since), end)
        late = []
        for block in range(len(self._since) - 1):
            first = int(self._nodes[block])
            stop = int(self._nodes[block + 1])
            late.append(
                first + np.flatnonzero(tree.end[first:stop] >= self._until(block)).astype(np.int32)
            )
        nodes = np.concatenate(late) if late else np.empty(0, np.int32)
        ends_in = np.searchsorted(self._since, tree.end[nodes], side="right") - 1
        order = np.argsort(ends_in, kind="stable")
        # for each block the nodes of blocks before it that end within it
        self._ending = np.split(
            nodes[order], np.searchsorted(ends_in[order], np.arange(1, len(self._since)))
        )
        self._most_kept = MOST_KEPT if len(self._since) <= MOST_KEPT else 1
        self._kept: dict[int, Cut] = {}  # by block

    def __iter__(self) -> Iterator[Cut]:
        """All pieces, block by block."""
        return (self._joined(block, block + 1) for block in range(len(self._since)))

    def within(self, low: int, high: int) -> Cut:
        """At least the pieces of which any part lies within [low, high)."""
        first = int(self.block_of(np.array([low]))[0])
        return self._joined(first, int(np.searchsorted(self._since, high, side="left")))

    def block_of(self, times: I64) -> I64:
        """The number of the block that is cut for each of these times."""
        return np.maximum(np.searchsorted(self._since, times, side="right") - 1, 0)

    def count_within(self, low: int, high: int) -> int:
        """How many pieces lie within [low, high), at most about."""
        return 2 * (self._first_from(high) - self._first_from(low))

    def _first_from(self, time: int) -> int:
        block = int(np.searchsorted(self._since, time)) - 1
        if block < 0:
            return int(self._nodes[0])
        first = int(self._nodes[block])
        stop = int(self._nodes[block + 1])
        return first + int(np.searchsorted(self._tree.start[first:stop], time))

    def _joined(self, first: int, stop: int) -> Cut:
        parts = [self._cut(block) for block in range(first, stop)]
        if len(parts) < 2:
            return parts[0] if parts else Cut(self._since[:0], np.empty(0, np.int32))
        starts = [part.start for part in parts]
        moments = np.concatenate([*starts, parts[-1].moments[-1:]])
        return Cut(moments, np.concatenate([part.node for part in parts]))

    def _cut(self, block: int) -> Cut:
        if block not in self._kept:
            if len(self._kept) == self._most_kept:
                self._kept.clear()
            self._kept[block] = self._newly_cut(block)
        return self._kept[block]

    def _newly_cut(self, block: int) -> Cut:
        tree = self._tree
        nodes = slice(int(self._nodes[block]), int(self._nodes[block + 1]))
        begun = np.arange(nodes.start, nodes.stop, dtype=np.int32)
        # At equal times inner ends come first, then outer starts, so that the last entry is what
        # goes on.
        ends, around = self._ends(block, nodes)
        time = np.concatenate((ends, tree.start[nodes]))
        order = np.argsort(time, kind="stable")
        time = time[order]
        last = np.append(time[1:] > time[:-1], True)
        node = np.concatenate((around, begun))[order[last]]
        if block + 1 < len(self._since):
            return Cut(np.append(time[last], self._since[block + 1]), node)
        return Cut(time[last], node[:-1])

    def _ends(self, block: int, nodes: slice) -> tuple[I64, I32]:
        """When nodes end within the block, inner ones first, and the node around each."""
        tree = self._tree
        before = self._ending[block]
        end = tree.end[nodes]
        inside = end < self._until(block)
        parent = tree.parent[nodes][inside]
        ends = np.concatenate((tree.end[before], end[inside]))
        around = np.concatenate((tree.parent[before], parent))
        return ends[::-1], around[::-1]

    def _until(self, block: int) -> int:
        following = block + 1
        if following == len(self._since):
            return int(np.iinfo(np.int64).max)
        return int(self._since[following])
