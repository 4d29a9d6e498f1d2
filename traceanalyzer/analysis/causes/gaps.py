"""GPU idle gaps and what the device was waiting for.

A gap is a stretch in which a device has no op. The op that ends it tells why: either its launch had
been issued already (the device needed that long, or waited for another stream), or the host was
late, and then what the host did between the gap's start and the launch is the one cause. Where the
host merely launched too slowly, the schedule without its waits for the device tells whether it is
too slow, or was kept from being early (`causes.unwaited`)."""

import enum
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.analysis.algebra import (
    at,
    blockwise,
    complement,
    measure,
    one_of,
    places,
    stretch,
    union,
)
from traceanalyzer.analysis.algebra.blocks import blocks, in_blocks
from traceanalyzer.analysis.causes.details import LOOP_NS, IdleDetail, host_details, migrates
from traceanalyzer.analysis.causes.idle_cause import IdleCause
from traceanalyzer.analysis.causes.started import Started
from traceanalyzer.analysis.causes.unwaited import gaps_without_waits
from traceanalyzer.analysis.joined.blocking import searching_calls
from traceanalyzer.analysis.joined.joined import Joined
from traceanalyzer.analysis.joined.launched import last_launch, lost_launches
from traceanalyzer.analysis.time.host_timeline import HostState
from traceanalyzer.analysis.time.launch_queue import QUEUED_LATENCY_NS, UNEXPLAINED_NS
from traceanalyzer.analysis.time.timed import Timed
from traceanalyzer.base import dataclass
from traceanalyzer.trace import I32, I64, U8, Bool, Table, alike, column, distinct, narrowed


class GapSide(enum.IntEnum):
    """Where a gap lies in the device's span."""

    INSIDE = 0
    BEFORE = 1  # before the device's first op (but inside a step)
    AFTER = 2


AT_ONCE = 1 << 16  # gaps that are explained at once: a hundred columns are made on the way
REFILL_LAUNCHES = 16
"""After the host waited for the device the queue is empty, and the next launches are exposed
however fast they are; a host that is faster than the device is ahead again after about this
many."""

UNPROFILED_SHARE = 0.65
UNPROFILED_SHARE_WITH_STACKS = 0.5
"""Of the host's dispatch as recorded this is left without a profiler (docs/accuracy.md)."""
TOO_SLOW = 2.0
"""A host that needs this many times the device's busy time to launch a step cannot get ahead of the
device."""

DOMINANT = 0.5
"""A cause owns a gap if it filled at least this share of it, or if without it less than this share
would be left."""


@dataclass(frozen=True, eq=False)
class Gaps(Table):
    """Gaps of all devices of a trace, in time order."""

    start: I64 = column(np.int64)
    end: I64 = column(np.int64)
    device: I32 = column(np.int32)
    next_op: I32 = column(np.int32)  # device op that ends the gap, -1 after the last one
    step: I32 = column(
        np.int32, narrow=True
    )  # of the op that ends it, else whose window holds its start; -1 outside
    cause: U8 = column(np.uint8, fill=IdleCause.OTHER)
    queued: U8 = column(
        np.uint8, fill=0
    )  # 1: the op that ends it was launched before, or long before it ended
    sync: I32 = column(np.int32)  # for cause SYNC the API call that had drained the device
    side: U8 = column(np.uint8, fill=0)
    detail: U8 = column(
        np.uint8, fill=0
    )  # `IdleDetail`: what kind of host work, or lack of records, is behind it

    @property
    def duration(self) -> I64:
        """Length of each gap, ns."""
        return self.end - self.start


def find_gaps(started: Started) -> Gaps:
    """All gaps of the trace's devices, also those between a step's edge and the first or last
    op."""
    gaps = _exposed_by_waits(started, _gaps_by_themselves(started))
    searched = (gaps.cause == IdleCause.SYNC) & np.isin(gaps.sync, searching_calls(started.linked))
    if not searched.any():
        return gaps
    return replace(  # it is first use after waits with which a library chooses its algorithm
        gaps,
        cause=np.where(searched, np.uint8(IdleCause.HOST), gaps.cause),
        detail=np.where(searched, np.uint8(IdleDetail.LOADING), gaps.detail),
        sync=np.where(searched, np.int32(-1), gaps.sync),
    )


def _gaps_by_themselves(started: Started) -> Gaps:
    """All gaps, each with the cause that it shows by itself."""
    if not (parts := [_gaps_of_device(started.timed, device) for device in started.timed.activity]):
        return Gaps.empty()
    columns: dict[str, NDArray[Any]] = dict(parts[0])
    if len(parts) > 1:
        columns = {name: np.concatenate([p[name] for p in parts]) for name in parts[0]}
    start = columns["start"]
    steps = started.timed.steps
    index = places(steps.start, start, side="right").astype(np.int32) - np.int32(1)
    index[(index >= 0) & (start >= steps.end[np.maximum(index, 0)])] = -1
    of_op = at(steps.of_op, columns["next_op"], -1)
    columns["step"] = np.where(of_op >= 0, of_op, index)
    asked = [columns[name] for name in ("start", "end", "next_op")]
    causes = in_blocks(partial(_causes, started), *asked, at_once=AT_ONCE)
    columns |= {
        name: np.concatenate([block.pop(name) for block in causes]) for name in [*causes[0]]
    }
    return Gaps.from_columns(columns)


