"""Which steps are all there: a recording may begin or end while the device is behind its host.

What ran at its beginning was then launched before it, and what was launched last had not run when it ended. A step of
which some work is missing has another time, and does not count.
"""

import numpy as np

from traceanalyzer.analysis.joined.launched import host_was_lost, last_launch, launched_before, lost_launches
from traceanalyzer.analysis.joined.linked import Linked
from traceanalyzer.analysis.time.step_evidence import HostSteps
from traceanalyzer.trace import I32, I64, Bool, ranked

COMPLETE_SHARE = 0.95
"""A step at the end of a cut recording with less of the device work of the others has lost some."""

LEAD_SHARE = 0.75
"""The first range on a device begins with its work; where it is so much shorter than the others, the idle time before
that is missing, or work that none of the ranges holds."""


def whole_steps(linked: Linked, found: HostSteps, of_op: I32, duration: I64) -> tuple[int, int]:
    """The first step whose launched work is all in the recording, and the one after the last; equal where none is."""
    count = len(found.names)
    first, stop = 0, count
    if linked.trace.health.truncated and not found.unlike:
        ops = np.bincount(
            of_op[of_op >= 0], minlength=count
        )  # of a damaged one those with (nearly) all ops, at least 1
        short = np.flatnonzero(ops < COMPLETE_SHARE * ops.max())
        stop = max(int(short[0]), 1) if len(short) else count
    lost = linked.memo(lost_launches)
    after = lost[np.searchsorted(lost, last_launch(linked), side="right") :]
    if len(after) and found.of_op is None and not host_was_lost(linked):
        stop = min(stop, int(np.searchsorted(found.end, after[0], side="right")))
    if found.unlike:
        return first, stop
    if found.projected:  # what is left of one that began before the recording looks whole, with no end to begin at
        time = linked.trace.device_ops.end - linked.trace.device_ops.start
        if count == 1:
            return 0, int(time[of_op == 0].sum() >= COMPLETE_SHARE * time.sum())
        lacks = _lacks_work(linked, of_op, count)
        return int(lacks[0] or duration[0] < LEAD_SHARE * np.median(duration[1:])), count - int(lacks[-1])
    if linked.memo(launched_before).any():
        whole = ~_lacks_work(linked, of_op, count)[:stop]
        first = min(np.flatnonzero(whole).tolist(), default=stop)
    return first, stop


def _lacks_work(linked: Linked, of_op: I32, count: int) -> Bool:
    """Which steps lack device ops, by name, that the others have (in the median) and that are long."""
    ops, rows = linked.trace.device_ops, np.flatnonzero(of_op >= 0)
    if not len(rows):
        return np.zeros(count, bool)
    names, name = ranked(ops.name[rows])
    number = np.bincount(of_op[rows] * np.int64(len(names)) + name, minlength=count * len(names))
    number = number.reshape(count, len(names))
    time = np.bincount(name, (ops.end - ops.start)[rows]) / number.sum(axis=0)
    usual = np.median(number, axis=0)
    return np.maximum(usual - number, 0) @ time > (1 - COMPLETE_SHARE) * (usual @ time)
