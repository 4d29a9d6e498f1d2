"""How far the clocks of several recordings are apart, from their epochs and from what they did
together."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from traceanalyzer.analysis.algebra import Groups, counts, robust_sigma, stable_order
from traceanalyzer.trace import I32, I64

ROUNDING_NS = 2_000  # ranks end the same collective a microsecond or two apart even on one clock
MAX_SPREAD_NS = 500_000
"""Ends of one collective scatter by tens of us between ranks; if more, those matched are not the
same."""


class Clocks(NamedTuple):
    """What to subtract from the times of each recording to have them on the first one's clock."""

    offset: I64  # ns, one a recording
    # part of it that the collectives showed beyond the epochs, ns; 0 where that was within noise
    corrected: I64
    spread_ns: float
    """How far the ends of one collective scatter between recordings after that: standard deviation,
    the worst."""
    comparable: bool  # whether the clocks could be compared at all, and the collectives bear it out


def align_clocks(epochs: Sequence[int], first: I64, rank: I32, end: I64) -> Clocks:
    """Compare clocks by the ends of synchronising collectives.

    `rank` and `end` have an entry for each recording that takes part in a collective, those of one
    after the other from `first` on: who, by position, and when it ended on that recording's own
    clock. Each recording is held against the one, already held against others, with which it shares
    the most."""
    count = len(epochs)
    known = all(epochs)
    offset = np.array([epochs[0] - epoch if known else 0 for epoch in epochs], np.int64)
    corrected = np.zeros(count, np.int64)
    spread = 0.0
    if not len(end):
        return Clocks(offset, corrected, spread, known or count < 2)
    bounds = np.cumsum(counts(rank, count))[:-1]
    order = stable_order(rank)
    numbers = np.repeat(np.arange(len(first) - 1), np.diff(first))
    collective, ends = (np.split(values[order], bounds) for values in (numbers, end))
    for reference, other, shared in _most_shared_first(count, first, rank):
        if not shared:
            # It shares no collective with those done: it has no clock in common with them, and
            # needs none.
            continue
        _, here, there = np.intersect1d(
            collective[reference], collective[other], True, return_indices=True
        )
        difference = (ends[other][there] - offset[other]) - (
            ends[reference][here] - offset[reference]
        )
        apart = round(float(np.median(difference)))
        sigma = robust_sigma(difference, apart)
        # within three standard errors; that of the median is 1.2533 of that of the mean (normal
        # distribution)
        noise = 3.0 * 1.2533 * sigma / np.sqrt(len(difference)) + ROUNDING_NS
        if not known or abs(apart) > noise:
            offset[other] += apart
            corrected[other] = apart
        spread = max(spread, sigma)
    return Clocks(offset, corrected, spread, spread <= MAX_SPREAD_NS)


def members(first: I64, rank: I32) -> I64:
    """Of each collective a number that is the same where the same ranks take part: a sum of random
    numbers."""
    if len(first) < 2:
        return np.empty(0, np.int64)
    limits = np.iinfo(np.int64)
    numbers = np.random.default_rng(0).integers(limits.min, limits.max, int(rank.max()) + 1)
    return np.add.reduceat(numbers[rank], first[:-1])


def _most_shared_first(count: int, first: I64, of: I32) -> Iterator[tuple[int, int, int]]:
    """Each recording but the first, with the one before it (or the first) that it shares most
    collectives with, and how many: a spanning tree, grown by its strongest edge (Prim)."""
    sets = Groups.of(members(first, of))
    times = sets.count
    groups = [of[first[one] : first[one + 1]] for one in sets.first.tolist()]
    of_rank: list[list[int]] = [[] for _ in range(count)]
    for group, ranks in enumerate(groups):
        for rank in ranks.tolist():
            of_rank[rank].append(group)
    reference = np.zeros(count, np.int64)
    most = np.zeros(count, np.int64)
    left = np.ones(count, bool)
    rank = 0
    while True:
        left[rank] = False
        shared = np.zeros(count, np.int64)
        for group in of_rank[rank]:
            shared[groups[group]] += times[group]
        closer = left & ((shared > most) | ((shared == most) & (rank < reference)))
        reference[closer] = rank
        most[closer] = shared[closer]
        if not left.any():
            return
        best = np.flatnonzero(left & (most == most[left].max()))
        rank = int(best[reference[best].argmin()])
        yield int(reference[rank]), rank, int(most[rank])
