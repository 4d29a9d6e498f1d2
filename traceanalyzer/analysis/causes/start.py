"""What let each device op start, and what let the host go on: the edges along which a critical path
runs.

An op starts when its launch has reached the device, the op before it on its stream has ended, and
ops of other streams that it waits for have ended; the last of these binds it. The host goes on when
the device work that a call waits for has ended."""

import enum
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.analysis.algebra.blocks import Rows, blockwise
from traceanalyzer.analysis.algebra.columns import lean, run_lengths
from traceanalyzer.analysis.algebra.grouping import Groups
from traceanalyzer.analysis.algebra.intervals import measure
from traceanalyzer.analysis.algebra.lookup import (
    Column,
    at,
    first_with,
    one_of,
    places,
    stretch,
    where_changed,
)
from traceanalyzer.analysis.causes.dependencies import (
    NEVER,
    Dependencies,
    inferred_dependencies,
    with_graph_edges,
)
from traceanalyzer.analysis.causes.recorded_waits import numbers_by_stream, recorded_dependencies
from traceanalyzer.analysis.joined.launched import stream_numbers
from traceanalyzer.analysis.joined.linked import Linked
from traceanalyzer.analysis.names.api import ApiKind
from traceanalyzer.analysis.time.host_timeline import HostState
from traceanalyzer.analysis.time.launch_queue import QUEUED_LATENCY_NS, UNEXPLAINED_NS, blocked_time
from traceanalyzer.analysis.time.timed import Timed
from traceanalyzer.base import dataclass
from traceanalyzer.trace import I32, I64, U8, Bool, WaitKind, distinct, is_sorted, narrowed

USUAL_PAUSE_NS = 20_000
"""A queued op that starts later than this after its stream's last one waited for something else."""
DEFAULT_LATENCY_NS = 8_000
"""From a launch call's start to its op's, where no launch to an idle stream was recorded."""
DEFAULT_PAUSE_NS = 1_000
LONGEST_LATENCY_NS = 1_000_000
"""A kernel that seems to have waited for nothing for longer waited for work before the recording."""
LATENCY_RATIO = 2
"""A launch to an idle stream that took so many times the usual met something else on its way."""


class StartBound(enum.IntEnum):
    """What a device op waited for last."""

    NOTHING = 0  # the recording shows nothing before it
    LAUNCH = 1
    STREAM = 2  # the op before it on its stream
    DEPENDENCY = 3  # an op of another stream


@dataclass(frozen=True, eq=False)
class Starts:
    """What each device op of a trace needs before it can start; the one model of it, for path and
    replay."""

    stream: I32  # number of its stream, the same for ops of one device, context and stream
    previous: Column  # row of the op before it on its stream, -1 for the first
    latency: I32 | I64  # from the start of its launch call to its earliest start, ns
    pause: I32 | I64  # least time after the op before it on its stream, ns
    held: (
        I32 | I64
        # ns that it was late beyond that, queued: ops of other streams had what it needed of the device
    )
    dependencies: Dependencies  # ops of other streams that it waits for, by row


@dataclass(frozen=True, eq=False)
class Bindings:
    """What bound each device op of a trace."""

    by: U8
    # the device op that it waited for, always an earlier row; -1 unless bound by a stream or
    # dependency
    op: I32
    start: I64  # when the op starts, ns
    lag: NDArray[
        Any
        # how long before what it waited for was over (that op's end, or start of the launch), ns; >= 0
    ]


class HostWaits(NamedTuple):
    """The calls that held the host until device work had ended or begun, in the order of their
    ends."""

    call: I32 | I64
    end: I64  # when the host went on, ns
    op: I32 | I64  # the device op that it waited for

    def before(self, time: I64) -> I64:
        """The last of these waits that was over at each of these times, -1 where none was."""
        return places(self.end, time, side="right") - 1


def find_starts(linked: Linked) -> Starts:
    """What each device op needs before it can start: recorded waits, where there are any, else what
    its times say."""
    stream = linked.memo(stream_numbers)
    previous = op_before(stream)
    dependencies = recorded_dependencies(linked, stream) or inferred_dependencies(linked, stream)
    dependencies = with_graph_edges(linked, stream, dependencies)
    met = dependencies.met(linked.trace.device_ops.end)
    starts = linked.trace.device_ops.start, linked.launch, linked.launch_time
    short, pause, held, alone = blockwise(partial(_pauses, linked), *starts, previous, met)
    usual = int(np.median(pause[short])) if short.any() else DEFAULT_PAUSE_NS
    return Starts(
        stream=stream,
        previous=run_lengths(previous, counts=True),
        latency=lean(_latency(linked, alone, previous >= 0)),
        pause=lean(np.where(short, pause, np.int32(usual))),
        held=lean(np.where(held > 0, held - usual, held)),
        dependencies=dependencies,
    )


