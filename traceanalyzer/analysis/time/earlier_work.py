"""Work of the GPU that a server launched before the recording began: its iterations overlap on the host,
and the first recorded one waits in its stream for the one before it."""

import numpy as np

from traceanalyzer.analysis.joined.linked import TraceJoins
from traceanalyzer.trace import I32, I64

LONG_QUEUED_NS = 1_000_000
"""An op that was launched so long before it begins, on an idle GPU, waits for work that was not
recorded: queues take it up within 10 us."""
LEADING_SHARE = 0.05
"""What runs before is a scheduler's small ops on a stream of their own, less of the iteration's work than
this."""


def ended_at(linked: TraceJoins, of_op: I32) -> int | None:
    """When the work that was launched before the recording had ended, ns; None where the first
    iteration did not wait for any. `of_op`: the iteration of each device op."""
    ops = linked.trace.device_ops
    rows = np.flatnonzero(of_op == 0)
    if len(rows) < 2:
        return None
    device = ops.device[rows[0]]
    rows = rows[ops.device[rows] == device]
    reach = np.maximum.accumulate(ops.end[rows])
    idle = ops.start[rows][1:] - reach[:-1]
    late = np.flatnonzero(idle >= LONG_QUEUED_NS)[:1]
    if not len(late):
        return None
    op = int(rows[late[0] + 1])
    idle_since = int(reach[late[0]])
    before = rows[: late[0] + 1]
    work_ns = (ops.end[rows] - ops.start[rows]).sum()
    leading_ns = (ops.end[before] - ops.start[before]).sum()
    is_small = leading_ns <= LEADING_SHARE * work_ns
    if is_small and _waits_in_its_stream(linked, op, idle_since) and _is_first(linked, op):
        return int(ops.start[op])
    return None


def without_leading(linked: TraceJoins, of_op: I32) -> I32:
    """The iteration of each device op; -1 for ops of the first that ran beside that earlier work."""
    moment = ended_at(linked, of_op)
    if moment is None:
        return of_op
    leading = (of_op == 0) & (linked.trace.device_ops.start < moment)
    return np.where(leading, -1, of_op).astype(np.int32)


def _waits_in_its_stream(linked: TraceJoins, op: int, idle_since: int) -> bool:
    """Whether an op had been launched while the GPU was idle, and long before it began."""
    call = int(linked.launch[op])
    if call < 0:
        return False
    launched = max(int(linked.trace.api_calls.start[call]), idle_since)
    return int(linked.trace.device_ops.start[op]) - launched >= LONG_QUEUED_NS


def _is_first(linked: TraceJoins, op: int) -> bool:
    """Whether nothing before it was recorded in its stream."""
    ops = linked.trace.device_ops
    same: I64 = np.flatnonzero(
        (ops.device == ops.device[op])
        & (ops.stream == ops.stream[op])
        & (ops.start < ops.start[op])
    )
    return not len(same)
