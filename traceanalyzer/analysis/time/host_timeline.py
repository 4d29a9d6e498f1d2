"""What the host was doing at any moment, as far as feeding the device is concerned.

Each launching thread is cut at every start and end of a range or call; each piece has a state by
its innermost one. The process's state at a moment is the most productive of its threads': a thread
that waits for the autograd thread does not count while that one dispatches."""

import enum
import re
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from traceanalyzer.analysis.algebra.grouping import Groups
from traceanalyzer.analysis.algebra.intervals import (
    EMPTY,
    IntervalSet,
    complement,
    contains,
    join,
    subtract,
    union,
)
from traceanalyzer.analysis.algebra.lookup import one_of, texts_where, where_changed
from traceanalyzer.analysis.joined.host_tree import HostTree
from traceanalyzer.analysis.joined.joined import Joined
from traceanalyzer.analysis.joined.launched import building_time
from traceanalyzer.analysis.joined.linked import Linked
from traceanalyzer.analysis.names.api import FULL_QUEUE, ApiKind
from traceanalyzer.analysis.names.phase_names import INPUT_NAMES
from traceanalyzer.analysis.names.pytorch import OPTIMIZER_NAMES
from traceanalyzer.analysis.time.host_pieces import Cut, HostPieces
from traceanalyzer.analysis.time.steps import Steps
from traceanalyzer.base import dataclass, regex
from traceanalyzer.trace import I64, U8, Bool, OverheadKind, RangeKind, distinct, distinct_places


class HostState(enum.IntEnum):
    """What a host thread was doing, most productive first."""

    DISPATCH = 0  # running operators, issuing API calls, or short Python between them
    SYNC = 1  # blocked until device work ends
    INPUT = 2  # loading or waiting for input data
    COMMUNICATION = 3  # stuck in a communication operator
    ALLOCATE = 4  # allocating or freeing device or pinned memory
    # long without any operator or call (Python, I/O, computing on the CPU), or loading kernels,
    # making graphs
    WORK = 5


LONG_STRETCH_NS = 100_000
"""A stretch without any recorded event that long is work of its own, not dispatch. In eager PyTorch
99 % of the pauses between operators are under this, even with a profiler attached."""

LONGEST_OPTIMIZER_NS = 10_000_000
"""A longer stretch without any recorded event in an optimizer's range is work of its own (an
optimizer on the CPU): going through a few thousand tensors in Python takes less, stacks included."""

COMMUNICATION_NAMES = regex(
    r"c10d|nccl|rccl|gloo|\bmpi_|all_?reduce|all_?gather|reduce_?scatter|broadcast|barrier|all_?to_?all",
    re.IGNORECASE,
)


@dataclass(frozen=True, eq=False)
class ThreadTimeline:
    """What a launching thread was doing: its time in stretches of one state."""

    pieces: HostPieces
    moments: I64  # where each stretch begins, and where the last one ends
    state: U8  # `HostState` of each

    @property
    def thread(self) -> int:
        """Index into `Trace.threads`."""
        return self.pieces.thread

    def in_state(self, state: int, window: tuple[int, int] | None = None) -> IntervalSet:
        """When it is in this state; at least all of that in the window."""
        low = 0
        high = len(self.state)
        if window is not None:
            low, high = np.searchsorted(self.moments, window).tolist()
            low = max(low - 1, 0)
        chosen = low + np.flatnonzero(self.state[low:high] == state)
        return IntervalSet(self.moments[chosen], self.moments[chosen + 1])


@dataclass(frozen=True, eq=False)
class HostTimeline:
    """The process's state over time: one set of intervals a state, disjoint from each other."""

    tree: HostTree
    threads: list[ThreadTimeline]  # those that launch device work and have any time, in order
    states: dict[HostState, IntervalSet]
    profiler: IntervalSet  # time of the profiler's own work on the host; may overlap any state

    @classmethod
    def build(cls, joined: Joined, steps: Steps) -> "HostTimeline":
        """Make the timeline of the threads that launch device work."""
        threads = _threads(joined)
        taken = EMPTY
        states = {}
        for state in HostState:
            covered = join(*(one.in_state(state) for one in threads)) if threads else EMPTY
            states[state] = subtract(covered, taken)
            taken = join(taken, covered)
        overheads = joined.trace.overheads
        own = overheads.kind == OverheadKind.PROFILER
        profiler = union(overheads.start[own], overheads.end[own])
        if steps.source == "profiler_step":  # between these is its bookkeeping at the step's end
            extent = (int(steps.host_start[0]), int(steps.host_end[-1]))
            profiler = join(profiler, complement(extent, union(steps.host_start, steps.host_end)))
        return cls(joined.linked.tree, threads, states, profiler)


