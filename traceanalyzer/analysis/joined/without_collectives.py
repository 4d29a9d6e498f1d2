"""What compute would take without collectives beside it."""

import numpy as np

from traceanalyzer.analysis.algebra import Groups, measure, union
from traceanalyzer.analysis.joined.linked import TraceJoins
from traceanalyzer.trace import I64


def duration_without_collectives(linked: TraceJoins, chosen: I64) -> I64:
    """Duration of each op, for compute beside a collective that of its like (same name, blocks and
    bytes) that no collective touched, ns: one that shares some of its time with a collective has
    fewer multiprocessors for all of it, as its blocks come in waves."""
    all_ops = linked.trace.device_ops
    collective = union(all_ops.start[linked.is_communication], all_ops.end[linked.is_communication])
    ops = all_ops.take(chosen)
    beside = measure(collective, ops.start, ops.end) > 0
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
    return result
