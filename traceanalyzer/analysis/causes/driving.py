"""Which launching thread drives the device at a moment, and in which range or call it then is."""

from typing import NamedTuple

import numpy as np

from traceanalyzer.analysis.algebra import IntervalSet, intersect, overlaps, subtract
from traceanalyzer.analysis.time.host_timeline import HostState
from traceanalyzer.analysis.time.timed import Timed
from traceanalyzer.trace import I32, I64, U8

PROFILER_STATE = len(HostState)  # state of a stretch that is the profiler's own
NO_STATE = (
    PROFILER_STATE + 1
)  # state of a stretch for which no launching thread has anything recorded


class Stretches(NamedTuple):
    """Stretches of the host's time, disjoint, in no particular order."""

    start: I64
    end: I64
    state: U8  # `HostState` of the process, `PROFILER_STATE` or `NO_STATE`
    node: I32  # innermost node of the host tree of the thread that is in this state; -1 outside all


def driving(timed: Timed, within: IntervalSet) -> Stretches:
    """The intervals cut into stretches of one state and node; nothing of them is left out.

    At each moment the most productive launching thread counts (see `HostTimeline`)."""
    window = (int(within.start[0]), int(within.end[-1])) if len(within.start) else (0, 0)
    profiler = intersect(within, timed.timeline.profiler)
    left = subtract(within, profiler)
    parts = [(profiler, PROFILER_STATE, np.full(len(profiler.start), -1, np.int32))]
    cuts = [thread.pieces.within(*window) for thread in timed.timeline.threads]
    for state in HostState:
        for thread, cut in zip(timed.timeline.threads, cuts, strict=True):
            claimed = thread.in_state(state, window)
            if not len(claimed.start):
                continue
            piece, found = overlaps(intersect(left, claimed), IntervalSet(cut.start, cut.end))
            parts.append((found, state, cut.node[piece]))
            del piece, found
            left = subtract(left, claimed)
    parts.append((left, NO_STATE, np.full(len(left.start), -1, np.int32)))
    return Stretches(
        start=np.concatenate([found.start for found, _, _ in parts]),
        end=np.concatenate([found.end for found, _, _ in parts]),
        state=np.repeat(
            np.array([state for _, state, _ in parts], np.uint8),
            [len(node) for _, _, node in parts],
        ),
        node=np.concatenate([node for _, _, node in parts]),
    )
