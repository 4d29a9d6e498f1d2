"""Which launching thread drives the device at a moment, and in which range or call it then is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from traceanalyzer.analysis.algebra.intervals import IntervalSet, intersect, overlaps, subtract
from traceanalyzer.analysis.time.host_timeline import HostState

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from traceanalyzer.analysis.time.timed import Timed
    from traceanalyzer.trace import I32, I64, U8

PROFILER_STATE = len(HostState)
"""State of a stretch that is the profiler's own."""
NO_STATE = PROFILER_STATE + 1
"""State of a stretch for which no launching thread has anything recorded."""


@dataclass(frozen=True, eq=False)
class Stretches:
    """Stretches of the host's time, disjoint, in no particular order; together they fill what they are of."""

    start: I64
    state: U8
    """`HostState` of the process, `PROFILER_STATE` or `NO_STATE`."""
    node: I32
    """Innermost node of the host tree of the thread that is in this state; -1 outside all."""


def driving(timed: Timed, within: IntervalSet) -> Stretches:
    """The intervals cut into stretches of one state and node; nothing of them is left out.

    At each moment the most productive launching thread counts (see `HostTimeline`).
    """
    profiler = intersect(within, timed.timeline.profiler)
    left = subtract(within, profiler)
    starts, states, nodes = [profiler.start], [PROFILER_STATE], [_nowhere(profiler)]
    for state in HostState:
        for pieces in timed.timeline.pieces:
            claimed = pieces.in_state(state)
            of, found = overlaps(intersect(claimed, left), IntervalSet(pieces.start, pieces.end))
            starts.append(found.start)
            states.append(state)
            nodes.append(pieces.node[of])
            del of, found
            left = subtract(left, claimed)
    starts.append(left.start)
    states.append(NO_STATE)
    nodes.append(_nowhere(left))
    del left
    lengths = [len(node) for node in nodes]
    # There are more stretches than rows of any table: nothing is kept twice.
    return Stretches(_emptied(starts), np.repeat(np.array(states, np.uint8), lengths), _emptied(nodes))


def _nowhere(intervals: IntervalSet) -> I32:
    return np.full(len(intervals.start), -1, np.int32)


def _emptied(parts: list[NDArray[Any]]) -> NDArray[Any]:
    """The parts as one; the list is empty afterwards."""
    whole = np.concatenate(parts)
    parts.clear()
    return whole