def _gaps_of_device(timed: Timed, device: int) -> dict[str, NDArray[Any]]:
    activity = timed.activity[device]
    steps = timed.steps
    ops = timed.trace.device_ops
    window = (min(activity.span[0], int(steps.start[0])), max(activity.span[1], int(steps.end[-1])))
    gaps = complement(window, activity.busy)
    rows = np.flatnonzero(ops.device == device).astype(np.int32)
    started = ops.start if len(rows) == len(ops) else ops.start[rows]
    next_op = np.append(rows, np.int32(-1))[places(started, gaps.end, side="left")]
    side = np.full(len(next_op), GapSide.INSIDE, np.uint8)
    side[gaps.end <= activity.span[0]] = GapSide.BEFORE
    side[next_op < 0] = GapSide.AFTER
    alone = alike(device, len(next_op), np.int32)
    return {"start": gaps.start, "end": gaps.end, "device": alone, "next_op": next_op, "side": side}


def _causes(timed: Started, start: I64, end: I64, next_op: I64) -> dict[str, U8 | I32]:
    launch = np.where(next_op >= 0, timed.linked.launch_time[next_op], end)
    call = np.where(next_op >= 0, timed.linked.launch[next_op], -1)
    returned = np.where(call >= 0, at(timed.trace.api_calls.end, call, 0), launch)
    known = launch >= 0
    duration = end - start
    waited = end - np.maximum(returned, start)
    held_up = (waited >= QUEUED_LATENCY_NS) & (waited >= DOMINANT * duration)
    queued = known & (next_op >= 0) & ((returned <= start) | held_up)
    late = known & ~queued
    arrival = np.clip(launch, start, end)
    time = {s: measure(i, start, arrival) for s, i in timed.timed.timeline.states.items()}
    waits = timed.joined.memo(_waits_by_end)
    drained = _drained_by(timed, launch)
    sync = at(waits.call, places(waits.end, launch, side="right") - 1, -1)
    cause = np.full(len(start), IdleCause.OTHER, np.uint8)
    cause[late] = IdleCause.LAUNCH
    cause[queued & (duration < QUEUED_LATENCY_NS)] = IdleCause.LAUNCH
    if timed.timed.memo(keeps_waiting) or timed.timed.memo(could_be_ahead):
        cause[late & (drained >= 0)] = IdleCause.SYNC
    owners = (
        (IdleCause.SYNC, np.where(sync >= 0, time[HostState.SYNC], -1)),
        (IdleCause.COMMUNICATION, time[HostState.COMMUNICATION]),
        (IdleCause.HOST, time[HostState.WORK] + time[HostState.ALLOCATE]),
        (IdleCause.INPUT, time[HostState.INPUT]),
        (IdleCause.PROFILER, measure(timed.timed.timeline.profiler, start, arrival)),
    )
    for owner, spent in owners:
        cause[late & (spent >= DOMINANT * duration)] = owner
    cause[(cause == IdleCause.HOST) & (next_op >= 0) & timed.input_copies[next_op]] = (
        IdleCause.INPUT
    )
    blocked = time[HostState.SYNC] >= DOMINANT * duration
    detail = host_details(timed.timed, start, end)
    named = one_of(cause, (IdleCause.HOST, IdleCause.LAUNCH)) | (
        (cause == IdleCause.SYNC) & ~blocked
    )
    detail[~(late & named)] = IdleDetail.NONE
    cause[detail > 0] = IdleCause.HOST
    stuck = late & (next_op >= 0) & (waited >= np.maximum(UNEXPLAINED_NS, DOMINANT * duration))
    cause[stuck] = IdleCause.OTHER
    detail[stuck] = IdleDetail.NONE
    queued = queued | stuck
    moved = ~late & ~queued & migrates(timed.timed, next_op)
    cause[moved] = IdleCause.HOST
    detail[moved] = IdleDetail.PAGE_MIGRATION
    detail[moved & (duration > LOOP_NS)] = IdleDetail.MANAGED_LOOP
    lost = _lost(timed.timed, start, arrival) & one_of(
        cause, (IdleCause.LAUNCH, IdleCause.HOST, IdleCause.OTHER)
    )
    cause[lost] = IdleCause.OTHER
    detail[lost] = IdleDetail.LOST
    call = np.where(cause == IdleCause.SYNC, np.where(drained >= 0, drained, sync), -1).astype(
        np.int32
    )
    return {"cause": cause, "queued": queued.astype(np.uint8), "sync": call, "detail": detail}


def _lost(timed: Timed, start: I64, arrival: I64) -> Bool:
    """In which gaps kernels were launched that are not in the recording: the device may have run
    them."""
    lost = timed.linked.memo(lost_launches)
    lost = lost[: np.searchsorted(lost, last_launch(timed.linked), side="right")]
    return np.searchsorted(lost, arrival, side="left") > np.searchsorted(lost, start, side="left")


