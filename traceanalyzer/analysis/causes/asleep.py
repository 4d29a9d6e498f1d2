"""Calls to the operating system in which a thread of the host sleeps until there is something to do."""

import numpy as np

from traceanalyzer.analysis.algebra import IntervalSet, texts_where, union
from traceanalyzer.analysis.time.timed import Timed
from traceanalyzer.base import dataclass, regex
from traceanalyzer.trace import RangeKind, distinct

MIN_GAP_NS = 1_000_000
"""Shorter gaps are dispatch: locks are taken then, and soon had."""
_MOST_SHARE = 0.8
"""Of a gap: so much of it the thread sleeps in calls of these names."""
_SLEEPS = regex(
    r"p?poll|epoll_p?wait2?|p?select|kevent|nanosleep|clock_nanosleep|u?sleep|futex|flock"
    r"|sem_(?:timed|clock)?wait|pthread_(?:cond|rwlock|mutex)_\w+|pthread_join|pthread_barrier_wait"
    r"|recv(?:from|m?msg)?|accept4?|connect|wait(?:pid|id|3|4)?|sigwait\w*|sigtimedwait|pause|mq_(?:timed)?receive"
)


@dataclass(frozen=True, eq=False)
class SleepingCalls:
    """When each thread slept, by the call in which it did."""

    by_call: dict[tuple[int, str], IntervalSet]


def sleeping_calls(timed: Timed) -> SleepingCalls:
    """The calls of threads that launch work or mark steps."""
    ranges = timed.trace.host_ranges
    named = texts_where(timed.trace.strings, _SLEEPS.fullmatch)
    rows = np.flatnonzero((ranges.kind == RangeKind.OS) & named[ranges.name])
    found = {}
    for thread in distinct(ranges.thread[rows]).tolist():
        of_thread = rows[ranges.thread[rows] == thread]
        for code in distinct(ranges.name[of_thread]).tolist():
            own = of_thread[ranges.name[of_thread] == code]
            name = timed.trace.strings[code]
            found[thread, name] = union(ranges.start[own], ranges.end[own])
    return SleepingCalls(found)


def asleep_in(timed: Timed, thread: int, start: int, end: int) -> str:
    """The call in which a thread sleeps for most of a gap (`poll`); empty where it does not, or
    that was not recorded."""
    if end - start < MIN_GAP_NS:
        return ""
    calls = timed.memo(sleeping_calls).by_call
    spent = {
        name: covered.total_within((start, end))
        for (of_thread, name), covered in calls.items()
        if of_thread == thread
    }
    if sum(spent.values()) < _MOST_SHARE * (end - start):
        return ""
    return max(spent, key=spent.__getitem__)