SLOW_LAUNCH_NS = 200_000
"""The first launch of a kernel that takes this long loads it: a launch takes 5 to 10 us, with a
profiler 30."""
SLOW_SETUP_NS = 1_000_000
"""Creating an event or asking for a property takes microseconds, except when the library behind it
is set up."""
_LOADS = regex(
    r"Module(Load|GetFunction)|Library(Load|GetKernel)|KernelGetFunction|FuncLoad|Link(Complete|AddData)"
)
_SETS_UP = regex(
    r"(Event|Stream|Ctx|Context)Create|PrimaryCtx|^cuInit|^hipInit|SetDevice|DeviceReset|GetDeviceProp|FuncSet|FuncGet"
    r"|Occupancy|DeviceSetLimit|DeviceGet"
)
WORKING = (
    int(RangeKind.OP),
    int(RangeKind.LIBRARY),
)  # work, as calls are; other ranges say where it is
PIECES_AT_ONCE = 1 << 16  # pieces that are looked at together, but for a stretch that has more
NOTHING = -1  # time of a thread that has no piece within a stretch


def _threads(joined: Joined) -> list[ThreadTimeline]:
    linked = joined.linked
    ranges = joined.trace.host_ranges
    result = []
    states = _states_of_nodes(joined)
    loads = np.flatnonzero(
        texts_where(joined.trace.strings, INPUT_NAMES.search)[ranges.name]
        & (ranges.kind == RangeKind.ANNOTATION)
    )
    for thread in distinct(
        joined.trace.api_calls.thread[linked.launch[linked.launch >= 0]]
    ).tolist():
        rows = loads[ranges.thread[loads] == thread]
        loading = union(ranges.start[rows], ranges.end[rows])
        result.append(
            _stretches(HostPieces(linked.tree, thread), states, linked.memo(building_time), loading)
        )
    return [one for one in result if len(one.state)]


def _stretches(
    pieces: HostPieces, states: "_StatesOfNodes", building: IntervalSet, loading: IntervalSet
) -> ThreadTimeline:
    """A thread's pieces, those of one state joined; also when graphs are built (`building`), and
    input is loaded."""
    moments = [np.empty(0, np.int64)]
    kept = [np.empty(0, np.uint8)]
    before = -1
    end = np.empty(0, np.int64)
    for cut in pieces:
        if not len(cut.node):
            continue
        length = cut.end - cut.start
        state = states.short.take(cut.node)
        longer = np.flatnonzero(length >= LONG_STRETCH_NS)
        state[longer] = states.long[cut.node[longer]]
        longer = np.flatnonzero(length > LONGEST_OPTIMIZER_NS)
        state[longer[states.optimizer[cut.node[longer]]]] = HostState.WORK
        if len(building.start):
            state[contains(building, cut.start) & (state == HostState.DISPATCH)] = HostState.WORK
        if len(loading.start):
            state[contains(loading, cut.start)] = HostState.INPUT
        changed = where_changed(state)
        changed[0] = int(state[0]) != before
        moments.append(cut.start[changed])
        kept.append(state[changed])
        before = int(state[-1])
        end = cut.end[-1:]
    return ThreadTimeline(pieces, np.concatenate((*moments, end)), np.concatenate(kept))


class _StatesOfNodes(NamedTuple):
    """For each node, and last for what lies outside all, the state of a piece of which it is the
    innermost."""

    short: U8
    long: U8  # of a piece of `LONG_STRETCH_NS` and more
    optimizer: Bool  # whether the node is an optimizer's range


