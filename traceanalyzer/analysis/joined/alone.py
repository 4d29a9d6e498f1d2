"""What compute would take without collectives beside it."""

import numpy as np

from traceanalyzer.analysis.algebra import Groups, measure, union
from traceanalyzer.analysis.joined.linked import TraceJoins
from traceanalyzer.trace import I64

SLOWED_SHARE = 0.3
"""By this share of the time that it spends beside a collective a kernel is longer for it, where no
kernel of its like tells: seven kernels of four programs on two GPUs, each recorded with and without
a collective beside it, were slowed by 0.20 to 0.44 of their time, 0.29 in the mean."""


def alone(linked: TraceJoins, chosen: I64) -> I64:
    """Duration of each op, for compute beside a collective that of its like (same name, blocks and
    bytes) that no collective touched, ns: one that shares some of its time with a collective has
    fewer multiprocessors for all of it, as its blocks come in waves. Where all of its like are
    beside collectives, what such kernels usually take without."""
    all_ops = linked.trace.device_ops
    collective = union(all_ops.start[linked.is_communication], all_ops.end[linked.is_communication])
    ops = all_ops.take(chosen)
    beside_ns = measure(collective, ops.start, ops.end)
    beside = beside_ns > 0
    duration = ops.end - ops.start
    slowed = beside & ~linked.is_communication[chosen]
    result = duration.copy()
    if not slowed.any():
        return result
    for rows in Groups.of(ops.name, ops.blocks, ops.bytes).rows:
        chosen_rows = rows[slowed[rows]]
        free = rows[~beside[rows]]
        if len(chosen_rows) and len(free):
            result[chosen_rows] = np.minimum(duration[chosen_rows], int(np.median(duration[free])))
        elif len(chosen_rows):
            less_ns = SLOWED_SHARE * beside_ns[chosen_rows] * linked.is_kernel[chosen[chosen_rows]]
            result[chosen_rows] = duration[chosen_rows] - np.rint(less_ns).astype(np.int64)
    return result
