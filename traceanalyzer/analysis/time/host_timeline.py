"""What the host was doing at any moment, as far as feeding the device is concerned.

Each launching thread is cut at every start and end of a range or call; each piece has a state by its
innermost range or call. The process's state at a moment is the most productive of its threads': a thread
that waits for the autograd thread does not count while that one dispatches.
"""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from traceanalyzer.analysis.algebra.distinct import distinct, ranked
from traceanalyzer.analysis.algebra.intervals import EMPTY, IntervalSet, complement, contains, join, subtract, union
from traceanalyzer.analysis.algebra.lookup import AT_ONCE
from traceanalyzer.analysis.algebra.ordering import where_changed
from traceanalyzer.analysis.algebra.texts import texts_where
from traceanalyzer.analysis.joined.captures import building_time
from traceanalyzer.analysis.names.api import ApiKind
from traceanalyzer.analysis.names.phase_names import INPUT_NAMES
from traceanalyzer.analysis.names.pytorch import OPTIMIZER_NAMES
from traceanalyzer.analysis.time.first_use import loading_calls
from traceanalyzer.trace import OverheadKind, RangeKind

if TYPE_CHECKING:
    from traceanalyzer.analysis.joined.joined import Joined
    from traceanalyzer.analysis.joined.linked import Linked
    from traceanalyzer.analysis.time.steps import Steps
    from traceanalyzer.trace import I32, I64, U8, Bool, Trace


class HostState(enum.IntEnum):
    """What a host thread was doing, most productive first."""

    DISPATCH = 0
    """Running operators, issuing API calls, or short Python between them."""
    SYNC = 1
    """Blocked until device work ends."""
    INPUT = 2
    """Loading or waiting for input data."""
    COMMUNICATION = 3
    """Stuck in a communication operator."""
    ALLOCATE = 4
    """Allocating or freeing device or pinned memory."""
    WORK = 5
    """A long stretch without any operator or call: Python, I/O, or an operator computing on the CPU; and calls that
    load kernels or make graphs."""


LONG_STRETCH_NS = 100_000
"""A stretch without any recorded event that long is work of its own, not dispatch. In eager PyTorch 99 % of
the pauses between operators are under this, even with a profiler attached."""

FEW_PIECES = 32
"""Up to so many pieces a plain loop is faster than arrays."""
COMMUNICATION_NAMES = re.compile(
    r"c10d|nccl|rccl|gloo|\bmpi_|all_?reduce|all_?gather|reduce_?scatter|broadcast|barrier|all_?to_?all",
    re.IGNORECASE,
)


@dataclass(frozen=True, eq=False)
class Pieces:
    """The time of a launching thread cut into pieces, each from one of the moments to the next."""

    thread: int
    moments: I64
    node: I32
    """Innermost node of the host tree, -1 outside all."""
    works: Bool
    """For each node, and last for what lies outside all, whether it is an operator, a library's range or a call, not a
    range that says where in the program it is."""
    state: U8

    @property
    def start(self) -> I64:
        """Start of each piece."""
        return self.moments[:-1]

    @property
    def end(self) -> I64:
        """End of each piece."""
        return self.moments[1:]

    def in_state(self, state: int, window: tuple[int, int] | None = None) -> IntervalSet:
        """When it is in this state; at least all of that in the window."""
        first, states = self._runs
        low, high = 0, len(states)
        if window is not None:
            piece = np.searchsorted(self.moments, window)
            low, high = np.searchsorted(first, piece).tolist()
            low, high = max(low - 2, 0), min(high + 1, len(states))
        chosen = low + np.flatnonzero(states[low:high] == state)
        return IntervalSet(self.moments[first[chosen]], self.moments[first[chosen + 1]])

    @cached_property
    def _runs(self) -> tuple[I64, U8]:
        """The first piece of each run of pieces of one state, and one more; and those states."""
        first = np.flatnonzero(where_changed(self.state))
        return np.append(first, len(self.state)), self.state[first]


