"""From a recording to its digest, and to what says why its rank was late."""

from dataclasses import replace

import numpy as np

from traceanalyzer.analysis.algebra import Groups, isin_few, measure, union
from traceanalyzer.analysis.causes.causes import Causes
from traceanalyzer.analysis.causes.gaps import idle_by_cause
from traceanalyzer.analysis.causes.idle_cause import IdleCause
from traceanalyzer.analysis.joined.without_collectives import duration_without_collectives
from traceanalyzer.analysis.names.phase_names import Role
from traceanalyzer.analysis.phases.roles import find_phases
from traceanalyzer.analysis.ranks import digest
from traceanalyzer.analysis.ranks.digest import (
    SENDS,
    DigestedCalls,
    Family,
    Pieces,
    ProcessGroup,
    RankDigest,
    RunClaim,
)
from traceanalyzer.analysis.time.step_evidence import extent
from traceanalyzer.analysis.time.timed import Timed
from traceanalyzer.base import cut
from traceanalyzer.trace import I32, I64, Bool, Trace

FREE_NS = 5_000
AT_ONCE_NS = 20_000
"""Kernels of one stream follow each other within the first; what waits for another stream begins
within the second."""
MOST_FAMILIES = 12  # kernels by name that take most of the time; the rest is one
OTHERS = "other kernels"


def claim_of(trace: Trace) -> RunClaim:
    """What the recording says of itself."""
    start, end = extent(trace.host_ranges, trace.api_calls, trace.device_ops)
    return RunClaim(
        trace.rank, trace.process.world_size, start + trace.epoch_ns, end + trace.epoch_ns
    )


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
    collectives = timed.collective_calls
    table = timed.trace.collectives
    parts = collectives.parts
    of_device = (collectives.step >= 0) & (collectives.device == timed.device)
    order = np.argsort(parts.entry, kind="stable")
    order = order[of_device[parts.entry[order]]]
    rows = parts.entry[order]
    metadata = parts.metadata[order]  # row in the table, -1 for none: the last one here
    numbered = (table.sequence >= 0) & (table.communicator >= 0)
    groups, group = _groups(timed, numbered)
    calls = DigestedCalls.from_columns(
        {
            "start": collectives.start[rows],
            "end": collectives.end[rows],
            "launched": collectives.launched[rows],
            "row": collectives.row[rows],
            "step": collectives.step[rows],
            "bytes": collectives.bytes[rows],
            "kind": parts.kind[order],
            "group": group[metadata],
            "sequence": np.append(np.where(numbered, table.sequence, -1), -1)[metadata],
            "peer": np.append(table.peer, np.int32(-1))[metadata],
        }
    )
    if not len(calls):
        return calls, groups
    compute = _compute_rows(timed)
    calls = replace(
        calls,
        queued=_queued(timed, calls, compute),
        slowed=_slowed(timed, calls, compute),
        held=_held(timed, calls, compute),
    )
    return calls, groups


def _compute_rows(timed: Timed) -> I64:
    """Rows of the compute on the rank's device."""
    ops = timed.trace.device_ops
    return np.flatnonzero((ops.device == timed.device) & timed.linked.is_compute)


def _groups(timed: Timed, numbered: Bool) -> tuple[tuple[ProcessGroup, ...], I32]:
    """The groups of the recording, and which of them each row of `Trace.collectives` is of, with
    one more for calls without a row."""
    table = timed.trace.collectives
    text = timed.trace.text
    communicators = np.where(numbered, table.communicator, -1)
    columns = (table.group, table.ranks, communicators, table.group_size)
    of_row = [
        ProcessGroup(text(group) or "", text(ranks) or "", text(communicator) or "", size)
        for group, ranks, communicator, size in zip(*(c.tolist() for c in columns), strict=True)
    ]
    of_row.append(digest.NO_GROUP)
    code = {group: i for i, group in enumerate(dict.fromkeys(of_row))}
    return tuple(code), np.array([code[group] for group in of_row], np.int32)


def _queued(timed: Timed, calls: DigestedCalls, compute: I64) -> I64:
    """What each starts later than what was launched before it had ended; 0 in a graph, where that
    is not known."""
    ops = timed.trace.device_ops
    linked = timed.linked
    rows = compute[linked.launch_time[compute] >= 0]
    rows = rows[np.argsort(linked.launch_time[rows], kind="stable")]
    launched = linked.launch_time[rows]
    ended = np.maximum.accumulate(ops.end[rows])
    before = np.searchsorted(launched, calls.launched, side="left")
    until = np.searchsorted(launched, calls.launched, side="right")
    ended_before = np.append(ended, calls.launched.min(initial=0))[before - 1]
    ready = np.maximum(ended_before, calls.launched)
    known = (calls.launched >= 0) & (before == until)
    return np.where(known, np.maximum(calls.start - ready, 0), 0)


