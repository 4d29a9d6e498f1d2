"""What would be left of a device's idle gaps if the host had never waited for the device.

Every launch then comes earlier by all the time that the host had spent in waits before it, but the
host is no more launches ahead than the queue holds. Each stretch of device work between two gaps
keeps its length; it begins when the stretch before it has ended and its first op has been launched.
Such a schedule is a running maximum: no loop over ops.
"""

from collections.abc import Callable, Iterator
from itertools import pairwise

import numpy as np

from traceanalyzer.analysis.algebra import at, covered_before, local_searchsorted, union
from traceanalyzer.analysis.algebra.blocks import blocks
from traceanalyzer.analysis.causes.dependencies import NEVER
from traceanalyzer.analysis.causes.start import StartBound
from traceanalyzer.analysis.causes.started import LaunchEdges
from traceanalyzer.analysis.time.launch_queue import QUEUE_DEPTH
from traceanalyzer.trace import I32, I64, is_sorted

AT_ONCE = 1 << 19
"""Launches that are moved at once: for each of so many the lengths of all waits are added up
again."""
MADE_AT_ONCE = 1 << 14
"""Launches, and gaps, whose times are looked up at once."""


def gaps_without_waits(
    started: LaunchEdges, start: I64, end: I64, next_op: I32 | I64
) -> Iterator[tuple[slice, I64]]:
    """Lengths that the gaps between ops of one device (in time order, each with the op that ends
    it) would have, ns; some at a time, with which they are."""
    if not len(start) or not len(started.host_waits.call):
        yield slice(0, len(start)), end - start
        return
    ops = started.trace.device_ops
    launch_time = started.linked.launch_time
    launched, position = _in_launch_order(started, int(next_op[0]))
    first = position[next_op]
    first[started.bindings.by[next_op] != StartBound.LAUNCH] = -1
    del position

    def launches(part: slice) -> tuple[I64, I64]:
        begin = ops.start[launched[part]]
        stretch = local_searchsorted(end, begin, side="right")
        return stretch, begin - at(end, stretch - 1, start[0])

    def gaps(part: slice) -> tuple[I64, I64, I64]:
        ended = end[part]
        following = np.append(start[part.start + 1 : part.stop + 1], end[-1])[: len(ended)]
        return (
            ended - launch_time[next_op[part]],
            np.where(first[part] >= 0, 0, ended - start[part]),
            following - ended,
        )

    calls = started.trace.api_calls
    held = started.host_waits.call
    host = launch_time[launched]
    waits = union(calls.start[held], calls.end[held])
    for block in blocks(len(host), AT_ONCE):
        host[block] -= covered_before(waits, host[block])
    yield from _schedule(
        host,
        first,
        _InAdvance(launches, len(host)),
        _InAdvance(gaps, len(first)),
        int(start[0]),
    )


class _InAdvance:
    """Columns that are asked for a queue at a time, in order, and made for many queues at once."""

    def __init__(self, make: Callable[[slice], tuple[I64, ...]], count: int) -> None:
        self._make = make
        self._count = count
        self._made = slice(0, 0)
        self._columns: tuple[I64, ...] = ()

    def __call__(self, part: slice) -> tuple[I64, ...]:
        if part.stop > self._made.stop:
            least = part.start + MADE_AT_ONCE
            self._made = slice(part.start, min(max(least, part.stop), self._count))
            self._columns = self._make(self._made)
        first = self._made.start
        return tuple(column[part.start - first : part.stop - first] for column in self._columns)


def _in_launch_order(started: LaunchEdges, op: int) -> tuple[I32, I32]:
    """This op's device's ops whose launch is known, in its order, and each op's position among them
    (-1: others)."""
    ops = started.trace.device_ops
    launch_time = started.linked.launch_time
    launched = np.flatnonzero((ops.device == ops.device[op]) & (launch_time >= 0)).astype(np.int32)
    if not is_sorted(launch_time[launched]):
        launched = launched[np.argsort(launch_time[launched], kind="stable")]
    position = np.full(len(ops), -1, np.int32)
    position[launched] = np.arange(len(launched), dtype=np.int32)
    return launched, position


def _schedule(
    host: I64,
    first: I32,
    launches: Callable[[slice], tuple[I64, ...]],
    gaps: Callable[[slice], tuple[I64, ...]],
    begin: int,
) -> Iterator[tuple[slice, I64]]:
    """Gaps of the earliest schedule, some at a time.

    `host`: when the host makes each launch at the earliest (moved to when the queue has room);
    `first`: for each gap the launch of the op after it (-1: it does not bind). `launches`: of some
    launches the stretch of each one's op (0 is before the first gap) and how long after the
    stretch's beginning the op starts. `gaps`: of some gaps the latency from that launch, the least
    pause, and how long the stretch after it lasts. `begin`: end of stretch 0."""
    turn = np.maximum.accumulate(np.maximum(first, 0))
    turn //= QUEUE_DEPTH
    edges = np.searchsorted(turn, np.arange(int(turn[-1]) + 2, dtype=turn.dtype)).tolist()
    del turn
    begun = np.full(len(first) + 1, begin)
    ended = begin
    held = NEVER
    for chunk, (low, high) in enumerate(pairwise(edges)):
        queue = slice(chunk * QUEUE_DEPTH, (chunk + 1) * QUEUE_DEPTH)
        if chunk:
            # The op launched a whole queue before has to begin before the next can be launched.
            stretch, offset = launches(
                slice(queue.start - QUEUE_DEPTH, queue.start - QUEUE_DEPTH + len(host[queue]))
            )
            room = np.where(stretch <= low, begun[stretch] + offset, NEVER) - host[queue]
            blocked = np.maximum.accumulate(np.maximum(room, held))
            held = int(blocked[-1])
            host[queue] += np.maximum(blocked, 0)
        if high == low:
            continue
        launch = first[low:high]
        latency, pause, busy = gaps(slice(low, high))
        ready = np.where(launch >= 0, host[launch] + latency, NEVER)
        least = pause + busy
        done = np.cumsum(least)
        end = np.maximum.accumulate(np.maximum(ready - pause - (done - least), ended)) + done
        begun[low + 1 : high + 1] = end - busy
        yield slice(low, high), begun[low + 1 : high + 1] - np.append(ended, end[:-1])
        ended = int(end[-1])