def _states_of_nodes(joined: Joined) -> _StatesOfNodes:
    tree = joined.linked.tree
    ranges = joined.trace.host_ranges
    strings = joined.trace.strings
    kind = joined.linked.api_kind
    of_call = np.full(len(kind), HostState.DISPATCH, np.uint8)
    of_call[(kind == ApiKind.ALLOCATE) | (kind == ApiKind.FREE)] = HostState.ALLOCATE
    of_call[joined.linked.memo(loading_calls)] = HostState.WORK
    of_call[joined.blocks] = HostState.SYNC
    of_name = np.full(len(strings) + 1, HostState.WORK, np.uint8)
    optimizers = texts_where(strings, OPTIMIZER_NAMES.search)
    of_name[optimizers] = HostState.DISPATCH
    of_name[texts_where(strings, COMMUNICATION_NAMES.search)] = HostState.COMMUNICATION
    short = np.full(len(tree.start) + 1, HostState.DISPATCH, np.uint8)
    short[tree.node_of_call[:]] = of_call
    long = short.copy()
    nodes = np.flatnonzero(~tree.is_call)
    long[nodes] = of_name[ranges.name[tree.row[nodes]]]
    long[-1] = HostState.WORK
    optimizer = np.zeros(len(tree.start) + 1, bool)
    optimizer[nodes] = optimizers[ranges.name[tree.row[nodes]]]
    return _StatesOfNodes(short, long, optimizer)


def loading_calls(linked: Linked) -> Bool:
    """Which API calls load modules, set something up slowly, or first launch a kernel, slowly, the
    queue not full."""
    calls = linked.trace.api_calls
    ops = linked.trace.device_ops
    strings = linked.trace.strings
    result: Bool = texts_where(strings, _LOADS.search)[calls.name]
    result |= texts_where(strings, _SETS_UP.search)[calls.name] & (
        calls.end - calls.start >= SLOW_SETUP_NS
    )
    launched: I64 = np.flatnonzero(linked.is_kernel & (linked.launch >= 0))
    launched = launched[linked.api_kind[linked.launch[launched]] == ApiKind.LAUNCH]
    order = launched[np.argsort(linked.launch_time[launched], kind="stable")]
    slow = distinct(linked.launch[order[Groups.of(ops.name[order]).first]])
    slow = slow[(calls.end - calls.start)[slow] >= SLOW_LAUNCH_NS]
    if len(slow):
        finished = np.searchsorted(np.sort(ops.end), calls.start[slow], side="right")
        result[slow[linked.launched_before(calls.start[slow]) - finished < FULL_QUEUE]] = True
    return result


def dominant_nodes(timeline: HostTimeline, start: I64, end: I64, thread: I64) -> tuple[I64, I64]:
    """For each stretch [start, end) the node in which the host was longest, -1 outside all; and its
    thread.

    Of the launching threads the one that worked most counts, in operators and calls. Where that is
    less than half the time, it is `thread` (-1: the one that was most inside anything)."""
    busiest = _Best.of(len(start))
    innermost = _Best.of(len(start))
    asked = _Best.of(len(start))
    for launching in timeline.threads:
        if not ((start < launching.moments[-1]) & (end > launching.moments[0])).any():
            continue  # it has no piece in any of them
        shares = _shares(timeline.tree, launching.pieces, start, end)
        busiest.take(shares.working, shares.node, launching.thread)
        innermost.take(shares.inside, shares.node, launching.thread)
        is_asked = np.where(thread == launching.thread, np.minimum(shares.working, 0), NOTHING)
        asked.take(is_asked, shares.node, launching.thread)
    is_idle = busiest.most * 2 < end - start
    of_asked = is_idle & (asked.most != NOTHING)
    node = np.where(of_asked, asked.node, np.where(is_idle, innermost.node, busiest.node))
    chosen = np.where(of_asked, asked.thread, np.where(is_idle, innermost.thread, busiest.thread))
    known = busiest.most != NOTHING
    return np.where(known, node, -1), np.where(known, chosen, thread)


@dataclass(frozen=True, eq=False)
class _Best:
    """For each stretch the first thread that had most of something there, and where it was."""

    most: I64
    node: I64
    thread: I64

    @classmethod
    def of(cls, stretches: int) -> "_Best":
        return cls(*(np.full(stretches, NOTHING, np.int64) for _ in range(3)))

    def take(self, value: I64, node: I64, thread: int) -> None:
        """Note the thread where it has more than those before."""
        more = value > self.most
        self.most[more] = value[more]
        self.node[more] = node[more]
        self.thread[more] = thread


