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
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from traceanalyzer.analysis.algebra.distinct import distinct, ranked
from traceanalyzer.analysis.algebra.intervals import EMPTY, IntervalSet, complement, contains, join, subtract, union
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
    working: Bool
    """Whether that is an operator, a library's range or a call, not a range that says where in the program it is."""
    state: U8

    @property
    def start(self) -> I64:
        """Start of each piece."""
        return self.moments[:-1]

    @property
    def end(self) -> I64:
        """End of each piece."""
        return self.moments[1:]

    @cached_property
    def in_state(self) -> list[IntervalSet]:
        """By `HostState` when the thread is in it; far fewer intervals than there are pieces."""
        begins = np.flatnonzero(np.append(True, self.state[1:] != self.state[:-1]))
        edges, state = self.moments[np.append(begins, len(self.state))], self.state[begins]
        whole = IntervalSet(edges[:-1], edges[1:])
        return [whole.select(state == one) for one in HostState]


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
            covered = join(*(part.in_state[state] for part in pieces)) if pieces else EMPTY
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
        working=int(overlap[pieces.working[low:high]].sum()),
        inside=int(overlap[pieces.node[low:high] >= 0].sum()),
    )


def _share_of_few(pieces: Pieces, low: int, high: int, start: int, end: int) -> _Share:
    """The same without arrays, whose cost a call is that of some dozen pieces."""
    spent: dict[int, int] = {}
    working = inside = 0
    columns = (pieces.start, pieces.end, pieces.node, pieces.working)
    for begun, ended, node, works in zip(*(column[low:high].tolist() for column in columns), strict=True):
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
    result = []
    for thread in launching.tolist():
        moments, node = _cut(joined, np.flatnonzero(tree.thread == thread))
        if len(node):
            result.append(Pieces(thread, moments, node, works[node], _states(joined, thread, moments, node)))
    return result


def _cut(linked: Linked, nodes: I64) -> tuple[I64, I32]:
    """The moments at which anything of a thread starts or ends, whose nodes are given in order, and the innermost node
    from each to the next."""
    tree = linked.tree
    # At equal times inner ends come first, then outer starts, so that the last entry is what goes on: the sort
    # is stable, and inner nodes follow outer ones. Ends in reverse are nearly sorted, which makes it quick.
    time = np.concatenate((tree.end[nodes][::-1], tree.start[nodes]))
    node = np.concatenate((tree.parent[nodes][::-1], nodes)).astype(np.int32)
    order = np.argsort(time, kind="stable")
    time, node = time[order], node[order]
    last = np.append(time[1:] > time[:-1], True)[: len(time)]
    return time[last], node[last][:-1]


def _states(joined: Joined, thread: int, moments: I64, node: I32) -> U8:
    tree, ranges, start = joined.tree, joined.trace.host_ranges, moments[:-1]
    state = np.full(len(node), HostState.DISPATCH, np.uint8)
    inside = node >= 0
    call = inside.copy()
    call[inside] = tree.is_call[node[inside]]
    long = (np.diff(moments) >= LONG_STRETCH_NS) & ~call
    state[long] = HostState.WORK
    communication = texts_where(joined.trace.strings, COMMUNICATION_NAMES.search)
    in_range = inside & ~call
    bookkeeping = long & in_range
    bookkeeping[in_range] &= texts_where(joined.trace.strings, OPTIMIZER_NAMES.search)[
        ranges.name[tree.row[node[in_range]]]
    ]
    state[bookkeeping] = HostState.DISPATCH
    stuck = long & in_range
    stuck[in_range] &= communication[ranges.name[tree.row[node[in_range]]]]
    state[stuck] = HostState.COMMUNICATION
    rows = tree.row[node[call]]
    kind = joined.api_kind[rows]
    of_call = np.full(len(rows), HostState.DISPATCH, np.uint8)
    of_call[(kind == ApiKind.ALLOCATE) | (kind == ApiKind.FREE)] = HostState.ALLOCATE
    of_call[loading_calls(joined)[rows]] = HostState.WORK
    of_call[joined.blocks[rows]] = HostState.SYNC
    state[call] = of_call
    building = building_time(joined)
    inside_graphs = contains(building, start)
    state[inside_graphs & (state == HostState.DISPATCH)] = HostState.WORK
    state[contains(_input_ranges(joined, thread), start)] = HostState.INPUT
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
