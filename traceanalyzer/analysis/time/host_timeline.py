"""What the host was doing at any moment, as far as feeding the device is concerned.

Each launching thread is cut at every start and end of a range or call; each piece has a state by its
innermost range or call. The process's state at a moment is the most productive of its threads': a thread
that waits for the autograd thread does not count while that one dispatches.
"""

import enum
import re
from typing import NamedTuple

import numpy as np

from traceanalyzer.analysis.algebra.grouping import Groups
from traceanalyzer.analysis.algebra.intervals import EMPTY, IntervalSet, complement, contains, join, subtract, union
from traceanalyzer.analysis.algebra.lookup import texts_where, where_changed
from traceanalyzer.analysis.joined.host_tree import HostTree
from traceanalyzer.analysis.joined.joined import Joined
from traceanalyzer.analysis.joined.launched import building_time
from traceanalyzer.analysis.joined.linked import Linked
from traceanalyzer.analysis.names.api import FULL_QUEUE, ApiKind
from traceanalyzer.analysis.names.phase_names import INPUT_NAMES
from traceanalyzer.analysis.names.pytorch import OPTIMIZER_NAMES
from traceanalyzer.analysis.time.host_pieces import Cut, HostPieces
from traceanalyzer.analysis.time.steps import Steps
from traceanalyzer.base import dataclass
from traceanalyzer.trace import I64, U8, Bool, OverheadKind, RangeKind, Trace, distinct


class HostState(enum.IntEnum):
    """What a host thread was doing, most productive first."""

    DISPATCH = 0  # running operators, issuing API calls, or short Python between them
    SYNC = 1  # blocked until device work ends
    INPUT = 2  # loading or waiting for input data
    COMMUNICATION = 3  # stuck in a communication operator
    ALLOCATE = 4  # allocating or freeing device or pinned memory
    WORK = 5
    """A long stretch without any operator or call: Python, I/O, or an operator computing on the CPU; and calls that
    load kernels or make graphs."""


LONG_STRETCH_NS = 100_000
"""A stretch without any recorded event that long is work of its own, not dispatch. In eager PyTorch 99 % of
the pauses between operators are under this, even with a profiler attached."""