def _pauses(
    linked: Linked, start: I64, launch: I32, launch_time: I64, previous: I32, met: I64
) -> tuple[Bool, I32, NDArray[Any], Bool]:
    """Of some device ops: which were queued and came shortly after the op before them on their
    stream, and after how long (0: not so); how long after it those came that nothing known held (0:
    others); which had been launched when all that they wait for was over."""
    free = np.where(previous >= 0, linked.trace.device_ops.end[previous], NEVER)
    launched = np.where(launch >= 0, at(linked.trace.api_calls.end, launch, 0), launch_time)
    queued = (launch_time >= 0) & (launched <= free)
    pause = start - free
    short = queued & (pause >= 0) & (pause < USUAL_PAUSE_NS) & (met <= free)
    late = queued & (pause >= USUAL_PAUSE_NS) & (start - met >= USUAL_PAUSE_NS)
    waited = start - np.maximum(np.maximum(launched, free), met)
    late |= (
        (launch_time >= 0)
        & ~queued
        & (waited >= UNEXPLAINED_NS)
        & (2 * waited >= pause)
        & (previous >= 0)
    )
    after = np.where(short, pause, 0).astype(np.int32)
    held = narrowed(np.where(late, pause, 0))
    return short, after, held, np.maximum(free, met) <= launch_time


def _latency(linked: Linked, alone: Bool, follows: Bool) -> I32 | I64:
    """Launch latency of each op, ns: its own where it had nothing else to wait for, else what is
    usual for calls of its kind, as it is for the first of a stream, of which nobody knows what it
    waited for; never more than it took. Of the many ops of one call the first alone shows it."""
    ops = linked.trace.device_ops
    calls = linked.trace.api_calls
    launched = stretch(linked.launch >= 0)
    own = lean(ops.start[launched] - linked.launch_time[launched])
    result = np.full(len(ops), DEFAULT_LATENCY_NS, own.dtype)
    call = linked.launch[launched]
    latency = result[launched]
    kinds = linked.api_kind[call]
    # graphs of many kernels take as long, and pageable memory is copied first
    soon = (own <= LONGEST_LATENCY_NS) | (kinds != ApiKind.LAUNCH)
    shown = alone[launched] & (own >= 0) & soon
    if not (call[1:] > call[:-1]).all():
        first = np.empty(len(calls), np.int32)
        rows = np.arange(len(call), dtype=np.int32)
        first[call[::-1]] = rows[::-1]  # of the ops of a call the last one written stays
        shown &= first[call] == rows
    for kind in (ApiKind.LAUNCH, ApiKind.GRAPH_LAUNCH, ApiKind.COPY, ApiKind.SET):
        of_kind = kinds == kind
        if (of_kind & shown).any():
            usual = np.int64(np.median(own[of_kind & shown]))
            latency[of_kind] = usual
            of_kind &= shown & follows[launched]
            latency[of_kind] = np.minimum(own[of_kind], LATENCY_RATIO * usual)
    np.minimum(latency, own, out=latency, where=own >= 0)
    result[launched] = latency
    return result


def find_bindings(linked: Linked, starts: Starts) -> Bindings:
    """What bound each device op."""
    ops = linked.trace.device_ops
    if not len(ops):
        return Bindings(
            np.empty(0, np.uint8), np.empty(0, np.int32), ops.start, np.empty(0, np.int64)
        )
    beside = np.arange(len(starts.stream), dtype=np.int32)
    beside[~where_changed(starts.stream)] = 0
    np.maximum.accumulate(beside, out=beside)
    beside -= 1
    by, op, lag = blockwise(partial(_bindings_of, linked, starts, beside), Rows(len(ops)))
    return Bindings(by, op, ops.start, lag)


def _bindings_of(
    linked: Linked, starts: Starts, beside: I32, part: slice
) -> tuple[U8, I32, NDArray[Any]]:
    ends = linked.trace.device_ops.end
    start = linked.trace.device_ops.start[part]
    launch_time = linked.launch_time[part]
    previous = starts.previous[part]
    beside = beside[part]
    launch = np.minimum(launch_time, start)
    dependencies = starts.dependencies
    awaited = dependencies.awaited[part]
    also_awaited = dependencies.also_awaited[part]
    latest = _Latest.of_none(len(start))
    latest.take(StartBound.LAUNCH, launch_time >= 0, launch + starts.latency[part])
    latest.take(StartBound.STREAM, previous >= 0, ends[previous] + starts.pause[part], previous)
    ready = ends[awaited] + dependencies.delay[part]
    latest.take(StartBound.DEPENDENCY, awaited >= 0, ready, awaited)
    latest.take(StartBound.DEPENDENCY, also_awaited >= 0, ends[also_awaited], also_awaited)
    # One that is later still waited for the op then running beside it: its event, or room on the
    # device.
    late = (start - latest.ready > QUEUED_LATENCY_NS) & (beside >= 0)
    late &= np.minimum(ends[beside], start) > latest.ready
    latest.by[late] = StartBound.DEPENDENCY
    op = latest.op
    op[late] = beside[late]
    op[op >= np.arange(part.start, part.stop)] = -1
    since = np.where(latest.by == StartBound.LAUNCH, launch, np.where(op >= 0, ends[op], start))
    return latest.by, op, narrowed(start - np.minimum(since, start))


