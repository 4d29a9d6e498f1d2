"""The queue of launches between host and device: what enters it, how long it holds, and when it is
full."""

import numpy as np

from traceanalyzer.analysis.algebra import (
    IntervalSet,
    local_searchsorted,
    measure,
    rows_or_slice,
    sorted_values,
    union,
)
from traceanalyzer.analysis.joined.linked import TraceJoins
from traceanalyzer.analysis.names.api import FULL_QUEUE
from traceanalyzer.analysis.time.timed import Timed
from traceanalyzer.trace import I64, OverheadKind

QUEUE_DEPTH = 1024
"""Ops launched ahead of the device; then the next launch waits (recordings level off at 1,023)."""
QUEUED_LATENCY_NS = 100_000
"""A queued op starts within this after the one before it (kernel to kernel about 1 us, into a CUDA
graph tens); a longer wait is for something the recording does not show."""
UNEXPLAINED_NS = 1_000_000
"""An op that starts so much later than its launch call returned, on an idle device, waited for
something else: a launch takes microseconds, into a large CUDA graph hundreds."""
BLOCKED_RATIO = 10.0
"""A launch call this many times the median, made while the queue was full, was blocked by it:
without the profiler's row for it, that is the only sound evidence."""


def blocked_time(timed: Timed, launching: I64) -> I64:
    """How long each of these API calls was blocked by a full launch queue, ns."""
    calls = timed.trace.api_calls
    start = calls.start[launching]
    end = calls.end[launching]
    recorded = measure(recorded_back_pressure(timed.linked), start, end)
    if not len(launching):
        return recorded
    usual = float(np.median(end - start))
    slow = np.flatnonzero((recorded == 0) & (end - start > BLOCKED_RATIO * usual))
    queued = np.zeros(len(slow), np.int64)  # the most that a device was given and had not done
    ops = timed.trace.device_ops
    for device in timed.activity if len(slow) else ():
        rows = rows_or_slice((ops.device == device) & (timed.linked.launch >= 0))
        given = sorted_values(timed.linked.launch_time[rows])
        finished = sorted_values(ops.end[rows])
        queued = np.maximum(
            queued,
            local_searchsorted(given, start[slow])
            - local_searchsorted(finished, start[slow], side="right"),
        )
    slow = slow[queued >= FULL_QUEUE]
    recorded[slow] = (end - start)[slow] - int(usual)
    return recorded


def recorded_back_pressure(linked: TraceJoins) -> IntervalSet:
    """When the recorder saw the launch queue full (its rows name no thread)."""
    overheads = linked.trace.overheads
    rows = overheads.kind == OverheadKind.BACK_PRESSURE
    return union(overheads.start[rows], overheads.end[rows])
