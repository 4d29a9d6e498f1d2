"""What collectives cost across ranks: transferring, or waiting for the rank that arrives last."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from traceanalyzer.analysis.algebra import Groups
from traceanalyzer.analysis.names.collectives import KINDS
from traceanalyzer.analysis.ranks.matches import Matches, largest_of
from traceanalyzer.base import NS_PER_MS, NS_PER_US, dataclass, metric
from traceanalyzer.trace import I64, Bool, ranked

DOMINANT = 0.6
"""Share of its time, from the first arrival to the end, that makes a collective one or the other."""
MIN_COUNT = 3
"""One or two collectives tell nothing about the rest."""


@dataclass(frozen=True)
class CollectiveSkew:
    """Collectives of one kind, process group and message size, matched across ranks, in the steady state."""

    collective: str = metric("what the collective does")
    group: str | None = metric("process group; null where the recording does not say")
    message_bytes: int | None = metric("size of a message, as in the table of collectives", "bytes")
    ranks: int = metric("ranks of the group whose recordings are here")
    group_size: int | None = metric("ranks in the group")
    count: float = metric("collectives a step")
    transfer_ms: float = metric("time from the last rank's arrival to the last end, a step")
    skew_ms: float = metric("time from the first rank's arrival to the last one's, a step")
    transfer_us: float = metric("mean transfer of a collective")
    skew_p95_us: float = metric("95th percentile of the skews of the collectives")
    last_rank: int = metric("rank that most often arrives last")
    last_share: float = metric("share of the collectives at which it arrives last")
    cause: str = metric(
        "transfer or arrival skew, whichever takes most of the time; inconclusive where neither does, the clocks "
        "are too uncertain, there are too few, or ranks are missing that may have arrived later",
        text="own",
    )


class Arrivals(NamedTuple):
    """Who came when to each matched collective, ns on the common clock."""

    first: I64
    last: I64
    late: I64
    """Position of the rank that was ready last, the first of several."""
    own: I64
    """How much later than the last but one it was ready by itself: without what the collective before it ended later.
    While ranks compute beside a series of collectives, one that is late at the first is so at all: the most counts."""


def arrivals(matches: Matches) -> Arrivals:
    """Of all collectives, in one pass."""
    late, near = _last_two(matches)
    own = matches.undisturbed[late] - matches.undisturbed[near] - _inherited(matches, late, near)
    rank = matches.rank[late].astype(np.int64)
    own = largest_of(own, rank, matches.series)
    return Arrivals(matches.least(matches.start), matches.most(matches.start), rank, own)


def _last_two(matches: Matches) -> tuple[I64, I64]:
    """The part of each collective that was ready last, and last but one; twice the same where one rank takes part."""
    least, left = np.iinfo(np.int64).min, matches.undisturbed.copy()
    late = _first_of(matches, left == matches.most(left)[matches.collective])
    left[late] = least
    second = matches.most(left)
    return late, np.where(second == least, late, _first_of(matches, left == second[matches.collective]))


def _first_of(matches: Matches, which: Bool) -> I64:
    """The first of these parts of each collective, each of which has one."""
    rows = np.flatnonzero(which)
    collective = matches.collective[rows]
    return rows[np.append(True, collective[1:] != collective[:-1])[: len(rows)]]


def _inherited(matches: Matches, late: I64, near: I64) -> I64:
    """How much later than that of the rank before it the collective ended that the last one came from, where these are
    two: it was late by the ranks of that one, ns."""
    begun, other = matches.before[late], matches.before[near]
    apart = (begun >= 0) & (other >= 0) & (matches.collective[begun] != matches.collective[other])
    free, free_too = (
        np.minimum(matches.end[begun], matches.undisturbed[late]),
        np.minimum(matches.end[other], matches.undisturbed[near]),
    )
    return np.where(apart, np.clip(free - free_too, 0, matches.undisturbed[late] - matches.undisturbed[near]), 0)


def skew_rows(matches: Matches, came: Arrivals, labels: Sequence[int], steps: int) -> list[CollectiveSkew]:
    """A row for each sort of matched collective, by transfer plus skew; `labels` name the ranks."""
    groups = {name: i for i, name in enumerate(dict.fromkeys(matches.group))}
    group = np.array([groups[name] for name in matches.group], np.int64)
    end = matches.most(matches.end)
    # Several groups may share a name: those of other ranks are other groups.
    chosen = np.flatnonzero(matches.steady)
    keys = (matches.kind, group, matches.bytes, matches.group_size, ranked(matches.members)[1])
    rows = [
        _row(matches, came, end, labels, steps, chosen[part]) for part in Groups.of(*(key[chosen] for key in keys)).rows
    ]
    return sorted(rows, key=lambda row: -(row.transfer_ms + row.skew_ms))


def _row(matches: Matches, came: Arrivals, end: I64, labels: Sequence[int], steps: int, chosen: I64) -> CollectiveSkew:
    first, last, one = came.first[chosen], came.last[chosen], int(chosen[0])
    transfer, skew = np.maximum(end[chosen] - last, 0), last - first
    often = np.bincount(came.late[chosen])
    members, size = int(matches.first[one + 1] - matches.first[one]), int(matches.group_size[one])
    return CollectiveSkew(
        collective=KINDS[matches.kind[one]],
        group=matches.group[one],
        message_bytes=int(matches.bytes[one]) if matches.bytes[one] >= 0 else None,
        ranks=members,
        group_size=size if size > 0 else None,
        count=len(chosen) / steps,
        transfer_ms=float(transfer.sum()) / NS_PER_MS / steps,
        skew_ms=float(skew.sum()) / NS_PER_MS / steps,
        transfer_us=float(transfer.mean()) / NS_PER_US,
        skew_p95_us=float(np.percentile(skew, 95)) / NS_PER_US,
        last_rank=labels[int(often.argmax())],
        last_share=float(often.max() / len(chosen)),
        cause=_cause(transfer, skew, matches.clocks.spread_ns, members < size),
    )


def _cause(transfer: I64, skew: I64, uncertain_ns: float, incomplete: bool) -> str:
    both = float(transfer.mean() + skew.mean())
    if len(transfer) < MIN_COUNT or abs(float(transfer.mean() - skew.mean())) <= uncertain_ns:
        return "inconclusive"
    if skew.mean() >= DOMINANT * both:
        return "arrival skew"
    if transfer.mean() >= DOMINANT * both and not incomplete:
        return "transfer"
    return "inconclusive"
