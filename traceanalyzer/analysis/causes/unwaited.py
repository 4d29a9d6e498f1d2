"""What would be left of a device's idle gaps if the host had never waited for the device.

Every launch then comes earlier by all the time that the host had spent in waits before it, but the host is no more
launches ahead than the queue holds. Each stretch of device work between two gaps keeps its length; it begins when the
stretch before it has ended and its first op has been launched. Such a schedule is a running maximum: no loop over ops.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from traceanalyzer.analysis.algebra.intervals import covered_before, union
from traceanalyzer.analysis.algebra.lean import lean
from traceanalyzer.analysis.algebra.lookup import at, blocks, places
from traceanalyzer.analysis.algebra.ordering import is_sorted
from traceanalyzer.analysis.causes.dependencies import NEVER
from traceanalyzer.analysis.causes.start import Bound
from traceanalyzer.analysis.time.launch_queue import QUEUE_DEPTH

if TYPE_CHECKING:
    from traceanalyzer.analysis.causes.started import Started
    from traceanalyzer.trace import I32, I64


def gaps_without_waits(started: Started, start: I64, end: I64, next_op: I32 | I64) -> I64:
    """Lengths that the gaps between ops of one device (in time order, each with the op that ends it) would have, ns."""
    if not len(start) or not len(started.host_waits.call):
        return end - start
    launched, position = _in_launch_order(started, int(next_op[0]))
    position = position[next_op]
    late = (started.bindings.by[next_op] == Bound.LAUNCH) & (position >= 0)
    host, stretch, offset = _launches(started, launched, start, end)
    del launched
    return _schedule(
        host=host,
        stretch=stretch,
        offset=offset,
        first=np.where(late, position, np.int32(-1)),
        latency=lean(end - started.launch_time[next_op]),
        pause=lean(np.where(late, 0, end - start)),
        busy=lean(np.append(start[1:], end[-1]) - end),
        begin=int(start[0]),
    )


def _in_launch_order(started: Started, op: int) -> tuple[I32, I32]:
    """The ops of this one's device whose launch is known, in the order of their launches, and for each op its position
    among them, -1 for others."""
    ops, launch_time = started.trace.device_ops, started.launch_time
    launched = np.flatnonzero((ops.device == ops.device[op]) & (launch_time >= 0)).astype(np.int32)
    if not is_sorted(launch_time[launched]):
        launched = launched[np.argsort(launch_time[launched], kind="stable")]
    position = np.full(len(ops), -1, np.int32)
    position[launched] = np.arange(len(launched), dtype=np.int32)
    return launched, position


def _launches(started: Started, launched: I32, start: I64, end: I64) -> tuple[I64, I32, I32 | I64]:
    """What `_schedule` wants to know of each of these ops' launches; `start` and `end` are the gaps'."""
    calls, waits = started.trace.api_calls, started.host_waits
    waited = union(calls.start[waits.call], calls.end[waits.call])
    host, stretch = started.launch_time[launched], np.empty(len(launched), np.int32)
    offset = np.empty(len(launched), np.int64)
    for here in blocks(len(launched)):
        begin = started.trace.device_ops.start[launched[here]]
        stretch[here] = places(end, begin, side="right")
        offset[here] = begin - at(end, stretch[here] - 1, start[0])
        host[here] -= covered_before(waited, host[here])
    return host, stretch, lean(offset)


def _schedule(
    *,
    host: I64,
    stretch: I32,
    offset: I32 | I64,
    first: I32,
    latency: I32 | I64,
    pause: I32 | I64,
    busy: I32 | I64,
    begin: int,
) -> I64:
    """Gaps of the earliest schedule.

    Of each launch: when the host makes it at the earliest (moved to when the queue has room), the stretch of its op (0
    is before the first gap) and how long after the stretch's beginning the op starts. Of each gap: the launch of the op
    after it (-1: it does not bind), the latency from that launch, the least pause, and how long the stretch after it
    lasts. `begin`: end of stretch 0.
    """
    begun, remaining = np.full(len(busy) + 1, begin), np.empty(len(busy), np.int64)
    turn = np.maximum.accumulate(np.maximum(first, 0)) // QUEUE_DEPTH
    ended, held = begin, NEVER
    edges = np.searchsorted(turn, np.arange(int(turn[-1]) + 2, dtype=turn.dtype)).tolist()
    for chunk, (low, high) in enumerate(pairwise(edges)):
        here = slice(chunk * QUEUE_DEPTH, (chunk + 1) * QUEUE_DEPTH)
        if chunk:
            # The op launched a whole queue before has to begin before the next can be launched.
            before = slice(here.start - QUEUE_DEPTH, here.start - QUEUE_DEPTH + len(host[here]))
            known = stretch[before] <= low
            room = np.where(known, begun[stretch[before]] + offset[before], NEVER) - host[here]
            blocked = np.maximum.accumulate(np.maximum(room, held))
            held = int(blocked[-1])
            host[here] += np.maximum(blocked, 0)
        if high == low:
            continue
        gaps = slice(low, high)
        ready = np.where(first[gaps] >= 0, host[first[gaps]] + latency[gaps], NEVER)
        least = np.add(pause[gaps], busy[gaps], dtype=np.int64)
        done = np.cumsum(least)
        end = np.maximum.accumulate(np.maximum(ready - pause[gaps] - (done - least), ended)) + done
        begun[low + 1 : high + 1] = end - busy[gaps]
        remaining[gaps] = begun[low + 1 : high + 1] - np.append(ended, end[:-1])
        ended = int(end[-1])
    return remaining
