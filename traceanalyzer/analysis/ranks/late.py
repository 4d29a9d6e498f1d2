"""The ranks that the others wait for, and what the run would gain without what each of them is late by.

At each collective the rank that comes last costs the run what it comes later than the last but one: leave one out. A
rank holds up the run where that adds up to a share of the step, and does not come from one moment alone.
"""

import numpy as np

from traceanalyzer.analysis.ranks.matches import Matches
from traceanalyzer.analysis.ranks.skew import Arrivals
from traceanalyzer.base.figures import NS_PER_MS
from traceanalyzer.base.frozen import dataclass
from traceanalyzer.trace import F64, I64

MIN_GAIN_SHARE = 0.05
"""Share of the step that the run must gain without a rank's excess before the rank is named: GPUs and hosts that are
given the same work differ by up to three percent."""
MIN_TIMES = 1.5
"""A rank is late repeatedly: as many times as that, were it always as late. Once, it may be a hiccup, or the
profiler's start or stop."""

EXPLAINED = 0.5
"""Share of what the others wait that a rank must do more of, to be why."""
SAME_WORK = 0.02
"""Ranks whose launches, or threads of their kernels, differ by less have the same work to do."""


@dataclass(frozen=True)
class LateRank:
    """A rank that holds up the run."""

    position: int
    """Among the recordings."""
    gain_ms: float
    """What it comes later than the last but one, a steady step."""


def gains_ms(matches: Matches, came: Arrivals, steps: int) -> F64:
    """For each rank what it comes later than the last but one, a steady step."""
    late, excess = _excess(matches, came)
    return np.bincount(late, excess, minlength=len(matches.clocks.offset)) / NS_PER_MS / steps


def late_ranks(matches: Matches, came: Arrivals, gain_ms: F64, step_ms: float) -> tuple[LateRank, ...]:
    """Those that hold up the run, by gain; several where they take turns, none where all are late alike."""
    late, excess = _excess(matches, came)
    total, squares = (np.bincount(late, excess**power, minlength=len(gain_ms)) for power in (1, 2))
    named = (gain_ms >= MIN_GAIN_SHARE * step_ms) & (total**2 >= MIN_TIMES * squares) & (total > 0)
    order = np.flatnonzero(named)[np.argsort(-gain_ms[named], kind="stable")]
    return tuple(LateRank(rank, float(gain_ms[rank])) for rank in order.tolist())


def _excess(matches: Matches, came: Arrivals) -> tuple[I64, F64]:
    """Who came last to each steady collective, and how much later than the last but one by itself, ns."""
    return came.late[matches.steady], came.own[matches.steady].astype(np.float64)
