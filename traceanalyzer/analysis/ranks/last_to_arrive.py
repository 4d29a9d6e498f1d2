"""Which ranks of a run are replayed together: one choice for `analyze` and for `fleet`."""

from collections.abc import Sequence

import numpy as np

from traceanalyzer.analysis.ranks.digest import RankDigest

MOST_TOGETHER = 8
"""Ranks that are replayed together. More cost more than they tell."""


def last_to_arrive(ranks: Sequence[RankDigest], first: int) -> list[int]:
    """Positions of `first`, then of those that spend least in collectives, at most `MOST_TOGETHER`
    in all: they arrive last, so the others wait for them."""
    others = [position for position in range(len(ranks)) if position != first]
    others.sort(key=lambda position: _in_collectives_ns(ranks[position]))
    return [first, *others[: MOST_TOGETHER - 1]]


def _in_collectives_ns(rank: RankDigest) -> int:
    """Time in the collectives of the steps; one of several parts counts once."""
    calls = rank.calls
    once = np.unique(calls.row, return_index=True)[1]
    return int((calls.end[once] - calls.start[once]).sum())
