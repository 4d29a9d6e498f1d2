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
from typing import Any

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.analysis.algebra import (
    IntervalSet,
    at,
    blockwise,
    complement,
    local_searchsorted,
    measure,
    rows_or_slice,
    union,
)
from traceanalyzer.analysis.algebra.blocks import blocks, in_blocks
from traceanalyzer.analysis.causes.details import IdleDetail
from traceanalyzer.analysis.causes.gap_facts import DOMINANT, GapFacts
from traceanalyzer.analysis.causes.gap_rules import decide
from traceanalyzer.analysis.causes.idle_cause import IdleCause
from traceanalyzer.analysis.causes.started import LaunchEdges
from traceanalyzer.analysis.causes.unwaited import gaps_without_waits
from traceanalyzer.analysis.joined.blocking import searching_calls
from traceanalyzer.analysis.time.timed import Timed
from traceanalyzer.base import dataclass
from traceanalyzer.trace import I32, I64, U8, Table, column, constant_column, distinct


class GapSide(enum.IntEnum):
    """Where a gap lies in the device's span."""

    INSIDE = 0
    BEFORE = 1  # before the device's first op (but inside a step)
    AFTER = 2


LONG_PROFILER_NS = 1_000_000
"""A gap is cut where the profiler works for so long: its start-up and its flushes take milliseconds,
what it does for each call microseconds."""
AT_ONCE = 1 << 16  # gaps that are explained at once: a hundred columns are made on the way


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


def find_gaps(started: LaunchEdges) -> Gaps:
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


def _gaps_by_themselves(started: LaunchEdges) -> Gaps:
    """All gaps, each with the cause that it shows by itself."""
    parts = [_gaps_of_device(started.timed, device) for device in started.timed.activity]
    if not parts:
        return Gaps.empty()
    columns: dict[str, NDArray[Any]] = dict(parts[0])
    if len(parts) > 1:
        columns = {name: np.concatenate([p[name] for p in parts]) for name in parts[0]}
    start = columns["start"]
    steps = started.timed.steps
    index = local_searchsorted(steps.start, start, side="right").astype(np.int32) - np.int32(1)
    index[(index >= 0) & (start >= steps.end[np.maximum(index, 0)])] = -1
    of_op = at(steps.of_op, columns["next_op"], -1)
    columns["step"] = np.where(of_op >= 0, of_op, index)
    asked = [columns[name] for name in ("start", "end", "next_op", "device")]
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
    gaps = _cut_at(timed.memo(long_profiler_work), complement(window, activity.busy))
    rows = np.flatnonzero(ops.device == device).astype(np.int32)
    started = ops.start if len(rows) == len(ops) else ops.start[rows]
    next_op = np.append(rows, np.int32(-1))[local_searchsorted(started, gaps.end, side="left")]
    side = np.full(len(next_op), GapSide.INSIDE, np.uint8)
    side[gaps.end <= activity.span[0]] = GapSide.BEFORE
    side[next_op < 0] = GapSide.AFTER
    alone = constant_column(device, len(next_op), np.int32)
    return {"start": gaps.start, "end": gaps.end, "device": alone, "next_op": next_op, "side": side}


def long_profiler_work(timed: Timed) -> IntervalSet:
    """When the profiler itself worked for long."""
    work = timed.timeline.profiler
    return work.select(work.end - work.start >= LONG_PROFILER_NS)


def _cut_at(inside: IntervalSet, gaps: IntervalSet) -> IntervalSet:
    """The gaps cut where they enter and leave these intervals: what is the profiler's of a gap, and
    what is the program's, has a cause of its own."""
    if not len(inside.start) or not len(gaps.start):
        return gaps
    edges = distinct(np.concatenate((inside.start, inside.end)))
    around = local_searchsorted(gaps.start, edges, side="left") - 1
    within = (around >= 0) & (edges < at(gaps.end, around, 0))
    edges = edges[within]
    start, end = (distinct(np.concatenate((ends, edges))) for ends in (gaps.start, gaps.end))
    return IntervalSet(start, end)


def _causes(
    started: LaunchEdges, start: I64, end: I64, next_op: I64, device: I32
) -> dict[str, U8 | I32]:
    """Cause, detail, queue and wait of some gaps."""
    facts = GapFacts(started, start, end, next_op, device)
    cause, detail = decide(facts)
    wait = np.where(facts.drained >= 0, facts.drained, facts.wait)
    sync = np.where(cause == IdleCause.SYNC, wait, -1).astype(np.int32)
    queued = (facts.queued | facts.stuck).astype(np.uint8)
    return {"cause": cause, "queued": queued, "sync": sync, "detail": detail}


def _exposed_by_waits(started: LaunchEdges, gaps: Gaps) -> Gaps:
    """The gaps, with cause SYNC where slow launches explain one that would (nearly) not be there
    without the waits."""
    cause = gaps.cause.copy()
    sync = gaps.sync.copy()
    gaps = replace(gaps, cause=cause, sync=sync)
    for device in started.timed.activity:
        rows = rows_or_slice((gaps.device == device) & (gaps.side == GapSide.INSIDE))
        if not (cause[rows] == IdleCause.LAUNCH).any():
            continue
        start = gaps.start[rows]
        end = gaps.end[rows]
        next_op = gaps.next_op[rows]
        exposed = (cause[rows] == IdleCause.LAUNCH) & (gaps.queued[rows] == 0)
        exposed &= gaps.detail[rows] != IdleDetail.GRAPH_LAUNCH
        for block, left in gaps_without_waits(started, start, end, next_op):
            exposed[block] &= left < DOMINANT * (end[block] - start[block])
        wait = blockwise(
            lambda op: started.host_waits.before(started.linked.launch_time[op]), next_op
        )
        exposed &= wait >= 0
        cause[rows] = np.where(exposed, np.uint8(IdleCause.SYNC), cause[rows])
        sync[rows] = np.where(exposed, at(started.host_waits.call, wait, -1), sync[rows])
    return gaps


def idle_by_cause(timed: Timed, gaps: Gaps, device: int) -> dict[IdleCause, I64]:
    """Idle time of a device in each step's window by cause, ns; over the causes it sums to the
    window's idle."""
    steps = timed.steps
    result = {cause: np.zeros(len(steps.start), np.int64) for cause in IdleCause}
    for cause, part in product(IdleCause, blocks(len(gaps), AT_ONCE)):
        rows = part.start + np.flatnonzero(
            (gaps.device[part] == device) & (gaps.cause[part] == cause)
        )
        result[cause] += measure(union(gaps.start[rows], gaps.end[rows]), steps.start, steps.end)
    return result