@dataclass(frozen=True, eq=False)
class HostTimeline:
    """The process's state over time: one set of intervals a state, disjoint from each other."""

    pieces: list[Pieces]
    """One a thread that has any, in the order of threads."""
    states: dict[HostState, IntervalSet]
    profiler: IntervalSet
    """Time of the profiler's own work on the host; may overlap any state."""

    @classmethod
    def build(cls, joined: Joined, steps: Steps) -> HostTimeline:
        """Make the timeline of the threads that launch device work."""
        pieces = _pieces(joined)
        taken, states = EMPTY, {}
        for state in HostState:
            covered = join(*(part.in_state(state) for part in pieces)) if pieces else EMPTY
            states[state] = subtract(covered, taken)
            taken = join(taken, covered)
        return cls(pieces, states, _profiler_time(joined.trace, steps))

    def dominant_node(self, start: int, end: int, thread: int = -1) -> tuple[int, int]:
        """The node in which the host was for the longest time within [start, end), -1 outside all; and its thread.

        Of the launching threads the one that worked most counts, in operators and calls. Where that is less than
        half the time, it is `thread` (-1: the one that was most inside anything).
        """
        shares = [share for pieces in self.pieces if (share := _share(pieces, start, end)) is not None]
        if not shares:
            return -1, thread
        busiest = max(shares, key=lambda share: share.working)
        if busiest.working * 2 < end - start:
            busiest = next((s for s in shares if s.thread == thread), max(shares, key=lambda share: share.inside))
        return busiest.node, busiest.thread


class _Share(NamedTuple):
    """What one thread did within some time."""

    thread: int
    node: int
    """Where it was for the longest time, -1 outside all."""
    working: int
    """Time in operators and calls, ns."""
    inside: int
    """Time in any node, ns."""


def _share(pieces: Pieces, start: int, end: int) -> _Share | None:
    """What the thread with these pieces did within [start, end)."""
    low = int(np.searchsorted(pieces.end, start, side="right"))
    high = int(np.searchsorted(pieces.start, end, side="left"))
    if high <= low:
        return None
    if high - low <= FEW_PIECES:
        return _share_of_few(pieces, low, high, start, end)
    overlap = np.minimum(pieces.end[low:high], end) - np.maximum(pieces.start[low:high], start)
    nodes, which = ranked(pieces.node[low:high])
    return _Share(
        thread=pieces.thread,
        node=int(nodes[np.bincount(which, overlap).argmax()]),
        working=int(overlap[pieces.works[pieces.node[low:high]]].sum()),
        inside=int(overlap[pieces.node[low:high] >= 0].sum()),
    )


def _share_of_few(pieces: Pieces, low: int, high: int, start: int, end: int) -> _Share:
    """The same without arrays, whose cost a call is that of some dozen pieces."""
    spent: dict[int, int] = {}
    working = inside = 0
    columns = (pieces.start[low:high], pieces.end[low:high], pieces.node[low:high])
    working_in = pieces.works[pieces.node[low:high]]
    for begun, ended, node, works in zip(*(column.tolist() for column in (*columns, working_in)), strict=True):
        overlap = min(ended, end) - max(begun, start)
        spent[node] = spent.get(node, 0) + overlap
        working += overlap if works else 0
        inside += overlap if node >= 0 else 0
    longest = max(spent.values())
    node = min(node for node, time in spent.items() if time == longest)
    return _Share(pieces.thread, node, working, inside)


def _pieces(joined: Joined) -> list[Pieces]:
    tree, calls = joined.tree, joined.trace.api_calls
    launching = distinct(calls.thread[joined.launch[joined.launch >= 0]])
    works = np.append(tree.is_call | (tree.kind == RangeKind.OP) | (tree.kind == RangeKind.LIBRARY), False)
    states = _states_of_nodes(joined)
    building = joined.once(building_time)
    result = []
    for thread in launching.tolist():
        first, stop = np.searchsorted(tree.thread, (thread, thread + 1)).tolist()
        moments, node = _cut(joined, first, stop)
        if len(node):
            state = _states(states, (building, _input_ranges(joined, thread)), moments, node)
            result.append(Pieces(thread, moments, node, works, state))
    return result


