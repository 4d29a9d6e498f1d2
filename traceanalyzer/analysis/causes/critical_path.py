"""The critical path of the steady state: the one chain of causes that is as long as its steps
together.

Walked back from the end of the last step, from each device op to what let it start (`binding`) and
from each launch along the host to the last wait that held it, and through that to the device again.
Each moment of the steady steps belongs to exactly one segment. Making one shorter makes the step
shorter, until another chain is as long."""

import enum
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.analysis.algebra import (
    IntervalSet,
    RowNumbers,
    at,
    blockwise,
    flatnonzero32,
    local_searchsorted,
    overlaps,
)
from traceanalyzer.analysis.algebra.blocks import blocks
from traceanalyzer.analysis.causes.driving import NO_STATE, PROFILER_STATE, driving
from traceanalyzer.analysis.causes.start import Bindings, HostWaits, StartBound
from traceanalyzer.analysis.causes.started import LaunchEdges
from traceanalyzer.analysis.joined.blocking import read_ranges
from traceanalyzer.analysis.joined.linked import Linked
from traceanalyzer.analysis.time.host_timeline import HostState
from traceanalyzer.analysis.time.launch_queue import QUEUED_LATENCY_NS
from traceanalyzer.base import dataclass
from traceanalyzer.trace import I32, I64, U8, Bool, Table, column, distinct


class PathKind(enum.IntEnum):
    """What a stretch of the critical path is; in the order of display."""

    COMPUTE = 0  # a kernel, memset or graph
    COMMUNICATION = 1  # a collective, or the host stuck in a communication operator
    COPY = 2
    # dispatch of operators, launch calls, and the device's latency from a launch or the op before
    LAUNCH = 3
    # until the host that waited for device work goes on; operators that only bring a value to the
    # host
    WAIT = 4
    INPUT = 5
    HOST = 6  # other work of the host
    PROFILER = 7
    OTHER = 8  # the recording does not tell

    @property
    def label(self) -> str:
        """The kind's name in reports."""
        return self.name.lower()


class SegmentPart(enum.IntEnum):
    """What of the chain of causes a segment is."""

    OP = 0  # a device op runs
    LATENCY = 1  # from the start of a launch call to its op
    PAUSE = 2  # from the end of an op to the start of the one that waited for it
    UNKNOWN = 3  # up to an op before which the recording shows no cause
    # from the end of an op, or the start of one that made room, to the return of the call that
    # waited
    RETURN = 4
    HOST = 5  # the host goes on, up to a launch or the end of the last step


@dataclass(frozen=True, eq=False)
class CriticalPath(Table):
    """Segments in time order; each begins where the one before it ends. Together they are the
    steady steps."""

    start: I64 = column(np.int64)
    end: I64 = column(np.int64)
    kind: U8 = column(np.uint8, fill=PathKind.OTHER)
    part: U8 = column(np.uint8, fill=SegmentPart.HOST)
    op: I32 = column(
        np.int32
    )  # device op that runs, that the host waited for, or that the segment leads to; -1: none
    node: I32 = column(
        np.int32
    )  # node of the host tree: where the host is, or the call that launches or waits
    step: I32 = column(
        np.int32
    )  # index (see `Steps`) of the step in whose window it lies: cut at its edges

    @property
    def duration(self) -> I64:
        """Length of each segment, ns."""
        return self.end - self.start


@dataclass(frozen=True, eq=False)
class Chain(Table):
    """Segments of the chain of causes, in time order."""

    start: I64 = column(np.int64)
    end: I64 = column(np.int64)
    part: U8 = column(np.uint8, fill=SegmentPart.HOST)
    op: I32 = column(np.int32)  # as in `CriticalPath`
    wait: I32 = column(np.int32)  # row of the host waits, -1: none

    def cut_at(self, edges: I64) -> "Chain":
        """The segments cut at these times."""
        crossed = np.searchsorted(self.end, edges, side="right")
        inside = crossed < len(self)
        inside[inside] = self.start[crossed[inside]] < edges[inside]
        crossed = crossed[inside]
        edges = edges[inside]
        cut = self.take(np.sort(np.append(np.arange(len(self)), crossed)))
        first = crossed + np.arange(len(crossed))
        start = cut.start.copy()
        end = cut.end.copy()
        end[first] = start[first + 1] = edges
        return replace(cut, start=start, end=end)


