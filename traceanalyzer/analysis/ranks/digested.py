"""From a recording to its digest, and to what says why its rank was late."""

from dataclasses import replace

import numpy as np

from traceanalyzer.analysis.algebra import Groups, measure, one_of, union
from traceanalyzer.analysis.causes.causes import Causes
from traceanalyzer.analysis.causes.gaps import idle_by_cause
from traceanalyzer.analysis.causes.idle_cause import IdleCause
from traceanalyzer.analysis.joined.alone import alone
from traceanalyzer.analysis.names.phase_names import Role
from traceanalyzer.analysis.phases.roles import find_phases
from traceanalyzer.analysis.ranks import digest
from traceanalyzer.analysis.ranks.digest import (
    SENDS,
    Claim,
    DigestedCalls,
    Family,
    Pieces,
    ProcessGroup,
    RankDigest,
)
from traceanalyzer.analysis.time.step_evidence import extent
from traceanalyzer.analysis.time.timed import Timed
from traceanalyzer.base import cut
from traceanalyzer.trace import I32, I64, Trace

FREE_NS = 5_000
AT_ONCE_NS = 20_000
"""Kernels of one stream follow each other within the first; what waits for another stream begins
within the second."""


MOST_FAMILIES = 12  # kernels by name that take most of the time; the rest is one
OTHERS = "other kernels"


def claim_of(trace: Trace) -> Claim:
    """What the recording says of itself."""
    start, end = extent(trace.host_ranges, trace.api_calls, trace.device_ops)
    return Claim(trace.rank, trace.process.world_size, start + trace.epoch_ns, end + trace.epoch_ns)


def digest_of(timed: Timed) -> RankDigest:
    """The digest of a recording; `timed.memo(digest_of)` makes it once."""
    trace = timed.trace
    steps = timed.steps
    compute = communication = busy = np.zeros(len(steps), np.int64)
    if timed.device is not None:
        of_device = timed.activity[timed.device]
        work = (of_device.compute, of_device.communication, of_device.busy)
        compute, communication, busy = (measure(what, steps.start, steps.end) for what in work)
    calls, groups = _calls(timed)
    calls, pieces = _pieces(timed, calls)
    return RankDigest(
        path=trace.path,
        claim=claim_of(trace),
        host=trace.process.host,
        epoch_ns=trace.epoch_ns,
        device=timed.device,
        only_step_times=trace.only_step_times,
        steps=replace(steps, of_op=np.empty(0, np.int32)),
        compute=compute,
        communication=communication,
        busy=busy,
        collectives=len(timed.collective_calls),
        calls=calls,
        groups=groups,
        pieces=pieces,
    )


def _calls(timed: Timed) -> tuple[DigestedCalls, tuple[ProcessGroup, ...]]:
    found = timed.collective_calls
    table = timed.trace.collectives
    trace = timed.trace
    parts = found.parts
    order = np.argsort(parts.entry, kind="stable")
    order = order[((found.step >= 0) & (found.device == timed.device))[parts.entry[order]]]
    rows = parts.entry[order]
    metadata = parts.metadata[order]
    numbered = (table.sequence >= 0) & (table.communicator >= 0)
    named = (table.group, table.ranks, np.where(numbered, table.communicator, -1), table.group_size)
    of_row = [
        ProcessGroup(
            trace.text(group) or "", trace.text(ranks) or "", trace.text(communicator) or "", size
        )
        for group, ranks, communicator, size in zip(
            *(column.tolist() for column in named), strict=True
        )
    ]
    code = {group: i for i, group in enumerate(dict.fromkeys([*of_row, digest.NO_GROUP]))}
    groups = np.array([code[group] for group in (*of_row, digest.NO_GROUP)], np.int32)
    columns = {
        name: getattr(found, name)[rows]
        for name in ("start", "end", "launched", "row", "step", "bytes")
    }
    columns |= {"kind": parts.kind[order], "group": groups[metadata]}
    columns["sequence"] = np.append(np.where(numbered, table.sequence, -1), -1)[metadata]
    columns["peer"] = np.append(table.peer, np.int32(-1))[metadata]
    calls = DigestedCalls.from_columns(columns)
    if not len(calls):
        return calls, tuple(code)
    compute = np.flatnonzero((trace.device_ops.device == timed.device) & timed.linked.is_compute)
    queued = _queued(timed, calls, compute)
    held = _held(timed, calls, compute)
    return replace(calls, queued=queued, slowed=_slowed(timed, calls, compute), held=held), tuple(
        code
    )