def _exposed_by_waits(started: Started, gaps: Gaps) -> Gaps:
    """The gaps, with cause SYNC where slow launches explain one that would (nearly) not be there
    without the waits."""
    cause = gaps.cause.copy()
    sync = gaps.sync.copy()
    gaps = replace(gaps, cause=cause, sync=sync)
    for device in started.timed.activity:
        rows = stretch((gaps.device == device) & (gaps.side == GapSide.INSIDE))
        if not (cause[rows] == IdleCause.LAUNCH).any():
            continue
        start = gaps.start[rows]
        end = gaps.end[rows]
        next_op = gaps.next_op[rows]
        exposed = (cause[rows] == IdleCause.LAUNCH) & (gaps.queued[rows] == 0)
        for here, left in gaps_without_waits(started, start, end, next_op):
            exposed[here] &= left < DOMINANT * (end[here] - start[here])
        wait = blockwise(
            lambda op: started.host_waits.before(started.linked.launch_time[op]), next_op
        )
        exposed &= wait >= 0
        cause[rows] = np.where(exposed, np.uint8(IdleCause.SYNC), cause[rows])
        sync[rows] = np.where(exposed, at(started.host_waits.call, wait, -1), sync[rows])
    return gaps


def only_searches(timed: Timed) -> bool:
    """Whether the host waits within the steps, and only while a library chooses its algorithms."""
    waits = np.flatnonzero(timed.joined.blocks & timed.steady_calls)
    return len(waits) > 0 and bool(np.isin(waits, searching_calls(timed.linked)).all())


def could_be_ahead(timed: Timed) -> bool:
    """Whether the host, without profiler and waits, launches fast enough to be ahead: else waits
    take nothing away."""
    if timed.device is None:
        return False
    steps = timed.steps
    within = steps.host_start[steps.steady], steps.host_end[steps.steady]
    dispatch = measure(timed.timeline.states[HostState.DISPATCH], *within).sum()
    busy = measure(
        timed.activity[timed.device].busy, steps.start[steps.steady], steps.end[steps.steady]
    ).sum()
    left = UNPROFILED_SHARE_WITH_STACKS if timed.trace.collected.stacks else UNPROFILED_SHARE
    return left * dispatch <= TOO_SLOW * busy


def keeps_waiting(timed: Timed) -> bool:
    """Whether the steps hold a wait for every few launches, so that the queue never fills: the
    waits are then what can be changed, whatever the host's speed, and however soon each is over."""
    waits = int((timed.joined.blocks & timed.steady_calls).sum())
    launches = distinct(timed.linked.launch[timed.steady_ops & (timed.linked.launch >= 0)])
    return waits > 1 and len(launches) <= REFILL_LAUNCHES * waits


def _drained_by(timed: Started, launch: I64) -> I64:
    """The blocking call that had emptied the device's queue shortly before each launch, -1 if there
    is none."""
    waits = timed.memo(_draining)
    index = places(waits.end, launch, side="right") - 1
    since = timed.linked.launched_before(launch) - at(waits.launched, index, 0)
    return np.where((index >= 0) & (since < REFILL_LAUNCHES), at(waits.call, index, -1), -1)


def _draining(timed: Started) -> "_Waits":
    """The blocking calls that had emptied the queue; those that found it idle only if the program
    keeps waiting."""
    waits = timed.joined.memo(_waits_by_end)
    chosen = waits.emptied if timed.timed.memo(keeps_waiting) else waits.emptied & waits.found_work
    return waits if chosen.all() else _Waits._make(column[chosen] for column in waits)


class _Waits(NamedTuple):
    """The blocking calls in the order of their ends."""

    call: I32
    end: I64
    launched: I32  # how many ops had been launched before its end
    emptied: Bool  # whether the device had then done all of them
    found_work: Bool  # whether it still had some when the call began


def _waits_by_end(joined: Joined) -> _Waits:
    calls = joined.trace.api_calls
    blocking = np.flatnonzero(joined.blocks)
    blocking = blocking[np.argsort(calls.end[blocking], kind="stable")]
    began = calls.start[blocking]
    ended = calls.end[blocking]
    emptied = joined.linked.drained_at(ended) <= ended
    found_work = joined.linked.drained_at(began) > began
    return _Waits(
        narrowed(blocking),
        ended,
        narrowed(joined.linked.launched_before(ended)),
        emptied,
        found_work,
    )


def idle_by_cause(timed: Timed, gaps: Gaps, device: int) -> dict[IdleCause, I64]:
    """Idle time of a device in each step's window by cause, ns; over the causes it sums to the
    window's idle."""
    steps = timed.steps
    result = {cause: np.zeros(len(steps.start), np.int64) for cause in IdleCause}
    for cause, part in product(IdleCause, blocks(len(gaps), AT_ONCE)):
        here = part.start + np.flatnonzero(
            (gaps.device[part] == device) & (gaps.cause[part] == cause)
        )
        result[cause] += measure(union(gaps.start[here], gaps.end[here]), steps.start, steps.end)
    return result
