"""The ranks that the others wait for, and what the run would gain without what each of them is late by.

At each collective the rank that comes last costs the run what it comes later than the last but one: leave one out. A
rank holds up the run where that adds up to a share of the step, and does not come from one moment alone.
"""

from __future__ import annotations

import numpy as np

from traceanalyzer.analysis.ranks.matches import Matches
from traceanalyzer.analysis.ranks.skew import Arrivals
from traceanalyzer.base.figures import NS_PER_MS
from traceanalyzer.base.frozen import dataclass

MIN_GAIN_SHARE = 0.05
"""Share of the step that the run must gain without a rank's excess before the rank is named: GPUs and hosts that are
given the same work differ by up to three percent."""
MIN_TIMES = 1.5
"""A rank is late again and again: as many times as that, were it always as late. Once, it may be a hiccup, or the
profiler's start or stop."""


@dataclass(frozen=True)
class LateRank:
    """A rank that holds up the run."""

    position: int
    """Among the recordings."""
    gain_ms: float
    """What it comes later than the last but one, a steady step."""


def late_ranks(matches: Matches, came: Arrivals, steps: int, step_ms: float) -> tuple[LateRank, ...]:
    """Those that hold up the run, by gain; several where they take turns, none where all are late alike."""
    count = matches.start.shape[1]
    late, excess = came.late[matches.steady], (came.last - came.second)[matches.steady].astype(np.float64)
    total = np.bincount(late, excess, minlength=count)
    squares = np.bincount(late, excess**2, minlength=count)
    named = (total >= MIN_GAIN_SHARE * step_ms * NS_PER_MS * steps) & (total**2 >= MIN_TIMES * squares) & (total > 0)
    order = np.flatnonzero(named)[np.argsort(-total[named], kind="stable")]
    return tuple(LateRank(rank, float(total[rank]) / NS_PER_MS / steps) for rank in order.tolist())
