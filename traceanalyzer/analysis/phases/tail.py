"""Exposed communication as practitioners tell it apart: the tail behind the backward pass, and what lies between."""

import numpy as np

from traceanalyzer.analysis.algebra.intervals import IntervalSet, measure
from traceanalyzer.analysis.algebra.lookup import one_of
from traceanalyzer.analysis.names.phase_names import Role
from traceanalyzer.analysis.time.timed import Timed
from traceanalyzer.trace import U8

AFTER = (Role.FORWARD, Role.OPTIMIZER)
"""What ends a tail. Other work (copies out of buckets, clipping) runs in it."""


def tail_time(timed: Timed, role_of_op: U8, device: int) -> int | None:
    """Exposed communication in steady steps after the last backward kernel before the optimizer, the next forward pass,
    or the end of the recording, ns; None where no backward pass is known."""
    ops = timed.trace.device_ops
    known = timed.linked.is_compute & (ops.device == device) & one_of(role_of_op, (Role.BACKWARD, *AFTER))
    rows = np.flatnonzero(known)
    backward = role_of_op[rows] == Role.BACKWARD
    if not backward.any():
        return None
    ends = np.flatnonzero(backward & ~np.append(backward[1:], False))
    begin = np.maximum.accumulate(np.where(backward, ops.end[rows], 0))[ends]
    until = np.append(ops.start[rows], np.iinfo(np.int64).max)[ends + 1]
    kept = until > begin
    tails = IntervalSet(begin[kept], until[kept])
    exposed = timed.activity[device].exposed_communication
    window = timed.steps.start[timed.steps.steady][0], timed.steps.end[timed.steps.steady][-1]
    start, end = np.maximum(tails.start, window[0]), np.minimum(tails.end, window[1])
    inside = end > start
    return int(measure(exposed, start[inside], end[inside]).sum())
