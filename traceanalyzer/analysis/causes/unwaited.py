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
    schedule = _EarliestSchedule(
        host,
        first,
        _InAdvance(launches, len(host)),
        _InAdvance(gaps, len(first)),
        int(start[0]),
    )
    yield from schedule.gap_lengths()


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


class _EarliestSchedule:
    """When the stretches of device work between the gaps begin at the earliest. The host launches,
    and the device runs, one queue of launches after the other."""

    def __init__(
        self,
        host: I64,
        launch: I32,
        launches: Callable[[slice], tuple[I64, ...]],
        gaps: Callable[[slice], tuple[I64, ...]],
        begin: int,
    ) -> None:
        """`host`: when the host makes each launch at the earliest (moved to when the queue has
        room); `launch`: for each gap the launch of the op after it (-1: it does not bind).
        `launches`: of some launches the stretch of each one's op (0 is before the first gap) and
        how long after the stretch's beginning the op starts. `gaps`: of some gaps the latency from
        that launch, the least pause, and how long the stretch after it lasts. `begin`: end of
        stretch 0."""
        self._host = host
        self._launch = launch
        self._launches = launches
        self._gaps = gaps
        self._begun = np.full(len(launch) + 1, begin)  # of each stretch
        self._ended = begin  # the last stretch that has run
        self._late = NEVER  # how far a full queue has moved the last launch

    def gap_lengths(self) -> Iterator[tuple[slice, I64]]:
        """Lengths of the gaps, ns, some at a time."""
        for number, (low, high) in enumerate(pairwise(self._gaps_by_queue())):
            queue = slice(number * QUEUE_DEPTH, (number + 1) * QUEUE_DEPTH)
            if number:
                self._wait_for_room(queue, low)
            if low < high:
                yield slice(low, high), self._run(slice(low, high))

    def _gaps_by_queue(self) -> list[int]:
        """Where the gaps that each queue of launches ends begin; and where the last ends."""
        queue = np.maximum.accumulate(np.maximum(self._launch, 0))
        queue //= QUEUE_DEPTH
        numbers = np.arange(int(queue[-1]) + 2, dtype=queue.dtype)
        return np.searchsorted(queue, numbers).tolist()

    def _wait_for_room(self, queue: slice, run: int) -> None:
        """Move the launches of a queue: the op launched a whole queue before has to begin first.
        The stretches up to `run` have."""
        before = queue.start - QUEUE_DEPTH
        stretch, offset = self._launches(slice(before, before + len(self._host[queue])))
        room = np.where(stretch <= run, self._begun[stretch] + offset, NEVER)
        late = np.maximum.accumulate(np.maximum(room - self._host[queue], self._late))
        self._late = int(late[-1])
        self._host[queue] += np.maximum(late, 0)

    def _run(self, part: slice) -> I64:
        """Run the stretches after these gaps; the lengths of the gaps, ns."""
        launch = self._launch[part]
        latency, pause, busy = self._gaps(part)
        ready = np.where(launch >= 0, self._host[launch] + latency, NEVER)
        least = pause + busy
        done = np.cumsum(least)
        end = np.maximum.accumulate(np.maximum(ready - pause - (done - least), self._ended)) + done
        begun = end - busy
        lengths = begun - np.append(self._ended, end[:-1])
        self._begun[part.start + 1 : part.stop + 1] = begun
        self._ended = int(end[-1])
        return lengths