def _slowed(timed: Timed, calls: DigestedCalls, compute: I64) -> I64:
    """How much longer the compute launched before each took than its like alone, since the call
    launched before it."""
    ops = timed.trace.device_ops
    launched = timed.linked.launch_time
    rows = compute[np.argsort(launched[compute], kind="stable")]
    took = (ops.end - ops.start)[rows]
    longer = np.append(0, np.cumsum(took - duration_without_collectives(timed.linked, rows)))
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
    start = np.append(ops.start[rows], never)[after]
    launched = np.append(linked.launch_time[rows], never)[after]
    ended = np.append(np.maximum.accumulate(ops.end[rows]), -never)[after - 1]
    at_once = start <= calls.end + AT_ONCE_NS
    free = (ended <= calls.end - FREE_NS) & at_once & (launched < calls.end)
    return free.astype(np.int32)


def _pieces(timed: Timed, calls: DigestedCalls) -> tuple[DigestedCalls, Pieces]:
    """The calls with what was launched before them, and that: kernels in the order of their
    launches, cut where something is sent or received."""
    sends = isin_few(calls.kind, SENDS)
    if timed.device is None or not sends.any():
        return calls, Pieces.empty()
    launches = timed.linked.launch_time
    rows = _launched_rows(timed)
    stretch = _stretches(timed, rows, np.sort(calls.launched[sends]))
    role = _roles(find_phases(timed).of_op[rows].astype(np.int32), stretch)
    known = role != Role.NONE
    rows = rows[known]
    if not len(rows):
        return calls, Pieces.empty()
    cuts = (np.diff(stretch[known]) != 0) | (np.diff(role[known]) != 0)
    first = np.flatnonzero(np.append(True, cuts))
    ops = timed.trace.device_ops
    start = np.minimum.reduceat(ops.start[rows], first)
    end = np.maximum.reduceat(ops.end[rows], first)
    pieces = Pieces.from_columns(
        {
            "start": start,
            "end": end,
            "busy": measure(timed.activity[timed.device].compute, start, end),
            "step": timed.steps.of_op[rows[first]].astype(np.int64),
            "role": role[known][first],
        }
    )
    after = np.searchsorted(launches[rows[first]], calls.launched).astype(np.int32)
    return replace(calls, after=np.where(sends, after, np.int32(0))), pieces


def _stretches(timed: Timed, rows: I64, bounds: I64) -> I64:
    """A number for each row that tells its step and between which of `bounds` it was launched."""
    step = timed.steps.of_op[rows].astype(np.int64)
    number = np.searchsorted(bounds, timed.linked.launch_time[rows], side="right")
    return number * len(timed.steps) + step


def _launched_rows(timed: Timed) -> I64:
    """Rows of the compute on the rank's device in its steps, in the order of their launches."""
    launches = timed.linked.launch_time
    rows = _compute_rows(timed)
    rows = rows[(timed.steps.of_op[rows] >= 0) & (launches[rows] >= 0)]
    return rows[np.argsort(launches[rows], kind="stable")]


def _roles(role: I32, stretch: I64) -> I32:
    """The role of each kernel. What has none has that of its neighbour in the stretch, the one
    before first."""
    at = np.arange(len(role))
    known = isin_few(role, (Role.FORWARD, Role.BACKWARD, Role.OPTIMIZER))
    before = np.maximum.accumulate(np.where(known, at, 0))
    following = np.where(known, at, len(at) - 1)
    after = np.minimum.accumulate(following[::-1])[::-1]
    is_before = known[before] & (stretch[before] == stretch)
    near = np.where(is_before, before, after)
    is_near = known[near] & (stretch[near] == stretch)
    found = np.where(is_near, role[near], Role.NONE)
    return found.astype(np.int32)


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
    ended = np.maximum.accumulate(calls.end)
    before = np.append(np.iinfo(np.int64).min, ended)[: len(calls)]
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
    return _families_of(timed, rows)


def _families_of(timed: Timed, rows: I64) -> tuple[Family, ...]:
    """The kernels of these rows by name, those that take longest first; the rest as one."""
    ops = timed.trace.device_ops
    names = Groups.of(ops.name[rows])
    time = names.sum(ops.end[rows] - ops.start[rows])
    blocks = np.maximum(ops.blocks[rows], 0).astype(np.int64)
    threads = blocks * np.maximum(ops.threads[rows], 0)
    known = names.sum(threads > 0) == names.count
    total = names.sum(threads)
    order = np.argsort(-time, kind="stable")
    name = ops.name[rows[names.first]]
    families = [
        Family(
            cut(timed.trace.text(int(name[i])) or "", 60),
            int(names.count[i]),
            int(time[i]),
            int(total[i]) if known[i] else -1,
        )
        for i in order[:MOST_FAMILIES].tolist()
    ]
    rest = order[MOST_FAMILIES:]
    if len(rest):
        counted = int(total[rest].sum()) if known[rest].all() else -1
        launched = int(names.count[rest].sum())
        families.append(Family(OTHERS, launched, int(time[rest].sum()), counted))
    return tuple(families)
