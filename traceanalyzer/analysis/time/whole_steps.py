"""Which steps are all there: a recording may begin or end while the device is behind its host.

What ran at its beginning was then launched before it, and what was launched last had not run when it ended. A step of
which some work is missing has another time, and does not count.
"""

from __future__ import annotations

import numpy as np

from traceanalyzer.analysis.joined.launches import host_was_lost, last_launch, launched_before, lost_launches
from traceanalyzer.analysis.joined.linked import Linked
from traceanalyzer.analysis.time.step_evidence import HostSteps
from traceanalyzer.trace import I32, Bool
from traceanalyzer.trace.distinct import ranked

COMPLETE_SHARE = 0.95
"""A step at the end of a cut recording with less of the device work of the others has lost some."""


def whole_steps(linked: Linked, found: HostSteps, of_op: I32) -> tuple[int, int]:
    """The first step whose launched work is all in the recording, and the one after the last; equal where none is."""
    count = len(found.names)
    first, stop = 0, count
    if linked.trace.health.truncated and not found.unlike:
        stop = _until_short(of_op, count)
    lost = linked.memo(lost_launches)
    after = lost[np.searchsorted(lost, last_launch(linked), side="right") :]
    if len(after) and found.of_op is None and not host_was_lost(linked):
        stop = min(stop, int(np.searchsorted(found.end, after[0], side="right")))
    begun = bool(linked.memo(launched_before).any())
    if (begun or found.projected) and not found.unlike:
        short = _lacks_work(linked, of_op, count)
        while first < stop and short[first]:
            first += 1
        while found.projected and first < stop and short[stop - 1]:
            stop -= 1
    return first, stop


def _until_short(of_op: I32, count: int) -> int:
    """How many leading steps of a damaged recording have (nearly) as many device ops as the fullest; at least 1."""
    ops = np.bincount(of_op[of_op >= 0], minlength=count)
    short = np.flatnonzero(ops < COMPLETE_SHARE * ops.max())
    return max(int(short[0]), 1) if len(short) else count


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
    lacking: Bool = np.maximum(usual - number, 0) @ time > (1 - COMPLETE_SHARE) * (usual @ time)
    return lacking
