"""Time split between intervals that overlap each other, so that their parts add up to the union."""

from __future__ import annotations

import numpy as np

from traceanalyzer.analysis.algebra.intervals import IntervalSet, measure
from traceanalyzer.analysis.algebra.lookup import places
from traceanalyzer.trace import F64, I64
from traceanalyzer.trace.distinct import distinct


def side_by_side_nowhere(start: I64, end: I64) -> bool:
    """Whether each interval begins when the one before it has ended, or later."""
    return bool((start[1:] >= end[:-1]).all())


def shared_time(start: I64, end: I64, within: IntervalSet) -> F64:
    """How much of the set each interval covers, ns; a moment covered by n of the intervals counts 1/n for each.

    The result sums to the part of the set that any of the intervals covers.
    """
    if not len(start):
        return np.empty(0, np.float64)
    if side_by_side_nowhere(start, end):
        return measure(within, start, end).astype(np.float64)
    edges = distinct(np.concatenate((start, end)))
    first, last = places(edges, start), places(edges, end)
    size = len(edges)
    running = np.cumsum(np.bincount(first, minlength=size) - np.bincount(last, minlength=size))[:-1]
    share = measure(within, edges[:-1], edges[1:]) / np.maximum(running, 1)
    before = np.concatenate((np.zeros(1), np.cumsum(share)))
    return before[last] - before[first]
