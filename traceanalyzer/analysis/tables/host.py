"""How busy the host threads are that feed the device: the step can be no shorter than their own work."""

from __future__ import annotations

import numpy as np

from traceanalyzer.analysis.algebra.intervals import measure
from traceanalyzer.analysis.time.host_timeline import HostState
from traceanalyzer.analysis.time.timed import Timed
from traceanalyzer.base.figures import metric, ms
from traceanalyzer.base.frozen import dataclass


@dataclass(frozen=True)
class HostStats:
    """Time of the threads that launch device work, a step; a moment counts once, by the most productive thread."""

    dispatch_ms: float = metric("running operators and issuing calls, with short Python between them", "ms")
    sync_ms: float = metric("blocked until device work ends", "ms")
    input_ms: float = metric("loading or waiting for input data", "ms")
    communication_ms: float = metric("stuck in communication operators", "ms")
    allocate_ms: float = metric("allocating or freeing memory", "ms")
    work_ms: float = metric("stretches of 0.1 ms and more without operator or call: Python, I/O, CPU operators", "ms")
    floor_ms: float = metric("CPU time per step without syncs: a lower bound for the step", "ms")


def host_stats(timed: Timed) -> HostStats | None:
    """Host time a steady step; None where launches were not recorded."""
    if not (timed.linked.launch >= 0).any():
        return None
    steps = timed.steps
    end = steps.host_end[steps.steady]
    # A host range longer than its step holds the recorder's own start-up, which the step's window leaves out.
    start = np.maximum(steps.host_start[steps.steady], end - steps.duration[steps.steady])
    spent = {
        state: ms(measure(covered, start, end).sum() / steps.steady_count)
        for state, covered in timed.timeline.states.items()
    }
    return HostStats(
        dispatch_ms=spent[HostState.DISPATCH],
        sync_ms=spent[HostState.SYNC],
        input_ms=spent[HostState.INPUT],
        communication_ms=spent[HostState.COMMUNICATION],
        allocate_ms=spent[HostState.ALLOCATE],
        work_ms=spent[HostState.WORK],
        floor_ms=sum(spent.values()) - spent[HostState.SYNC],
    )