def _queued(timed: Timed, calls: DigestedCalls, compute: I64) -> I64:
    """What each starts later than what was launched before it had ended; 0 in a graph, where that
    is not known."""
    ops = timed.trace.device_ops
    linked = timed.linked
    rows = compute[linked.launch_time[compute] >= 0]
    rows = rows[np.argsort(linked.launch_time[rows], kind="stable")]
    launched = linked.launch_time[rows]
    ended = np.maximum.accumulate(ops.end[rows])
    before, until = (
        np.searchsorted(launched, calls.launched, side=side) for side in ("left", "right")
    )
    ready = np.maximum(np.append(ended, calls.launched.min(initial=0))[before - 1], calls.launched)
    return np.where(
        (calls.launched >= 0) & (before == until), np.maximum(calls.start - ready, 0), 0
    )


def _slowed(timed: Timed, calls: DigestedCalls, compute: I64) -> I64:
    """How much longer the compute launched before each took than its like alone, since the call
    launched before it."""
    ops = timed.trace.device_ops
    launched = timed.linked.launch_time
    rows = compute[np.argsort(launched[compute], kind="stable")]
    longer = np.append(0, np.cumsum((ops.end - ops.start)[rows] - alone(timed.linked, rows)))
    until = longer[np.searchsorted(launched[rows], calls.launched)]
    order = np.argsort(calls.launched, kind="stable")
    slowed = np.empty(len(calls), np.int64)
    slowed[order] = np.diff(until[order], prepend=0)
    return slowed


def _held(timed: Timed, calls: DigestedCalls, compute: I64) -> I32:
    """Whether the device computed nothing at its end, and began at once what had been launched
    before."""
    ops = timed.trace.device_ops
    linked = timed.linked
    rows = compute[np.argsort(ops.start[compute], kind="stable")]
    after = np.searchsorted(ops.start[rows], calls.end)
    never = np.iinfo(np.int64).max // 2
    start, launched = (np.append(of[rows], never)[after] for of in (ops.start, linked.launch_time))
    ended = np.append(np.maximum.accumulate(ops.end[rows]), -never)[after - 1]
    free = (
        (ended <= calls.end - FREE_NS) & (start <= calls.end + AT_ONCE_NS) & (launched < calls.end)
    )
    return free.astype(np.int32)


