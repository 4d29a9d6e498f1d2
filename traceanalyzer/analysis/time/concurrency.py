"""Kernels side by side: how much of the time that a GPU runs kernels it runs more than one."""

import numpy as np

from traceanalyzer.analysis.algebra.intervals import EMPTY, IntervalSet, union
from traceanalyzer.analysis.time.timed import Timed
from traceanalyzer.trace import I64, DeviceOpKind


def concurrent_kernel_share(timed: Timed) -> float | None:
    """Share of the time with a kernel, in the steady steps on the step's device, that has two or more; None without
    kernels, and where whole graphs hide theirs."""
    ops = timed.trace.device_ops
    here = (ops.device == timed.device) if timed.device is not None else np.zeros(len(ops), bool)
    kernels = here & timed.linked.is_kernel
    if not kernels.any() or (here & timed.steady_ops & (ops.kind == DeviceOpKind.GRAPH)).any():
        return None
    window = int(timed.steps.start[timed.steps.warmup]), int(timed.steps.end[-1])
    start, end = ops.start[kernels], ops.end[kernels]
    any_ = union(start, end).total_within(window)
    return side_by_side(start, end).total_within(window) / any_ if any_ else None


def side_by_side(start: I64, end: I64) -> IntervalSet:
    """The time that at least two of these intervals cover."""
    if (start[1:] >= end[:-1]).all():
        return EMPTY
    times = np.concatenate((start, end))
    change = np.repeat(np.array([1, -1]), len(start))
    order = np.lexsort((change, times))  # what ends at a moment has ended before another begins
    open_ = np.cumsum(change[order])
    several = np.flatnonzero(open_[:-1] > 1)
    return union(times[order][several], times[order][several + 1])
