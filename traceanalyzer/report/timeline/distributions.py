"""What charts show of single events: lengths of kernels, depth of the launch queue, steps of ranks, who launched what.

Of bounded size whatever the recording: events are counted in bins, or those of one step are taken.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from traceanalyzer.analysis.names.kernel_names import short_name
from traceanalyzer.cut import cut
from traceanalyzer.report.timeline.step_timeline import representative

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traceanalyzer.analysis.measure import Measurements
    from traceanalyzer.trace import F64, I64

BINS_A_DECADE = 6
MAX_POINTS = 500
MAX_RANKS, MAX_STEPS = 32, 60
DEEPEST = 5
"""Levels of operators and annotations of which the widest kernels' launches are shown."""
MAX_OPS = 20_000
"""Longest device ops that are counted: a recording without steps is one step of millions."""
LEAST_SHARE = 0.004
"""Of a step's device time: less is no wider than a line."""
MAX_NAME = 100


@dataclass(frozen=True, eq=False)
class Lengths:
    """Kernels of a mean steady step by their lengths."""

    edges_us: F64
    """One more than there are bins."""
    kernels: F64
    time_ms: F64


@dataclass(frozen=True, eq=False)
class Queue:
    """Device ops launched and not finished in the representative step."""

    time_ns: I64
    """From the step's start."""
    depth: I64
    """From each moment on; of moments that are near each other the deepest."""


@dataclass(frozen=True)
class StepsOfRank:
    """Wall-clock times of a rank's steps."""

    rank: int
    first: int
    times_ms: list[float]


@dataclass(frozen=True)
class Box:
    """A box of the icicle: device time that lies below an annotation, an operator, or in a kernel."""

    name: str
    level: int
    begin_ms: float
    end_ms: float
    kernel: bool


@dataclass(frozen=True)
class Logged:
    """A step of a timing log."""

    step: int
    time_ms: float
    data_ms: float


def kernel_lengths(m: Measurements) -> Lengths | None:
    """None without kernels."""
    ops = m.trace.device_ops
    rows = np.flatnonzero(m.is_kernel & m.steady_ops & (ops.end > ops.start))
    if not len(rows):
        return None
    us = (ops.end[rows] - ops.start[rows]) / 1e3
    low, high = (int(np.floor(np.log10(us.min()) * BINS_A_DECADE)), int(np.ceil(np.log10(us.max()) * BINS_A_DECADE)))
    edges = 10.0 ** (np.arange(low, max(high, low + 1) + 1) / BINS_A_DECADE)
    bins = np.clip(np.searchsorted(edges, us, side="right") - 1, 0, len(edges) - 2)
    steps, count = m.steps.steady_count, len(edges) - 1
    return Lengths(edges, np.bincount(bins, None, count) / steps, np.bincount(bins, us, count) / 1e3 / steps)


def launch_queue(m: Measurements) -> Queue | None:
    """None where no launch of the representative step was recorded."""
    ops, step = m.trace.device_ops, representative(m.steps)
    start, end = int(m.steps.start[step]), int(m.steps.end[step])
    rows = np.flatnonzero((m.launch_time >= 0) & (m.launch_time < end) & (ops.end > start))
    if not len(rows):
        return None
    time = np.concatenate((m.launch_time[rows], ops.end[rows]))
    order = np.argsort(time, kind="stable")
    depth = np.cumsum(np.repeat([1, -1], len(rows))[order])
    inside = np.flatnonzero((time[order] >= start) & (time[order] <= end))
    if not len(inside):
        return None
    time, depth = time[order][inside] - start, depth[inside]
    width = max((end - start) // MAX_POINTS, 1)
    _, first = np.unique(time // width, return_index=True)
    return Queue(time[first], np.maximum.reduceat(depth, first))


def steps_of_ranks(each: Sequence[Measurements]) -> list[StepsOfRank]:
    """The first steps of the first ranks; empty for one rank."""
    timed = [m for m in each if m.steps.found]
    if len(timed) < 2:
        return []
    return [
        StepsOfRank(
            i if m.trace.rank is None else m.trace.rank, m.steps.first, (m.steps.duration[:MAX_STEPS] / 1e6).tolist()
        )
        for i, m in enumerate(timed[:MAX_RANKS])
    ]


def logged_steps(m: Measurements) -> list[Logged]:
    """The steps of a timing log that says what of them was waiting for data; empty otherwise."""
    timings = m.trace.step_timings
    known = np.flatnonzero(timings.data >= 0)
    columns = (timings.step[known], timings.duration[known] / 1e6, timings.data[known] / 1e6)
    return [Logged(*row) for row in zip(*(column.tolist() for column in columns), strict=True)]


def icicle(m: Measurements) -> list[Box]:
    """Device time of the representative step by who launched it: annotations and operators outside in, kernels last."""
    ops, steps, step = m.trace.device_ops, m.steps, representative(m.steps)
    inside = (ops.start >= steps.start[step]) & (ops.start < steps.end[step])
    rows = np.flatnonzero(inside & (m.launch_node >= 0))
    rows = rows[np.argsort(ops.start[rows] - ops.end[rows], kind="stable")[:MAX_OPS]]
    root = _Branch({}, 0)
    paths: dict[int, list[str]] = {}
    for row in rows.tolist():
        around = (
            int(m.tree.parent[m.launch_node[row]]) if m.tree.is_call[m.launch_node[row]] else int(m.launch_node[row])
        )
        if around not in paths:
            paths[around] = _path(m, around)
        root.add(
            [*paths[around], short_name(m.trace.text(int(ops.name[row])) or "?")], int(ops.end[row] - ops.start[row])
        )
    boxes: list[Box] = []
    root.boxes(boxes, 0, 0.0, root.ns * LEAST_SHARE)
    return boxes


def _path(m: Measurements, node: int) -> list[str]:
    """Names of the ranges around a node, outermost first, without the step's own and without repetitions."""
    names: list[str] = []
    tree, ranges = m.tree, m.trace.host_ranges
    while node >= 0:
        if not tree.is_call[node]:
            name = m.trace.text(int(ranges.name[tree.row[node]])) or "?"
            if not name.startswith("ProfilerStep#") and (not names or names[-1] != name):
                names.append(name)
        node = int(tree.parent[node])
    return names[::-1][:DEEPEST]


@dataclass
class _Branch:
    """Time below a name, by what is below it."""

    below: dict[str, _Branch]
    ns: int

    def add(self, path: Sequence[str], ns: int) -> None:
        branch = self
        branch.ns += ns
        for name in path:
            branch = branch.below.setdefault(name, _Branch({}, 0))
            branch.ns += ns

    def boxes(self, made: list[Box], level: int, begin: float, least: float) -> None:
        """The boxes of what is below, widest first."""
        for name, branch in sorted(self.below.items(), key=lambda item: -item[1].ns):
            if branch.ns >= least:
                end = begin + branch.ns / 1e6
                made.append(Box(cut(name, MAX_NAME), level, begin, end, not branch.below))
                branch.boxes(made, level + 1, begin, least)
                begin = end