COMMUNICATION_NAMES = re.compile(
    r"c10d|nccl|rccl|gloo|\bmpi_|all_?reduce|all_?gather|reduce_?scatter|broadcast|barrier|all_?to_?all", re.IGNORECASE
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
        low, high = 0, len(self.state)
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
        taken, states = EMPTY, {}
        for state in HostState:
            covered = join(*(one.in_state(state) for one in threads)) if threads else EMPTY
            states[state] = subtract(covered, taken)
            taken = join(taken, covered)
        return cls(joined.linked.tree, threads, states, _profiler_time(joined.trace, steps))


def _threads(joined: Joined) -> list[ThreadTimeline]:
    launching = distinct(joined.trace.api_calls.thread[joined.linked.launch[joined.linked.launch >= 0]])
    states = _states_of_nodes(joined)
    building = joined.linked.memo(building_time)
    each = (
        _stretches(HostPieces(joined.linked.tree, thread), states, (building, _input_ranges(joined.linked, thread)))
        for thread in launching.tolist()
    )
    return [one for one in each if len(one.state)]


def _stretches(
    pieces: HostPieces, states: "_StatesOfNodes", special: tuple[IntervalSet, IntervalSet]
) -> ThreadTimeline:
    """A thread's pieces put together where they follow each other in one state."""
    moments, kept, before, end = [np.empty(0, np.int64)], [np.empty(0, np.uint8)], -1, np.empty(0, np.int64)
    for cut in pieces:
        if not len(cut.node):
            continue
        state = _states(states, special, cut)
        changed = where_changed(state)
        changed[0] = int(state[0]) != before
        moments.append(cut.start[changed])
        kept.append(state[changed])
        before, end = int(state[-1]), cut.end[-1:]
    return ThreadTimeline(pieces, np.concatenate((*moments, end)), np.concatenate(kept))


class _StatesOfNodes(NamedTuple):
    """For each node, and last for what lies outside all, the state of a piece of which it is the innermost."""

    short: U8
    long: U8  # of a piece of `LONG_STRETCH_NS` and more


def _states_of_nodes(joined: Joined) -> _StatesOfNodes:
    tree, ranges, strings = joined.linked.tree, joined.trace.host_ranges, joined.trace.strings
    kind = joined.linked.api_kind
    of_call = np.full(len(kind), HostState.DISPATCH, np.uint8)
    of_call[(kind == ApiKind.ALLOCATE) | (kind == ApiKind.FREE)] = HostState.ALLOCATE
    of_call[joined.linked.memo(loading_calls)] = HostState.WORK
    of_call[joined.blocks] = HostState.SYNC
    of_name = np.full(len(strings) + 1, HostState.WORK, np.uint8)
    of_name[texts_where(strings, OPTIMIZER_NAMES.search)] = HostState.DISPATCH
    of_name[texts_where(strings, COMMUNICATION_NAMES.search)] = HostState.COMMUNICATION
    short = np.full(len(tree.start) + 1, HostState.DISPATCH, np.uint8)
    short[tree.node_of_call[:]] = of_call
    long = short.copy()
    nodes = np.flatnonzero(~tree.is_call)
    long[nodes] = of_name[ranges.name[tree.row[nodes]]]
    long[-1] = HostState.WORK
    return _StatesOfNodes(short, long)


def _states(of: _StatesOfNodes, special: tuple[IntervalSet, IntervalSet], cut: Cut) -> U8:
    """The state of each piece; `special`: when graphs are built, and when input is loaded."""
    building, loading = special
    state = np.where(cut.end - cut.start >= LONG_STRETCH_NS, of.long[cut.node], of.short[cut.node])
    if len(building.start):
        state[contains(building, cut.start) & (state == HostState.DISPATCH)] = HostState.WORK
    if len(loading.start):
        state[contains(loading, cut.start)] = HostState.INPUT
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


SLOW_LAUNCH_NS = 200_000
"""The first launch of a kernel that takes this long loads it: a launch takes 5 to 10 us, with a profiler 30."""
SLOW_SETUP_NS = 1_000_000
"""Creating an event or asking for a property takes microseconds, except when the library behind it is set up."""

_LOADS = re.compile(
    r"Module(Load|GetFunction)|Library(Load|GetKernel)|KernelGetFunction|FuncLoad|Link(Complete|AddData)"
)
_SETS_UP = re.compile(
    r"(Event|Stream|Ctx|Context)Create|PrimaryCtx|^cuInit|^hipInit|SetDevice|DeviceReset|GetDeviceProp|FuncSet|FuncGet"
    r"|Occupancy|DeviceSetLimit|DeviceGet"
)


def loading_calls(linked: Linked) -> Bool:
    """Which API calls load modules, are slow first launches, or set something up slowly."""
    calls, strings = linked.trace.api_calls, linked.trace.strings
    result: Bool = texts_where(strings, _LOADS.search)[calls.name]
    result |= texts_where(strings, _SETS_UP.search)[calls.name] & (calls.end - calls.start >= SLOW_SETUP_NS)
    result[_first_launches(linked)] = True
    return result


def _first_launches(linked: Linked) -> I64:
    """Rows of launch calls that were the first of their kernel in the recording and took long, the queue not full."""
    calls, ops = linked.trace.api_calls, linked.trace.device_ops
    launched: I64 = np.flatnonzero(linked.is_kernel & (linked.launch >= 0))
    launched = launched[linked.api_kind[linked.launch[launched]] == ApiKind.LAUNCH]
    if not len(launched):
        return np.empty(0, np.int64)
    order = launched[np.argsort(linked.launch_time[launched], kind="stable")]
    slow = distinct(linked.launch[order[Groups.of(ops.name[order]).first]])
    slow = slow[(calls.end - calls.start)[slow] >= SLOW_LAUNCH_NS]
    finished = np.searchsorted(np.sort(ops.end), calls.start[slow], side="right")
    return slow[linked.launched_before(calls.start[slow]) - finished < FULL_QUEUE]