class _Latest(NamedTuple):
    """For each op what let it start last."""

    ready: I64  # since when that does not hold it up, ns
    by: U8  # `Bound`
    op: I32  # the op that ended then, -1: none

    @classmethod
    def of_none(cls, count: int) -> "_Latest":
        """Before anything that holds ops up is known."""
        nothing = np.full(count, NEVER + 1)
        return cls(nothing, np.zeros(count, np.uint8), np.full(count, -1, np.int32))

    def take(
        self, bound: StartBound, known: Bool, time: I32 | I64, before: I64 | I32 | None = None
    ) -> None:
        """Ops of which this is known are held up till then, where nothing did so for longer."""
        later = known & (time > self.ready)
        self.ready[later] = time[later]
        self.by[later] = bound
        self.op[later] = -1 if before is None else before[later]


def op_before(stream: I32) -> I32:
    """For each device op the row of the one before it on its stream, -1 for the first."""
    if len(stream) and stream.max() == stream.min():
        return np.arange(-1, len(stream) - 1, dtype=np.int32)
    order = np.argsort(stream, kind="stable")
    result = np.full(len(stream), -1, np.int32)
    same = stream[order][1:] == stream[order][:-1]
    result[order[1:][same]] = order[:-1][same]
    return result


def find_host_waits(timed: Timed) -> HostWaits:
    """The calls that held the process's host side: no other launching thread went on meanwhile."""
    calls = timed.trace.api_calls
    blocking = np.flatnonzero(timed.joined.blocks)
    blocking, ended = waited_for(timed, blocking)
    full = np.flatnonzero(one_of(timed.linked.api_kind, (ApiKind.LAUNCH, ApiKind.GRAPH_LAUNCH)))
    full = full[blocked_time(timed, full) > 0]
    running = places(timed.linked.trace.device_ops.start, calls.end[full], side="left") - 1
    call = np.concatenate((blocking, full[running >= 0]))
    op = np.concatenate((ended, running[running >= 0]))
    order = np.argsort(calls.end[call], kind="stable")
    return HostWaits(narrowed(call[order]), calls.end[call[order]], narrowed(op[order]))


def waited_for(timed: Timed, rows: I64) -> tuple[I64, I64]:
    """The blocking calls that waited for something and held every thread, and which op of that
    ended last."""
    calls = timed.trace.api_calls
    ops = timed.trace.device_ops
    rows = rows[
        measure(timed.timeline.states[HostState.DISPATCH], calls.end[rows] - 1, calls.end[rows])
        == 0
    ]
    stream = _synchronised_stream(timed.linked, rows)
    number = timed.linked.memo(stream_numbers)
    op = np.full(len(rows), -1, np.int64)
    for awaited in distinct(stream).tolist():
        waiting = stream == awaited
        among = np.flatnonzero((number == awaited) | (awaited < 0)).astype(np.int32)
        op[waiting] = _last_done(
            timed.linked, among, calls.start[rows[waiting]], calls.end[rows[waiting]]
        )
    waited = op >= 0
    waited[waited] = ops.end[op[waited]] > calls.start[rows[waited]]
    return rows[waited], op[waited]


def _last_done(linked: Linked, among: I32, start: I64, end: I64) -> I64:
    """For each call the one of these ops, launched by it or before, that ended last within it or
    before; -1: none."""
    ended = linked.trace.device_ops.end[among]
    if not is_sorted(ended):
        order = np.argsort(ended, kind="stable")
        among = among[order]
        ended = ended[order]
    position = places(ended, end, side="right") - 1
    while True:
        op = at(among, position, -1)
        # Another thread may have launched it meanwhile.
        is_later = at(linked.launch_time, op, NEVER) > start
        if not is_later.any():
            return op
        position = position - is_later


def _synchronised_stream(linked: Linked, rows: I64) -> I64:
    """For each of the calls the number of the stream that it waits for, -1 where that is not
    recorded, or all are."""
    waits = linked.trace.waits
    known = numbers_by_stream(linked, linked.memo(stream_numbers))
    # Of several waits of one call the last one counts.
    chosen = np.flatnonzero((waits.kind == WaitKind.STREAM_SYNC) & (waits.correlation > 0))[::-1]
    context = waits.context[chosen]
    stream = waits.stream[chosen]
    pairs = Groups.of(context, stream)
    each = zip(context[pairs.first].tolist(), stream[pairs.first].tolist(), strict=True)
    number = np.array([known.get(one, -1) for one in each], np.int64)[pairs.index]
    calls = linked.trace.api_calls.correlation[rows]
    return at(number, first_with(waits.correlation[chosen], calls, np.ones(len(chosen), bool)), -1)
