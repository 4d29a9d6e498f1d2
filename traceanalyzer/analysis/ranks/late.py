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
from traceanalyzer.trace import F64, I64

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
    total, squares = (np.bincount(late, excess**power, minlength=len(gain_ms)) for power in (1, 2))
    named = (gain_ms >= MIN_GAIN_SHARE * step_ms) & (total**2 >= MIN_TIMES * squares) & (total > 0)
    if several := late_together(matches):
        gain = several.gain.astype(np.float64)
        whole_ms = float(gain.sum()) / NS_PER_MS / steps
        repeated = gain.sum() ** 2 >= MIN_TIMES * (gain**2).sum()
        if repeated and whole_ms >= MIN_GAIN_SHARE * step_ms and whole_ms > gain_ms[named].sum():
            return tuple(LateRank(rank, whole_ms, True) for rank in several.ranks.tolist())
    order = np.flatnonzero(named)[np.argsort(-gain_ms[named], kind="stable")]
    return tuple(LateRank(rank, float(gain_ms[rank])) for rank in order.tolist())


def late_together(matches: Matches) -> Together | None:
    """The same few ranks, less than half of those that take part, that most often come much later
    than all others: collectives are divided at the widest gap between arrivals. None where that is
    one rank alone."""
    size = np.diff(matches.first)
    first = matches.first
    order = np.lexsort((matches.undisturbed, matches.collective))
    ready = matches.undisturbed[order]
    of = matches.collective[order]
    rank = matches.rank[order]
    left = first[of + 1] - np.arange(len(of))
    gap = np.diff(ready, prepend=ready[:1])
    # Where all ranks came from the same collective before, nobody is late by what others held up.
    origin = np.where(matches.before >= 0, matches.collective[matches.before], -1)
    from_one = matches.least(origin) == matches.most(origin)
    gap[(2 * left >= size[of]) | ~(matches.steady & from_one)[of]] = 0
    widest = matches.most(gap)
    rows = np.flatnonzero((gap == widest[of]) & (gap > 0))
    one, at = np.unique(of[rows], return_index=True)
    begin = rows[at]
    if not len(begin):
        return None
    # Numbers by chance, whose sum tells one set of ranks from another.
    numbers = np.cumsum(np.random.default_rng(0).integers(0, 1 << 62, int(rank.max()) + 1)[rank])
    sets = Groups.of(numbers[first[one + 1] - 1] - numbers[begin - 1])
    best = sets.rows[int(np.argmax(sets.sum(widest[one])))]
    least = int(begin[best[0]])
    if left[least] < 2:
        return None
    gain = np.zeros(len(size), np.int64)
    gain[one[best]] = ready[first[one[best] + 1] - 1] - ready[begin[best] - 1]
    return Together(
        np.sort(rank[least : least + int(left[least])]).astype(np.int64),
        largest_of(gain, matches.series),
    )
