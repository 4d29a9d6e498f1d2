"""How far the clocks of several recordings are apart, from their epochs and from what they did together."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from traceanalyzer.analysis.algebra.ordering import robust_sigma
from traceanalyzer.trace import I64, Bool

ERROR_OF_MEDIAN = 1.2533
"""Standard error of the median over that of the mean (normal distribution)."""
NOISE_SIGMAS = 3.0
"""A difference of clocks within this many of its standard errors is noise."""
ROUNDING_NS = 2_000
"""Ranks end the same collective a microsecond or two apart even on one clock."""
MAX_SPREAD_NS = 500_000
"""Ends of one collective scatter by tens of us between ranks; where they scatter more, the matched ones are not
the same collectives."""


class Clocks(NamedTuple):
    """What to subtract from the times of each recording to have them on the first one's clock."""

    offset: I64
    """ns, one a recording."""
    corrected: I64
    """Part of it that the collectives showed beyond the epochs, ns; 0 where that was within noise."""
    spread_ns: float
    """How far the ends of one collective scatter between recordings after that: standard deviation, the worst."""
    comparable: bool
    """Whether the clocks could be compared at all, and the collectives bear it out."""


def align_clocks(epochs: Sequence[int], end: I64, present: Bool) -> Clocks:
    """Compare clocks by the ends of synchronising collectives.

    `end` and `present` have a row for each collective and a column for each recording: when it ended on that
    recording's own clock, and whether the recording takes part. Each recording is held against the one, already
    held against others, with which it shares the most.
    """
    count = len(epochs)
    known = all(epochs)
    offset = np.array([epochs[0] - epoch if known else 0 for epoch in epochs], np.int64)
    corrected, spread = np.zeros(count, np.int64), 0.0
    if not len(end):
        return Clocks(offset, corrected, spread, known or count < 2)
    for reference, rank, shared in _most_shared_first(present):
        if not shared:
            # It shares no collective with those done: it has no clock in common with them, and needs none.
            continue
        rows = present[:, reference] & present[:, rank]
        difference = (end[rows, rank] - offset[rank]) - (end[rows, reference] - offset[reference])
        apart, sigma = _median(difference)
        noise = NOISE_SIGMAS * ERROR_OF_MEDIAN * sigma / np.sqrt(len(difference)) + ROUNDING_NS
        if not known or abs(apart) > noise:
            offset[rank] += apart
            corrected[rank] = apart
        spread = max(spread, sigma)
    return Clocks(offset, corrected, spread, spread <= MAX_SPREAD_NS)


def _most_shared_first(present: Bool) -> Iterator[tuple[int, int, int]]:
    """Each recording but the first, with the one before it (or the first) that it shares most collectives with, and
    how many: a spanning tree, grown by its strongest edge (Prim)."""
    _, first, times = np.unique(np.packbits(present, axis=1), axis=0, return_index=True, return_counts=True)
    groups = [np.flatnonzero(row) for row in present[first]]
    of_rank: list[list[int]] = [[] for _ in range(present.shape[1])]
    for group, ranks in enumerate(groups):
        for rank in ranks.tolist():
            of_rank[rank].append(group)
    count = present.shape[1]
    reference, most, left = np.zeros(count, np.int64), np.zeros(count, np.int64), np.ones(count, bool)
    rank = 0
    while True:
        left[rank] = False
        shared = np.zeros(count, np.int64)
        for group in of_rank[rank]:
            shared[groups[group]] += times[group]
        closer = left & ((shared > most) | ((shared == most) & (rank < reference)))
        reference[closer], most[closer] = rank, shared[closer]
        if not left.any():
            return
        best = np.flatnonzero(left & (most == most[left].max()))
        rank = int(best[reference[best].argmin()])
        yield int(reference[rank]), rank, int(most[rank])


def _median(values: I64) -> tuple[int, float]:
    median = round(float(np.median(values)))
    return median, robust_sigma(values, median)
