"""Which annotations are phases of a step, and which phase each device op was launched for.

An op belongs to the innermost phase that holds its launch call on the same thread, and to all
phases around that. A thread may work for another one: autograd's threads launch the backward pass
while the thread that called it is blocked. A launch on a thread that is in no phase of its own
therefore belongs to the phase in which another thread is blocked, that is, has recorded no operator
and no call for `BLOCKED_NS` around the launch; of several such phases to the one that began
last."""

import numpy as np

from traceanalyzer.analysis.algebra import (
    IntervalSet,
    at,
    complement,
    flatnonzero32,
    innermost_open_at,
    intersect,
    texts_where,
    union,
)
from traceanalyzer.analysis.joined.linked import TraceJoins
from traceanalyzer.analysis.names.collectives import CALLS
from traceanalyzer.analysis.names.pytorch import module_of
from traceanalyzer.analysis.time.host_timeline import LONG_STRETCH_NS
from traceanalyzer.analysis.time.timed import Timed
from traceanalyzer.base import dataclass
from traceanalyzer.trace import I32, I64, Bool, RangeKind, constant_column, distinct

MOST_THREADS = 64  # threads that may wait for another's launches; those with most phases are asked
MOST_DEPTH = 32
"""Phases within phases: what is nested deeper belongs to the phase around it. Programs have up to
ten."""
BLOCKED_NS = LONG_STRETCH_NS
"""Shorter pauses are Python between operators: a thread in one works for itself."""


@dataclass(frozen=True, eq=False)
class PhaseRanges:
    """Instances of phases, in the order of `HostTree` (by thread and start, parents before
    children)."""

    row: I32  # row of `Trace.host_ranges`
    parent: I32  # instance that encloses it, -1 without
    of_op: I32  # for each device op the innermost instance it belongs to, -1 without
    # for each node of the host tree the innermost instance that it lies in, or is; -1 without
    of_node: I32

    def __len__(self) -> int:
        return len(self.row)


def phase_ranges(timed: Timed) -> PhaseRanges:
    """Find the phases of a trace."""
    tree = timed.linked.tree
    call = timed.linked.launch
    chosen = tree.of_ranges(_marks_phase(timed), False)
    chosen &= tree.counted(chosen) <= MOST_DEPTH
    nearest = tree.innermost(chosen)
    nodes = flatnonzero32(chosen)
    if not len(nodes):
        none = np.empty(0, np.int32)
        known = (len(call), len(nearest))
        return PhaseRanges(none, none, *(constant_column(-1, count, np.int32) for count in known))
    instance = np.full(len(tree.parent) + 1, -1, np.int32)
    instance[nodes] = np.arange(len(nodes))
    of_op = instance[at(nearest, timed.joined.launch_node, -1)]
    lone = np.flatnonzero((call >= 0) & (of_op < 0))
    of_op[lone] = instance[_blocked_in(timed.linked, nearest, call[lone])]
    around = instance[tree.enclosing(nearest, nodes)]
    return PhaseRanges(tree.row[nodes], around, of_op, instance[nearest])


def _marks_phase(timed: Timed) -> Bool:
    """Which host ranges are annotations inside a step, but no calls of modules, and not of the
    communication library. A range that holds a whole step is the step, or the loop around it."""
    ranges = timed.trace.host_ranges
    steps = timed.steps
    following = np.searchsorted(steps.host_start, ranges.start, side="left")
    until = np.append(steps.host_end, np.iinfo(np.int64).max)
    phase = ranges.end < until[following]
    phase &= ranges.kind == RangeKind.ANNOTATION
    for other in (CALLS.match, module_of):
        phase &= ~texts_where(timed.trace.strings, other)[ranges.name]
    return phase


def _blocked_in(linked: TraceJoins, nearest: I32 | I64, call: I32 | I64) -> I64:
    """For each of these API calls, made outside of phases, the node of the phase in which another
    thread is blocked at that moment; -1 without."""
    tree = linked.tree
    calls = linked.trace.api_calls
    time = calls.start[call]
    thread = calls.thread[call]
    result = np.full(len(call), -1, np.int64)
    begun = np.full(len(call), -1, np.int64)
    threads, count = np.unique(tree.thread[nearest >= 0], return_counts=True)
    busiest = threads[np.argsort(-count, kind="stable")[:MOST_THREADS]]
    for other in np.sort(busiest).tolist():
        stretches, node = _blocked(linked, nearest, other)
        index = np.searchsorted(stretches.start, time, side="right") - 1
        inside = np.flatnonzero((index >= 0) & (thread != other))
        inside = inside[time[inside] < stretches.end[index[inside]]]
        inside = inside[tree.start[node[index[inside]]] > begun[inside]]
        result[inside] = node[index[inside]]
        begun[inside] = tree.start[result[inside]]
    return result


def _blocked(linked: TraceJoins, nearest: I32 | I64, thread: int) -> tuple[IntervalSet, I64]:
    """Stretches in which a thread inside a phase records no operator and no call for `BLOCKED_NS`
    and more, and the node of that phase."""
    tree = linked.tree
    ranges = linked.trace.host_ranges
    first, stop = np.searchsorted(tree.thread, (thread, thread + 1))
    nodes = np.arange(first, stop)
    phases = nodes[nearest[nodes] == nodes]
    annotation = ~tree.is_call[nodes]
    annotation[annotation] = ranges.kind[tree.row[nodes[annotation]]] == RangeKind.ANNOTATION
    own = nodes[~annotation]
    begin = int(tree.start[phases].min())
    extent = (begin, int(tree.end[phases].max()))
    quiet = complement(extent, union(tree.start[own], tree.end[own]))
    edges = distinct(np.concatenate((tree.start[phases], tree.end[phases])))
    pieces = intersect(quiet, IntervalSet(edges[:-1], edges[1:]))
    pieces = pieces.select(pieces.end - pieces.start >= BLOCKED_NS)
    node = nodes[np.searchsorted(tree.start[nodes], pieces.start, side="right") - 1]
    node = innermost_open_at(tree.parent, tree.end, node, pieces.start)
    node = np.where(node >= 0, nearest[node], -1)
    return pieces.select(node >= 0), node[node >= 0]
