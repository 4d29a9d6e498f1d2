"""What charts show of single events: lengths of kernels, depth of the launch queue, steps of ranks.

Of bounded size whatever the recording: events are counted in bins, or those of one step are taken.
"""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING

import numpy as np

from traceanalyzer.figures import NS_PER_MS
from traceanalyzer.frozen import dataclass
from traceanalyzer.report.timeline.shown_steps import representative

if TYPE_CHECKING:
    from traceanalyzer.analysis.measure import Measurements
    from traceanalyzer.selection import Measured
    from traceanalyzer.trace import F64, I64

BINS_A_DECADE = 6
MAX_POINTS = 500
MAX_RANKS, MAX_STEPS = 32, 60


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
    """Wall-clock times of a rank's steps, and what of them it waited for other ranks."""

    rank: int
    first: int
    times_ms: list[float]
    waiting_ms: list[float] = field(default_factory=list)
    """Empty where no collectives were matched across ranks."""


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


def steps_of_ranks(of: Measured) -> list[StepsOfRank]:
    """The first steps of the first ranks; empty for one rank."""
    waited = of.ranks.waited_ns or (None,) * len(of.each)
    timed = [(m, ns) for m, ns in zip(of.each, waited, strict=True) if m.steps.found]
    if len(timed) < 2:
        return []
    return [
        StepsOfRank(
            i if m.trace.rank is None else m.trace.rank,
            m.steps.first,
            (m.steps.duration[:MAX_STEPS] / NS_PER_MS).tolist(),
            [] if ns is None else [time / NS_PER_MS for time in ns[:MAX_STEPS]],
        )
        for i, (m, ns) in enumerate(timed[:MAX_RANKS])
    ]


def logged_steps(m: Measurements) -> list[Logged]:
    """The steps of a timing log that says what of them was waiting for data; empty otherwise."""
    timings = m.trace.step_timings
    known = np.flatnonzero(timings.data >= 0)
    columns = (timings.step[known], timings.duration[known] / 1e6, timings.data[known] / 1e6)
    return [Logged(*row) for row in zip(*(column.tolist() for column in columns), strict=True)]