def _pieces(timed: Timed, calls: DigestedCalls) -> tuple[DigestedCalls, Pieces]:
    """The calls with what was launched before them, and that: kernels in the order of their
    launches, cut where something is sent or received. What has no role has that of its neighbour in
    the stretch, the one before first."""
    sends = one_of(calls.kind, SENDS)
    if timed.device is None or not sends.any():
        return calls, Pieces.empty()
    bounds = np.sort(calls.launched[sends])
    ops = timed.trace.device_ops
    linked = timed.linked
    mine = (
        (ops.device == timed.device)
        & linked.is_compute
        & (timed.steps.of_op >= 0)
        & (linked.launch_time >= 0)
    )
    rows = np.flatnonzero(mine)
    rows = rows[np.argsort(linked.launch_time[rows], kind="stable")]
    step = timed.steps.of_op[rows].astype(np.int64)
    stretch = (
        np.searchsorted(bounds, linked.launch_time[rows], side="right") * len(timed.steps) + step
    )
    role = find_phases(timed).of_op[rows]
    at = np.arange(len(rows))
    known = one_of(role, (Role.FORWARD, Role.BACKWARD, Role.OPTIMIZER))
    before = np.maximum.accumulate(np.where(known, at, 0))
    after = np.minimum.accumulate(np.where(known, at, len(at) - 1)[::-1])[::-1]
    other = np.where(known[before] & (stretch[before] == stretch), before, after)
    role = np.where(known[other] & (stretch[other] == stretch), role[other], Role.NONE).astype(
        np.int32
    )
    rows, stretch, step, role = (
        values[role != Role.NONE] for values in (rows, stretch, step, role)
    )
    if not len(rows):
        return calls, Pieces.empty()
    first = np.flatnonzero(np.append(True, (np.diff(stretch) != 0) | (np.diff(role) != 0)))
    after = np.searchsorted(linked.launch_time[rows[first]], calls.launched).astype(np.int32)
    start = np.minimum.reduceat(ops.start[rows], first)
    end = np.maximum.reduceat(ops.end[rows], first)
    busy = measure(timed.activity[timed.device].compute, start, end)
    columns = {"start": start, "end": end, "busy": busy, "step": step[first], "role": role[first]}
    return replace(calls, after=np.where(sends, after, np.int32(0))), Pieces.from_columns(columns)


def why_of(causes: Causes, calls: DigestedCalls) -> digest.Why | None:
    """What a rank did in its steps and before each of its calls; None without work on a device."""
    timed = causes.timed
    steps = causes.timed.steps
    gaps = causes.gaps
    if timed.device is None:
        return None
    activity = timed.activity[timed.device]
    idle = idle_by_cause(timed, gaps, timed.device)
    # When the rank's communication before each call had ended; its step began, for the first of a
    # step.
    before = np.append(np.full(1, np.iinfo(np.int64).min), np.maximum.accumulate(calls.end))[
        : len(calls)
    ]
    begin = np.minimum(np.maximum(before, steps.start[calls.step]), calls.start)
    of_cause = [(gaps.device == timed.device) & (gaps.cause == cause) for cause in IdleCause]
    idle_before = [
        measure(union(gaps.start[rows], gaps.end[rows]), begin, calls.start) for rows in of_cause
    ]
    clock = f"GPU {timed.device}: SM clock"
    return digest.Why(
        exposed_communication=measure(activity.exposed_communication, steps.start, steps.end),
        exposed_copy=measure(activity.exposed_copy, steps.start, steps.end),
        idle=np.stack([idle[cause] for cause in IdleCause]),
        compute_before=measure(activity.compute, begin, calls.start),
        idle_before=np.stack(idle_before),
        families=_families(timed),
        clock_mhz=next((load.mean for load in timed.trace.loads if load.what == clock), None),
    )


def _families(timed: Timed) -> tuple[Family, ...]:
    ops = timed.trace.device_ops
    linked = timed.linked
    rows = np.flatnonzero(
        (ops.device == timed.device) & linked.is_compute & linked.is_kernel & timed.steady_ops
    )
    names = Groups.of(ops.name[rows])
    time = names.sum(ops.end[rows] - ops.start[rows])
    threads = np.maximum(ops.blocks[rows], 0).astype(np.int64) * np.maximum(ops.threads[rows], 0)
    known = names.sum(threads > 0) == names.count
    total = names.sum(threads)
    order = np.argsort(-time, kind="stable")
    made = [
        Family(
            cut(timed.trace.text(int(ops.name[rows[names.first[i]]])) or "", 60),
            int(names.count[i]),
            int(time[i]),
            int(total[i]) if known[i] else -1,
        )
        for i in order[:MOST_FAMILIES].tolist()
    ]
    rest = order[MOST_FAMILIES:]
    if len(rest):
        counted = int(total[rest].sum()) if known[rest].all() else -1
        made.append(Family(OTHERS, int(names.count[rest].sum()), int(time[rest].sum()), counted))
    return tuple(made)
