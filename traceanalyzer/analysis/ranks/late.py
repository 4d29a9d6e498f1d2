"""The ranks that the others wait for, and what the run would gain without what each of them is late
by.

At each collective the rank that comes last costs the run what it comes later than the last but one:
leave one out. A rank holds up the run where that adds up to a share of the step, and does not come
from one moment alone."""

from typing import NamedTuple

import numpy as np

from traceanalyzer.analysis.algebra import Groups
from traceanalyzer.analysis.ranks.matches import Matches, largest_of
from traceanalyzer.analysis.ranks.skew import Arrivals
from traceanalyzer.base import NS_PER_MS, dataclass
from traceanalyzer.trace import F64, I32, I64

MIN_GAIN_SHARE = 0.05
"""Share of the step that the run must gain without a rank's excess before the rank is named: GPUs
and hosts that are given the same work differ by up to three percent."""
MIN_TIMES = 1.5
"""A rank is late repeatedly: as many times as that, were it always as late. Once, it may be a
hiccup, or the profiler's start or stop."""
EXPLAINED = 0.5  # share of what the others wait that a rank must do more of, to be why
SAME_WORK = 0.02
"""Ranks whose launches, or threads of their kernels, differ by less have the same work to do."""


@dataclass(frozen=True)
class LateRank:
    """A rank that holds up the run."""

    position: int  # among the recordings
    gain_ms: float
    """What it comes later than the last but one, a steady step; of several together what the run
    gains without all."""
    together: bool = False  # whether it is one of several that are late at the same collectives
    # the stage of a pipeline that is too heavy, where it is one of that stage's ranks
    stage: int | None = None


class Together(NamedTuple):
    """Ranks that are late at the same collectives: without one of them alone little is gained."""

    ranks: I64  # by position
    gain: I64  # what each collective gains without all of them, ns


def gains_ms(matches: Matches, came: Arrivals, steps: int) -> F64:
    """For each rank what it comes later than the last but one, a steady step: all of it, because
    that is what the run gains without it, also what a rank that is last anyway is late by (0.137 ms
    of 3.137 where 3 ms were put in)."""
    late = came.late[matches.steady]
    excess = came.own[matches.steady]
    return np.bincount(late, excess, minlength=len(matches.clocks.offset)) / NS_PER_MS / steps


def late_ranks(
    matches: Matches, came: Arrivals, gain_ms: F64, steps: int, step_ms: float
) -> tuple[LateRank, ...]:
    """Those that hold up the run, by gain; several that take turns or are late together, none where
    all are late."""
    late = came.late[matches.steady]
    excess = came.own[matches.steady].astype(np.float64)
    total = np.bincount(late, excess, minlength=len(gain_ms))
    squares = np.bincount(late, excess**2, minlength=len(gain_ms))
    least_ms = MIN_GAIN_SHARE * step_ms
    named = (gain_ms >= least_ms) & (total**2 >= MIN_TIMES * squares) & (total > 0)
    several = late_together(matches)
    if several is not None:
        gain = several.gain.astype(np.float64)
        whole_ms = float(gain.sum()) / NS_PER_MS / steps
        repeated = gain.sum() ** 2 >= MIN_TIMES * (gain**2).sum()
        if repeated and whole_ms >= least_ms and whole_ms > gain_ms[named].sum():
            return tuple(LateRank(rank, whole_ms, True) for rank in several.ranks.tolist())
    order = np.flatnonzero(named)[np.argsort(-gain_ms[named], kind="stable")]
    return tuple(LateRank(rank, float(gain_ms[rank])) for rank in order.tolist())


@dataclass(frozen=True, eq=False)
class _Arriving:
    """The parts of collectives, each collective's in the order in which its ranks were ready."""

    first: I64  # where the parts of each collective begin, and the number of all of them
    ready: I64
    collective: I32
    rank: I32
    left: I64  # how many of its collective are not earlier

    @classmethod
    def of(cls, matches: Matches) -> "_Arriving":
        """The parts of matched collectives."""
        order = np.lexsort((matches.undisturbed, matches.collective))
        collective = matches.collective[order]
        return cls(
            first=matches.first,
            ready=matches.undisturbed[order],
            collective=collective,
            rank=matches.rank[order],
            left=matches.first[collective + 1] - np.arange(len(collective)),
        )

    def until_last_ns(self, collectives: I32, begin: I64) -> I64:
        """From the part before `begin` to the last one of each collective."""
        until: I64 = self.ready[self.first[collectives + 1] - 1] - self.ready[begin - 1]
        return until


def late_together(matches: Matches) -> Together | None:
    """The few ranks, at most half of those that take part, that most often come much later
    than all others: collectives are divided at the widest gap between arrivals. None where that is
    one rank alone."""
    parts = _Arriving.of(matches)
    gap = _gaps(matches, parts)
    widest = matches.most(gap)
    rows = np.flatnonzero((gap == widest[parts.collective]) & (gap > 0))
    divided, at = np.unique(parts.collective[rows], return_index=True)
    begin = rows[at]
    if not len(begin):
        return None
    sets = _sets_of_ranks(parts, divided, begin)
    best = sets.rows[int(np.argmax(sets.sum(widest[divided])))]
    first = int(begin[best[0]])
    count = int(parts.left[first])
    if count < 2:
        return None
    gain = np.zeros(len(matches), np.int64)
    gain[divided[best]] = parts.until_last_ns(divided[best], begin[best])
    ranks = np.sort(parts.rank[first : first + count]).astype(np.int64)
    return Together(ranks, largest_of(gain, matches.series))


def _gaps(matches: Matches, parts: _Arriving) -> I64:
    """Time from the rank before each part to it; 0 where more than half of the ranks come after the
    gap, in steps that are not steady, and where ranks came from different collectives."""
    gap = np.diff(parts.ready, prepend=parts.ready[:1])
    # Where all ranks came from the same collective before, nobody is late by what others held up.
    origin = np.where(matches.before >= 0, matches.collective[matches.before], -1)
    from_one = matches.least(origin) == matches.most(origin)
    size = np.diff(matches.first)
    few = 2 * parts.left <= size[parts.collective]
    gap[~(few & (matches.steady & from_one)[parts.collective])] = 0
    return gap


def _sets_of_ranks(parts: _Arriving, collectives: I32, begin: I64) -> Groups:
    """Collectives by the ranks from `begin` on: numbers by chance, whose sum tells one set of
    ranks from another."""
    count = int(parts.rank.max()) + 1
    chance = np.random.default_rng(0).integers(0, 1 << 62, count)
    sums = np.cumsum(chance[parts.rank])
    return Groups.of(sums[parts.first[collectives + 1] - 1] - sums[begin - 1])
