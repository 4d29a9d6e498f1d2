"""How far the clocks of several recordings are apart, from their epochs and from what they did
together."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from traceanalyzer.analysis.algebra import Groups, counts, robust_sigma, stable_order
from traceanalyzer.base import dataclass
from traceanalyzer.trace import I32, I64

ROUNDING_NS = 2_000  # ranks end the same collective a microsecond or two apart even on one clock
NOISE_ERRORS = 3.0  # standard errors within which clocks are the same
ERROR_OF_MEDIAN = 1.2533  # standard error of a median over that of a mean (normal distribution)
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
    spread_ns = 0.0
    if not len(end):
        return Clocks(offset, corrected, spread_ns, known or count < 2)
    ends = _ends_by_rank(count, first, rank, end)
    for edge in _most_shared_first(count, first, rank):
        if not edge.shared:
            # It shares no collective with those done: it has no clock in common with them, and
            # needs none.
            continue
        later = ends[edge.rank].later_than(ends[edge.reference])
        difference = later - offset[edge.rank] + offset[edge.reference]
        apart = round(float(np.median(difference)))
        sigma = robust_sigma(difference, apart)
        noise = NOISE_ERRORS * ERROR_OF_MEDIAN * sigma / np.sqrt(len(difference)) + ROUNDING_NS
        if not known or abs(apart) > noise:
            offset[edge.rank] += apart
            corrected[edge.rank] = apart
        spread_ns = max(spread_ns, sigma)
    return Clocks(offset, corrected, spread_ns, spread_ns <= MAX_SPREAD_NS)


@dataclass(frozen=True, eq=False)
class _Ends:
    """When a recording's collectives ended, on its own clock."""

    collective: I64  # numbers, in order
    end: I64

    def later_than(self, other: "_Ends") -> I64:
        """How much later those ended that both took part in."""
        _, own, theirs = np.intersect1d(
            self.collective, other.collective, assume_unique=True, return_indices=True
        )
        later: I64 = self.end[own] - other.end[theirs]
        return later


def _ends_by_rank(count: int, first: I64, rank: I32, end: I64) -> list[_Ends]:
    bounds = np.cumsum(counts(rank, count))[:-1]
    order = stable_order(rank)
    numbers = np.repeat(np.arange(len(first) - 1), np.diff(first))
    collectives = np.split(numbers[order], bounds)
    ends = np.split(end[order], bounds)
    return [_Ends(of_rank, times) for of_rank, times in zip(collectives, ends, strict=True)]


def member_sums(first: I64, rank: I32) -> I64:
    """A number for each collective that is the same where the same ranks take part: a sum of random
    numbers."""
    if len(first) < 2:
        return np.empty(0, np.int64)
    limits = np.iinfo(np.int64)
    count = int(rank.max()) + 1
    numbers = np.random.default_rng(0).integers(limits.min, limits.max, count)
    return np.add.reduceat(numbers[rank], first[:-1])


@dataclass(frozen=True)
class _Edge:
    """A recording, the one done before it with which it shares most collectives, and how many."""

    reference: int
    rank: int
    shared: int


def _groups_by_rank(groups: list[I32], count: int) -> list[list[int]]:
    of_rank: list[list[int]] = [[] for _ in range(count)]
    for group, ranks in enumerate(groups):
        for rank in ranks.tolist():
            of_rank[rank].append(group)
    return of_rank


def _most_shared_first(count: int, first: I64, ranks_of: I32) -> Iterator[_Edge]:
    """Each recording but the first: a spanning tree, grown by its strongest edge (Prim)."""
    sets = Groups.of(member_sums(first, ranks_of))
    groups = [ranks_of[first[i] : first[i + 1]] for i in sets.first.tolist()]
    of_rank = _groups_by_rank(groups, count)
    reference = np.zeros(count, np.int64)
    most = np.zeros(count, np.int64)
    left = np.ones(count, bool)
    rank = 0
    while True:
        left[rank] = False
        shared = np.zeros(count, np.int64)
        for group in of_rank[rank]:
            shared[groups[group]] += sets.count[group]
        nearer = (shared > most) | ((shared == most) & (rank < reference))
        closer = left & nearer
        reference[closer] = rank
        most[closer] = shared[closer]
        if not left.any():
            return
        best = np.flatnonzero(left & (most == most[left].max()))
        rank = int(best[reference[best].argmin()])
        yield _Edge(int(reference[rank]), rank, int(most[rank]))