_KINDS = {
    HostState.DISPATCH: PathKind.LAUNCH,
    HostState.SYNC: PathKind.WAIT,
    HostState.INPUT: PathKind.INPUT,
    HostState.COMMUNICATION: PathKind.COMMUNICATION,
    PROFILER_STATE: PathKind.PROFILER,
}
KIND_OF_STATE = np.array(
    [_KINDS.get(state, PathKind.HOST) for state in range(NO_STATE + 1)], np.uint8
)
Scalar = TypeVar("Scalar", bound=np.generic)
AT_ONCE = (
    1 << 16
)  # segments of the chain refined at once: each is cut into several, with some dozen columns
SEGMENTS = 4  # segments that an op of the chain has at most: return, host, pause and itself


def find_critical_path(started: LaunchEdges) -> CriticalPath:
    """The critical path of the steady steps (of the recording without steps); empty without device
    work."""
    return joined_path(list(path_parts(started)))


def joined_path(parts: Sequence[CriticalPath]) -> CriticalPath:
    """Parts of the path, one after the other."""
    if len(parts) < 2:
        return parts[0] if parts else CriticalPath.empty()
    names = [f.name for f in fields(CriticalPath)]
    return CriticalPath(
        **{name: np.concatenate([getattr(part, name) for part in parts]) for name in names}
    )


