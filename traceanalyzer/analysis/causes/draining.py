"""Waits of the host that leave the device's queue empty, and whether they are what it waits for."""

from typing import NamedTuple

import numpy as np

from traceanalyzer.analysis.algebra import at, isin, local_searchsorted, measure
from traceanalyzer.analysis.causes.started import LaunchEdges
from traceanalyzer.analysis.joined.blocking import feeding_calls, searching_calls
from traceanalyzer.analysis.joined.joined import Joined
from traceanalyzer.analysis.time.host_timeline import HostState
from traceanalyzer.analysis.time.timed import Timed
from traceanalyzer.trace import I32, I64, Bool, distinct, narrowed

REFILL_LAUNCHES = 16
"""After the host waited for the device the queue is empty, and the next launches are exposed
however fast they are; a host that is faster than the device is ahead again after about this
many."""
UNPROFILED_SHARE = 0.55
UNPROFILED_SHARE_WITH_STACKS = 0.5
"""Of the host's dispatch as recorded this is left without a profiler (docs/accuracy.md)."""
TOO_SLOW = 2.0
"""A host that needs this many times the device's busy time to launch a step cannot get ahead of the
device."""


class DrainingWaits(NamedTuple):
    """The blocking calls in the order of their ends."""

    call: I32
    end: I64
    launched: I32  # how many ops had been launched before its end
    emptied: Bool  # whether the device had then done all of them
    found_work: Bool  # whether it still had some when the call began


def only_searches(timed: Timed) -> bool:
    """Whether the host waits within the steps, and only while a library chooses its algorithms."""
    waits = np.flatnonzero(timed.joined.blocks & timed.steady_calls)
    return len(waits) > 0 and bool(isin(waits, searching_calls(timed.linked)).all())


def could_be_ahead(timed: Timed) -> bool:
    """Whether the host, without profiler and waits, launches fast enough to be ahead: else waits
    take nothing away."""
    if timed.device is None:
        return False
    steps = timed.steps
    within = steps.host_start[steps.steady], steps.host_end[steps.steady]
    dispatch = measure(timed.timeline.states[HostState.DISPATCH], *within).sum()
    busy = measure(
        timed.activity[timed.device].busy, steps.start[steps.steady], steps.end[steps.steady]
    ).sum()
    left = UNPROFILED_SHARE_WITH_STACKS if timed.trace.collected.stacks else UNPROFILED_SHARE
    return left * dispatch <= TOO_SLOW * busy


def keeps_waiting(timed: Timed) -> bool:
    """Whether the steps hold a wait for every few launches, so that the queue never fills: the
    waits are then what can be changed, whatever the host's speed, and however soon each is over.
    A copy from pageable memory is no such wait: the program waits for no result there."""
    blocking = timed.joined.blocks & timed.steady_calls
    waits = int((blocking & ~timed.linked.memo(feeding_calls)).sum())
    launches = distinct(timed.linked.launch[timed.steady_ops & (timed.linked.launch >= 0)])
    return waits > 1 and len(launches) <= REFILL_LAUNCHES * waits


def drained_by(timed: LaunchEdges, launch: I64) -> I64:
    """The blocking call that had emptied the device's queue shortly before each launch, -1 if there
    is none."""
    waits = timed.memo(_draining)
    index = local_searchsorted(waits.end, launch, side="right") - 1
    since = timed.linked.launched_before(launch) - at(waits.launched, index, 0)
    return np.where((index >= 0) & (since < REFILL_LAUNCHES), at(waits.call, index, -1), -1)


def _draining(timed: LaunchEdges) -> DrainingWaits:
    """The blocking calls that had emptied the queue; those that found it idle only if the program
    keeps waiting."""
    waits = timed.joined.memo(waits_by_end)
    chosen = waits.emptied if timed.timed.memo(keeps_waiting) else waits.emptied & waits.found_work
    return waits if chosen.all() else DrainingWaits._make(column[chosen] for column in waits)


def waits_by_end(joined: Joined) -> DrainingWaits:
    """The blocking calls of a recording."""
    calls = joined.trace.api_calls
    blocking = np.flatnonzero(joined.blocks)
    blocking = blocking[np.argsort(calls.end[blocking], kind="stable")]
    began = calls.start[blocking]
    ended = calls.end[blocking]
    emptied = joined.linked.drained_at(ended) <= ended
    found_work = joined.linked.drained_at(began) > began
    return DrainingWaits(
        narrowed(blocking),
        ended,
        narrowed(joined.linked.launched_before(ended)),
        emptied,
        found_work,
    )
