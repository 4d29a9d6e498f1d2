"""Why a rank was late: what it did in each step, between its collectives, and which kernels it ran."""

import numpy as np

from traceanalyzer.analysis.algebra import Groups, measure, union
from traceanalyzer.analysis.causes.causes import Causes
from traceanalyzer.analysis.causes.gaps import idle_by_cause
from traceanalyzer.analysis.causes.idle_cause import IdleCause
from traceanalyzer.analysis.ranks.digest import DigestedCalls, Family, Why
from traceanalyzer.analysis.time.timed import Timed
from traceanalyzer.base import cut
from traceanalyzer.trace import I64

MOST_FAMILIES = 12
"""Kernels by name that take most of the time; the rest is one."""
OTHERS = "other kernels"
_NAME = 60


def why_of(causes: Causes, calls: DigestedCalls) -> Why | None:
    """What a rank did in its steps and before each of its calls; None without work on a device."""
    timed = causes.timed
    if timed.device is None:
        return None
    activity, steps, gaps = timed.activity[timed.device], timed.steps, causes.gaps
    begin = _free_from(timed, calls)
    idle = idle_by_cause(timed, gaps, timed.device)
    here = gaps.device == timed.device
    return Why(
        exposed_communication=measure(activity.exposed_communication, steps.start, steps.end),
        exposed_copy=measure(activity.exposed_copy, steps.start, steps.end),
        idle=np.stack([idle[cause] for cause in IdleCause]),
        compute_before=measure(activity.compute, begin, calls.start),
        idle_before=np.stack(
            [
                measure(union(gaps.start[rows], gaps.end[rows]), begin, calls.start)
                for rows in (here & (gaps.cause == cause) for cause in IdleCause)
            ]
        ),
        families=_families(timed),
        clock_mhz=_clock(timed),
    )


def _free_from(timed: Timed, calls: DigestedCalls) -> I64:
    """When the rank's communication before each call had ended; its step began, for the first of a step."""
    ended = np.maximum.accumulate(calls.end)
    before = np.append(ended[:1] * 0 + np.iinfo(np.int64).min, ended[:-1])[: len(calls)]
    return np.minimum(np.maximum(before, timed.steps.start[calls.step]), calls.start)


def _families(timed: Timed) -> tuple[Family, ...]:
    ops, linked = timed.trace.device_ops, timed.linked
    rows = np.flatnonzero((ops.device == timed.device) & linked.is_compute & linked.is_kernel & timed.steady_ops)
    names = Groups.of(ops.name[rows])
    time = names.sum(ops.end[rows] - ops.start[rows])
    threads = np.maximum(ops.blocks[rows], 0).astype(np.int64) * np.maximum(ops.threads[rows], 0)
    known, total = names.sum(threads > 0) == names.count, names.sum(threads)
    order = np.argsort(-time, kind="stable")
    made = [
        Family(cut(timed.trace.text(int(ops.name[rows[names.first[i]]])) or "", _NAME), int(names.count[i]),
               int(time[i]), int(total[i]) if known[i] else -1)
        for i in order[:MOST_FAMILIES].tolist()
    ]  # fmt: skip
    rest = order[MOST_FAMILIES:]
    if len(rest):
        counted = int(total[rest].sum()) if known[rest].all() else -1
        made.append(Family(OTHERS, int(names.count[rest].sum()), int(time[rest].sum()), counted))
    return tuple(made)


def _clock(timed: Timed) -> float | None:
    name = f"GPU {timed.device}: SM clock"
    return next((load.mean for load in timed.trace.loads if load.what == name), None)