def path_parts(started: LaunchEdges) -> Iterator[CriticalPath]:
    """The critical path in parts, one after the other, of which none is long."""
    ops = started.trace.device_ops
    steps = started.timed.steps
    if not len(ops):
        return
    edges = np.append(steps.start[steps.steady], steps.end[-1])
    window = (int(edges[0]), int(edges[-1]))
    for part in chain_parts(started.bindings, started.host_waits, ops.start, ops.end, window):
        if not len(part):
            continue
        cut = part.cut_at(distinct(edges[1:-1]))
        # Where the host is never waited for, a step is one segment of the chain, and all pieces of
        # it.
        extent = (int(cut.start[0]), int(cut.end[-1]))
        pieces = sum(
            thread.pieces.count_within(*extent) for thread in started.timed.timeline.threads
        )
        for block in blocks(len(cut), max(AT_ONCE * len(cut) // (len(cut) + pieces), 1)):
            yield _refined(started, cut.take(block), edges)


def _refined(started: LaunchEdges, chain: Chain, edges: I64) -> CriticalPath:
    """The part of the path that some segments of the chain are; `edges`: when steps begin and the
    last one ends."""
    on_host = chain.part == SegmentPart.HOST
    host = driving(started.timed, IntervalSet(chain.start[on_host], chain.end[on_host]))
    device = chain.take(~on_host)
    start = np.concatenate((device.start, host.start))
    order = np.argsort(start, kind="stable")
    start = start[order]
    # They refine the chain: what lies within one of its segments are neighbours.
    within = np.diff(np.searchsorted(start, chain.start), append=len(start))
    moments = np.append(start, chain.end[-1:])
    start = moments[:-1]
    end = moments[1:]
    kind = np.concatenate((_kinds(started.linked, device), KIND_OF_STATE[host.state]))[order]
    kind = _with_input(started, kind, end)
    reads, _ = overlaps(started.linked.memo(read_ranges), IntervalSet(start, end))
    kind[reads[kind[reads] == PathKind.LAUNCH]] = (
        PathKind.WAIT
    )  # within operators that only read a value
    # the call that waits, or that launches the op of a segment; -1 where it was not recorded
    waiting = at(started.host_waits.call, device.wait, -1)
    launching = at(started.linked.launch, device.op, -1)
    node = at(
        started.linked.tree.node_of_call,
        np.where(device.part == SegmentPart.RETURN, waiting, launching),
        -1,
    )
    step = started.timed.steps.warmup + np.searchsorted(edges[1:], chain.start, side="right")
    return CriticalPath(
        start=start,
        end=end,
        kind=kind,
        part=np.repeat(chain.part, within),
        op=np.repeat(chain.op, within),
        node=np.concatenate((node, host.node))[order],
        step=np.repeat(step.astype(np.int32), within),
    )


def walk(
    bindings: Bindings, waits: HostWaits, start: I64, end: I64, window: tuple[int, int]
) -> Chain:
    """The chain of causes from the end of the window back to its start; `start` and `end` are the
    device ops'."""
    parts = list(chain_parts(bindings, waits, start, end, window))
    return Chain(
        **{f.name: np.concatenate([getattr(part, f.name) for part in parts]) for f in fields(Chain)}
    )


def chain_parts(
    bindings: Bindings, waits: HostWaits, start: I64, end: I64, window: tuple[int, int]
) -> Iterator[Chain]:
    """The chain in parts, in time order, of which none is long; at least one."""
    count = len(start)
    finish = window[1]
    wait, following = _before(bindings, waits, start, finish)
    done = np.flatnonzero(end == finish)
    chain = _follow(following, start, int(done[-1]) if len(done) else count, window)
    del following, done
    for block in reversed(blocks(len(chain), max(AT_ONCE // SEGMENTS, 1))):
        first = block.start
        stop = block.stop
        op = chain[max(first - 1, 0) : stop + 1]
        own = slice(min(first, 1), min(first, 1) + stop - first)
        edges = _edges(bindings, waits, start, end, op, wait[op], window)
        yield _segments(bindings, op, wait[op], len(start), edges[:, own], own)


def _before(bindings: Bindings, waits: HostWaits, start: I64, finish: int) -> tuple[I32, I32]:
    """For each op, and last the window's end, the host wait that its launch needed and the op
    before it (-1: none)."""

    def before(op: I32) -> tuple[I32, I32]:
        last = waits.before(_or_else(start, op, finish) - _or_else(bindings.lag, op, 0)).astype(
            np.int32, copy=False
        )
        last[_or_else(bindings.by, op, StartBound.LAUNCH) != StartBound.LAUNCH] = -1
        awaited = at(waits.op, last, -1)
        last[awaited >= op] = -1
        return last, np.where(last >= 0, awaited, _or_else(bindings.op, op, -1)).astype(
            np.int32, copy=False
        )

    return blockwise(before, RowNumbers(len(start) + 1))


def _or_else(values: NDArray[Scalar], op: I32, otherwise: int) -> NDArray[Scalar]:
    """The values of these ops; `otherwise` for the one beyond the last."""
    result = np.full(len(op), otherwise, values.dtype)
    known = op < len(values)
    result[known] = values[op[known]]
    return result


def _edges(
    bindings: Bindings,
    waits: HostWaits,
    starts: I64,
    ends: I64,
    op: I32,
    wait: I32,
    window: tuple[int, int],
) -> I64:
    """For each of these ops of the chain, latest first, each with the host wait before its launch
    (-1: none), five edges in rows: when what it waited for ended, when the host went on, launched
    it, when it began and ended; those beside it tell where it begins and ends."""
    begin, finish = window
    start = _or_else(starts, op, finish)
    launched = _is_launched(bindings, op)
    since = start - _or_else(bindings.lag, op, 0)
    returned = at(waits.end, wait, begin)
    left = np.where(launched, returned, start)
    until = np.minimum(_or_else(ends, op, finish), np.append(finish, left[:-1]))
    reached = np.append(until[1:], begin)
    going_on = np.where(launched, returned, reached)
    launch = np.where(launched, since, reached)
    return np.clip(np.stack((reached, going_on, launch, start, until)), begin, finish)


def _is_launched(bindings: Bindings, op: I32) -> Bool:
    """Whether its launch bound each op; for the one beyond the last, too."""
    return _or_else(bindings.by, op, StartBound.LAUNCH) == StartBound.LAUNCH


def _segments(bindings: Bindings, op: I32, wait: I32, count: int, edges: I64, own: slice) -> Chain:
    """The segments of its own ones of these ops of the chain (`count`: ops of all), between their
    `edges`."""
    kept: Bool = (edges[1:] > edges[:-1]).T[::-1].ravel()

    def ordered(*columns: NDArray[Any]) -> NDArray[Any]:
        return np.stack(columns, axis=1)[::-1].ravel()[kept]

    follows = _or_else(bindings.op, op, -1) >= 0
    unlaunched = np.where(follows, SegmentPart.PAUSE, SegmentPart.UNKNOWN)
    pause = np.where(_is_launched(bindings, op), SegmentPart.LATENCY, unlaunched).astype(np.uint8)[
        own
    ]
    running = np.where(op < count, op, np.int32(-1))
    waited_for = np.append(running[1:], np.int32(-1))[own]
    running = running[own]
    wait = wait[own]
    waiting, working, running_op = (
        np.full_like(pause, part) for part in (SegmentPart.RETURN, SegmentPart.HOST, SegmentPart.OP)
    )
    return Chain(
        start=ordered(*edges[:-1]),
        end=ordered(*edges[1:]),
        part=ordered(waiting, working, pause, running_op),
        op=ordered(waited_for, running, running, running),
        wait=ordered(wait, wait, wait, wait),
    )


def _follow(following: I32, start: I64, first: int, window: tuple[int, int]) -> I32:
    """The ops of the chain, latest first, back to the one that runs when the window begins."""
    begin, finish = window

    def stop(op: I32, follows: I32) -> Bool:
        return (follows != op - 1) | (_or_else(start, op, finish) <= begin)

    def run_after(op: I32) -> I32:
        after = np.where(_or_else(start, op, finish) <= begin, np.int32(-1), following[op])
        return (local_searchsorted(breaks, after, side="right") - 1).astype(np.int32)

    stops = blockwise(stop, RowNumbers(len(following)), following)
    stops[0] = True
    breaks = flatnonzero32(stops)
    del stops
    # Runs of ops that follow each other: the number of the one after each, and of those on the
    # chain.
    next_run = blockwise(run_after, breaks)
    following_run = memoryview(next_run.data)
    met = array("i")
    run = int(np.searchsorted(breaks, first, side="right")) - 1
    while run >= 0:
        met.append(run)
        run = following_run[run]
    del next_run, following_run
    last = breaks[np.frombuffer(met, np.int32)]
    top = np.append(np.int32(first), following[last[:-1]])
    begins = np.cumsum(top - last + 1, dtype=np.int64) - (top - last + 1)
    result = np.full(int(begins[-1]) + int(top[-1] - last[-1]) + 1, -1, np.int32)
    result[begins] = top - np.append(np.int32(0), last[:-1])
    return np.cumsum(result, dtype=np.int32, out=result)


def _running(linked: Linked) -> U8:
    """`PathKind` of each device op while it runs."""
    result = np.full(len(linked.trace.device_ops), PathKind.COMPUTE, np.uint8)
    result[linked.is_copy] = PathKind.COPY
    result[linked.is_communication] = PathKind.COMMUNICATION
    return result


def _kinds(linked: Linked, chain: Chain) -> U8:
    """`PathKind` of segments in which the host does not matter, or waits."""
    kind = np.full(len(chain), PathKind.OTHER, np.uint8)
    queued = (chain.part == SegmentPart.PAUSE) & (chain.end - chain.start < QUEUED_LATENCY_NS)
    kind[queued | (chain.part == SegmentPart.LATENCY)] = PathKind.LAUNCH
    kind[chain.part == SegmentPart.RETURN] = PathKind.WAIT
    runs = chain.part == SegmentPart.OP
    kind[runs] = at(linked.memo(_running), chain.op[runs], PathKind.OTHER)
    return kind


def _using(started: LaunchEdges) -> Bool:
    """Which calls launch device work or wait for it."""
    using = started.joined.blocks.copy()
    using[started.linked.launch[started.linked.launch >= 0]] = True
    return using


def _with_input(started: LaunchEdges, kind: U8, end: I64) -> U8:
    """The kinds, set to input for work of the host that is followed by a copy that brings some."""
    work = np.flatnonzero(kind == PathKind.HOST)
    if not len(work):
        return kind
    start = started.trace.api_calls.start
    using = started.memo(_using)
    low, high = np.searchsorted(start, (end[work].min(), end[work].max())).tolist()
    rows = low + np.flatnonzero(using[low:high])
    if using[high:].any():
        rows = np.append(rows, high + using[high:].argmax())
    following = np.append(started.call_brings_input[rows], False)[
        np.searchsorted(start[rows], end[work])
    ]
    kind[work[following]] = PathKind.INPUT
    return kind