class _Shares(NamedTuple):
    """What a thread did within each stretch; `NOTHING` where it has no piece there."""

    node: I64  # where it was for the longest time, -1 outside all
    working: I64  # time in operators and calls, ns
    inside: I64  # time in any node, ns


class NodeTimes(NamedTuple):
    """Time of stretches in nodes of the host tree, a row each."""

    stretch: I64
    node: I64  # the innermost, -1 outside all
    spent: I64  # ns


def node_times(timeline: HostTimeline, start: I64, end: I64, thread: I64) -> NodeTimes:
    """Where a thread was in each stretch [start, end), for how long; nothing of threads that launch
    nothing."""
    parts = [NodeTimes(*(np.empty(0, np.int64) for _ in NodeTimes._fields))]
    for launching in timeline.threads:
        rows = np.flatnonzero(thread == launching.thread)
        for chosen, cut, low, count in _cuts(launching.pieces, start[rows], end[rows]):
            asked = rows[chosen]
            found = _times_in(cut, low, count, start[asked], end[asked])
            parts.append(found._replace(stretch=asked[found.stretch]))
    return NodeTimes(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _shares(tree: HostTree, pieces: HostPieces, start: I64, end: I64) -> _Shares:
    result = _Shares(*(np.full(len(start), NOTHING, np.int64) for _ in _Shares._fields))
    for rows, cut, low, count in _cuts(pieces, start, end):
        _add_shares(result, rows, tree, _times_in(cut, low, count, start[rows], end[rows]))
    return result


def _cuts(pieces: HostPieces, start: I64, end: I64) -> Iterator[tuple[I64, Cut, I64, I64]]:
    """Stretches in which a thread has pieces, some at a time (rows); the pieces, and for each
    stretch the first of its own and how many these are."""
    block = pieces.block_of(start)
    for rows in _runs(np.argsort(block, kind="stable"), np.sort(block)):
        cut = pieces.within(int(start[rows].min()), int(end[rows].max()))
        low = np.searchsorted(cut.end, start[rows], side="right")
        count = np.searchsorted(cut.start, end[rows], side="left") - low
        known = count > 0
        rows = rows[known]
        low = low[known]
        count = count[known]
        for some in _runs(np.arange(len(rows)), np.cumsum(count) // PIECES_AT_ONCE):
            yield rows[some], cut, low[some], count[some]


def _runs(rows: I64, number: I64) -> list[I64]:
    """The rows in runs of one number each."""
    return np.split(rows, np.flatnonzero(np.diff(number)) + 1) if len(rows) else []


def _times_in(cut: Cut, low: I64, count: I64, start: I64, end: I64) -> NodeTimes:
    """Time of each of these stretches in each node, in the order of stretches and of nodes; each has
    `count` pieces, from the one at `low` on."""
    stretch = np.repeat(np.arange(len(start)), count)
    piece = np.arange(len(stretch)) + np.repeat(low - np.cumsum(count) + count, count)
    spent = np.minimum(cut.end[piece], end[stretch]) - np.maximum(cut.start[piece], start[stretch])
    least = int(cut.node[piece].min())
    most = int(cut.node[piece].max())
    width = most - least + 1
    keys, which = distinct_places(stretch * width + (cut.node[piece] - least))
    return NodeTimes(
        keys // width, keys % width + least, np.bincount(which, spent).astype(np.int64)
    )


def _add_shares(shares: _Shares, rows: I64, tree: HostTree, times: NodeTimes) -> None:
    """Write down what was done in these stretches (rows)."""
    stretch, node, spent = times
    first = np.searchsorted(stretch, np.arange(len(rows)))
    longest = np.flatnonzero(spent == np.maximum.reduceat(spent, first)[stretch])
    shares.node[rows] = node[longest[np.searchsorted(longest, first)]]
    within = node >= 0
    works = within & (tree.is_call[node] | one_of(tree.kind[node], WORKING))
    shares.working[rows] = np.add.reduceat(spent * works, first)
    shares.inside[rows] = np.add.reduceat(spent * within, first)
