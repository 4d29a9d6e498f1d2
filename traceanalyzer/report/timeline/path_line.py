"""Where the critical path runs on a timeline: from lane to lane, and how much of it each event is."""

from __future__ import annotations

import numpy as np

from traceanalyzer.analysis.causes.critical_path import Part, joined, path_parts
from traceanalyzer.diagnosis.measurements import Measurements
from traceanalyzer.report.timeline.lanes import extent_of, shown_steps
from traceanalyzer.trace import I32, I64, Bool

MAX_STRETCHES = 6_000
"""Longest stretches on one lane that are drawn; more than a screen has pixels to tell apart."""
_OF_OP = (Part.OP, Part.LATENCY, Part.PAUSE, Part.UNKNOWN)
"""Parts of the path that are drawn where their device op is; the others are the host's."""


class ShownPath:
    """What pages show of the critical path. It has more segments than there is of anything else, so that those of other
    steps are freed at once."""

    def __init__(self, m: Measurements) -> None:
        self.of_op = np.zeros(len(m.trace.device_ops), np.int64)
        self.of_node = np.zeros(len(m.linked.tree.start), np.int64)
        extents, kept = [extent_of(m.timed.steps, step) for step in shown_steps(m.timed.steps)], []
        for part in path_parts(m.started):
            runs = part.part == Part.OP
            _add(self.of_op, part.op[runs], part.duration[runs])
            _add(self.of_node, part.node, part.duration)
            shown = [(part.end > begin) & (part.start < end) for begin, end in extents]
            kept.append(part.take(np.logical_or.reduce(shown)))
        self.segments = joined(kept)


def _add(sums: I64, rows: I32, durations: I64) -> None:
    """Add the durations of these rows, which lie near each other; those of -1 are left out."""
    known = rows >= 0
    if known.any():
        first = int(rows[known].min())
        added = np.bincount(rows[known] - first, durations[known])
        sums[first : first + len(added)] += added.astype(np.int64)


class OnPath:
    """What of the critical path each device op and host node is, and the lanes that these were given."""

    def __init__(self, m: Measurements) -> None:
        found = m.memo(ShownPath)
        self.m, self.path = m, found.segments
        self.of_op, self.of_node = found.of_op, found.of_node
        self.lane_of_op = np.full(len(found.of_op), -1, np.int64)
        self.lane_of_thread: dict[int, int] = {}
        """The outermost lane of each thread that is drawn."""

    def ended_by(self, call: I64, is_call: Bool) -> I64:
        """The device op that each of these calls waited for, -1 where it waited for none."""
        result = np.full(len(call), -1, np.int64)
        if len(self.m.trace.device_ops):
            waits = self.m.started.host_waits
            of_call = np.full(len(self.m.trace.api_calls) + 1, -1, np.int64)
            of_call[waits.call] = waits.op
            result[is_call] = of_call[call[is_call]]
        return result


def path_line(on: OnPath, extent: tuple[int, int]) -> list[tuple[int, int, int]]:
    """The stretches of the path within the extent (ns), in time order: start, end, lane. What is on no lane is left
    out."""
    path = on.path
    here = np.flatnonzero((path.end > extent[0]) & (path.start < extent[1]))
    lane = _lanes(on, here)
    here, lane = here[lane >= 0], lane[lane >= 0]
    if not len(here):
        return []
    start, end = path.start[here], path.end[here]
    first = np.flatnonzero(np.append(True, (lane[1:] != lane[:-1]) | (start[1:] != end[:-1])))
    start, end, lane = start[first], np.append(end[first[1:] - 1], end[-1]), lane[first]
    kept = np.sort(np.argsort(start - end, kind="stable")[:MAX_STRETCHES])
    return list(zip(start[kept].tolist(), end[kept].tolist(), lane[kept].tolist(), strict=True))


def _lanes(on: OnPath, rows: I64) -> I64:
    path = on.path
    on_device = np.isin(path.part[rows], _OF_OP) & (path.op[rows] >= 0)
    result = np.where(on_device, np.append(on.lane_of_op, -1)[path.op[rows]], -1)
    thread = np.append(on.m.linked.tree.thread, -1)[path.node[rows]]
    for one, lane in on.lane_of_thread.items():
        result[~on_device & (thread == one)] = lane
    return result