def _cut(linked: Linked, first: int, stop: int) -> tuple[I64, I32]:
    """The moments at which anything of a thread, whose nodes these are, starts or ends, and the innermost node from
    each to the next."""
    tree, here = linked.tree, slice(first, stop)
    start, end, parent = tree.start[here], tree.end[here], tree.parent[here]
    # At equal times inner ends come first, then outer starts, so that the last entry is what goes on.
    by_end = (len(end) - 1 - np.argsort(end[::-1], kind="stable")).astype(np.int32)
    ended = end[by_end]
    moments, node = np.empty(2 * len(start), np.int64), np.empty(2 * len(start), np.int32)
    filled = 0
    edges = np.append(start[AT_ONCE::AT_ONCE], np.iinfo(np.int64).max)
    starts, ends = (np.append(0, np.searchsorted(times, edges)).tolist() for times in (start, ended))
    for (a, b), (c, d) in zip(pairwise(starts), pairwise(ends), strict=True):
        time = np.concatenate((ended[c:d], start[a:b]))
        inner = np.concatenate((parent[by_end[c:d]], np.arange(first + a, first + b, dtype=np.int32)))
        order = np.argsort(time, kind="stable")
        time = time[order]
        last = order[np.append(time[1:] > time[:-1], True)[: len(time)]]
        kept = slice(filled, filled + len(last))
        moments[kept], node[kept] = time[np.append(time[1:] > time[:-1], True)[: len(time)]], inner[last]
        filled += len(last)
    return moments[:filled], node[: max(filled - 1, 0)]


class _StatesOfNodes(NamedTuple):
    """For each node, and last for what lies outside all, the state of a piece of which it is the innermost."""

    short: U8
    long: U8
    """Of a piece of `LONG_STRETCH_NS` and more."""


def _states_of_nodes(joined: Joined) -> _StatesOfNodes:
    tree, ranges, strings = joined.tree, joined.trace.host_ranges, joined.trace.strings
    kind = joined.api_kind
    of_call = np.full(len(kind), HostState.DISPATCH, np.uint8)
    of_call[(kind == ApiKind.ALLOCATE) | (kind == ApiKind.FREE)] = HostState.ALLOCATE
    of_call[joined.once(loading_calls)] = HostState.WORK
    of_call[joined.blocks] = HostState.SYNC
    of_name = np.full(len(strings) + 1, HostState.WORK, np.uint8)
    of_name[texts_where(strings, OPTIMIZER_NAMES.search)] = HostState.DISPATCH
    of_name[texts_where(strings, COMMUNICATION_NAMES.search)] = HostState.COMMUNICATION
    short = np.full(len(tree.start) + 1, HostState.DISPATCH, np.uint8)
    short[tree.node_of_call] = of_call
    long = short.copy()
    nodes = np.flatnonzero(~tree.is_call)
    long[nodes] = of_name[ranges.name[tree.row[nodes]]]
    long[-1] = HostState.WORK
    return _StatesOfNodes(short, long)


def _states(of: _StatesOfNodes, special: tuple[IntervalSet, IntervalSet], moments: I64, node: I32) -> U8:
    """The state of each piece; `special`: when graphs are built, and when input is loaded."""
    building, loading = special
    state = np.empty(len(node), np.uint8)
    for i in range(0, len(node), AT_ONCE):
        inner, edges = node[i : i + AT_ONCE], moments[i : i + AT_ONCE + 1]
        here = np.where(np.diff(edges) >= LONG_STRETCH_NS, of.long[inner], of.short[inner])
        if len(building.start):
            here[contains(building, edges[:-1]) & (here == HostState.DISPATCH)] = HostState.WORK
        if len(loading.start):
            here[contains(loading, edges[:-1])] = HostState.INPUT
        state[i : i + AT_ONCE] = here
    return state


def _input_ranges(linked: Linked, thread: int) -> IntervalSet:
    """When the thread is inside an annotation named like input loading."""
    ranges = linked.trace.host_ranges
    rows = np.flatnonzero((ranges.kind == RangeKind.ANNOTATION) & (ranges.thread == thread))
    rows = rows[texts_where(linked.trace.strings, INPUT_NAMES.search)[ranges.name[rows]]]
    return union(ranges.start[rows], ranges.end[rows])


def _profiler_time(trace: Trace, steps: Steps) -> IntervalSet:
    """The profiler's own rows, and the time between profiler steps (its bookkeeping at the step's end)."""
    overheads = trace.overheads
    own = overheads.kind == OverheadKind.PROFILER
    covered = union(overheads.start[own], overheads.end[own])
    if steps.source != "profiler_step":
        return covered
    extent = (int(steps.host_start[0]), int(steps.host_end[-1]))
    return join(covered, complement(extent, union(steps.host_start, steps.host_end)))
