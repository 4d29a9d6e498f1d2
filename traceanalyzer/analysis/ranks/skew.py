"""What collectives cost across ranks: transferring, or waiting for the rank that arrives last. And
the bytes that ranks send each other directly, from the sends and receives that say their peer."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from traceanalyzer.analysis.algebra import Groups, percentiles, where_changed
from traceanalyzer.analysis.names.collectives import (
    KINDS,
    collective_kind,
    element_bytes,
    message_bytes,
)
from traceanalyzer.analysis.ranks.matches import Matches, largest_of
from traceanalyzer.analysis.time.timed import Timed
from traceanalyzer.base import NS_PER_MS, NS_PER_US, dataclass, metric
from traceanalyzer.trace import I32, I64, Bool, distinct, distinct_places

DOMINANT = 0.6
"""Share of its time, from the first arrival to the end, that makes a collective one or the
other."""
MIN_COUNT = 3  # one or two collectives tell nothing about the rest


@dataclass(frozen=True)
class CollectiveSkew:
    """Collectives of one kind, process group and message size, matched across ranks, in the steady
    state."""

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
        "transfer or arrival skew, whichever takes most of the time; inconclusive where neither does, "
        "the clocks are too uncertain, there are too few, or ranks are missing that may have arrived "
        "later",
        text="own",
    )


class Arrivals(NamedTuple):
    """Who came when to each matched collective, ns on the common clock."""

    first: I64
    last: I64
    late: I64  # position of the rank that was ready last, the first of several
    own: I64
    """How much later than the last but one it was ready by itself: without what the collective
    before it ended later. While ranks compute beside a series of collectives, one that is late at
    the first is so at all: the most counts."""


def arrivals(matches: Matches) -> Arrivals:
    """Arrivals at all collectives, in one pass."""
    # The part of each that was ready last, and last but one; twice the same where one rank takes
    # part.
    never = np.iinfo(np.int64).min
    ready = matches.undisturbed
    left = ready.copy()
    late = _first_of(matches, left == matches.most(left)[matches.collective])
    left[late] = never
    second = matches.most(left)
    near = np.where(second == never, late, _first_of(matches, left == second[matches.collective]))
    # Where the last one came from a collective that ended later than that of the rank before it, it
    # was late by the ranks of that one.
    begun = matches.before[late]
    other = matches.before[near]
    apart = (begun >= 0) & (other >= 0) & (matches.collective[begun] != matches.collective[other])
    later = np.minimum(matches.end[begun], ready[late]) - np.minimum(
        matches.end[other], ready[near]
    )
    inherited = np.where(apart, np.clip(later, 0, ready[late] - ready[near]), 0)
    rank = matches.rank[late].astype(np.int64)
    own = largest_of(ready[late] - ready[near] - inherited, rank, matches.series)
    return Arrivals(matches.least(matches.start), matches.most(matches.start), rank, own)


def _first_of(matches: Matches, which: Bool) -> I64:
    """The first of these parts of each collective, each of which has one."""
    rows = np.flatnonzero(which)
    collective = matches.collective[rows]
    return rows[where_changed(collective)]


def skew_rows(
    matches: Matches, came: Arrivals, labels: Sequence[int], steps: int
) -> list[CollectiveSkew]:
    """A row for each sort of matched collective, by transfer plus skew; `labels` name the ranks."""
    groups = {name: i for i, name in enumerate(dict.fromkeys(matches.group))}
    group = np.array([groups[name] for name in matches.group], np.int64)
    # Several groups may share a name: those of other ranks are other groups.
    chosen = np.flatnonzero(matches.steady)
    end = matches.most(matches.end)
    keys = (
        matches.kind,
        group,
        matches.bytes,
        matches.group_size,
        distinct_places(matches.members)[1],
    )
    sorts = Groups.of(*(key[chosen] for key in keys)).rows
    rows = [_row(matches, came, end, labels, steps, chosen[part]) for part in sorts]
    return sorted(rows, key=lambda row: -(row.transfer_ms + row.skew_ms))


def _row(
    matches: Matches, came: Arrivals, end: I64, labels: Sequence[int], steps: int, chosen: I64
) -> CollectiveSkew:
    first = came.first[chosen]
    last = came.last[chosen]
    sample = int(chosen[0])
    transfer = np.maximum(end[chosen] - last, 0)
    skew = last - first
    often = np.bincount(came.late[chosen])
    members = int(matches.first[sample + 1] - matches.first[sample])
    size = int(matches.group_size[sample])
    return CollectiveSkew(
        collective=KINDS[matches.kind[sample]],
        group=matches.group[sample],
        message_bytes=int(matches.bytes[sample]) if matches.bytes[sample] >= 0 else None,
        ranks=members,
        group_size=size if size > 0 else None,
        count=len(chosen) / steps,
        transfer_ms=float(transfer.sum()) / NS_PER_MS / steps,
        skew_ms=float(skew.sum()) / NS_PER_MS / steps,
        transfer_us=float(transfer.mean()) / NS_PER_US,
        skew_p95_us=percentiles(skew, 95)[0] / NS_PER_US,
        last_rank=labels[int(often.argmax())],
        last_share=float(often.max() / len(chosen)),
        cause=_cause(transfer, skew, matches.clocks.spread_ns, members < size),
    )


def _cause(transfer: I64, skew: I64, uncertain_ns: float, incomplete: bool) -> str:
    moving = float(transfer.mean())
    waiting = float(skew.mean())
    if len(transfer) < MIN_COUNT or abs(moving - waiting) <= uncertain_ns:
        return "inconclusive"
    if waiting >= DOMINANT * (moving + waiting):
        return "arrival skew"
    return (
        "transfer" if moving >= DOMINANT * (moving + waiting) and not incomplete else "inconclusive"
    )


@dataclass(frozen=True)
class TrafficRow:
    """What one rank sends another in a mean steady step."""

    sender: int = metric("rank that sends")
    receiver: int = metric("rank that receives")
    messages: float = metric("messages a step")
    bytes: float | None = metric(
        "bytes a step; null where the size of a message is not known", "bytes"
    )
    seen_by: str = metric(
        "whose recording tells: the sender's, or the receiver's where the sender's does not"
    )


def traffic(recordings: Sequence[Timed]) -> list[TrafficRow]:
    """A row for each pair of ranks, by bytes; empty where no send or receive says its peer."""
    found: dict[tuple[int, int], TrafficRow] = {}
    for kind in ("send", "recv"):
        for i, timed in enumerate(recordings):
            rank = i if timed.trace.rank is None else timed.trace.rank
            for row in _rows(timed, rank, kind):
                found.setdefault((row.sender, row.receiver), row)

    def place_of(row: TrafficRow) -> tuple[float, int, int]:
        return -(row.bytes or 0), row.sender, row.receiver

    return sorted(found.values(), key=place_of)


def _rows(timed: Timed, rank: int, kind: str) -> Iterator[TrafficRow]:
    """What a rank's recording says of its sends, or of its receives, in the steady state."""
    table = timed.trace.collectives
    rows = _steady_rows(timed)
    rows = rows[(_is_kind(timed, kind) & (table.peer >= 0))[rows]]
    sizes = _message_sizes(timed, kind)
    steps = timed.steps.steady_count
    for peer in distinct(table.peer[rows]).tolist():
        size = sizes[rows[table.peer[rows] == peer]]
        yield TrafficRow(
            sender=rank if kind == "send" else peer,
            receiver=peer if kind == "send" else rank,
            messages=len(size) / steps,
            bytes=float(size.sum()) / steps if (size >= 0).all() else None,
            seen_by="sender" if kind == "send" else "receiver",
        )


def _steady_rows(timed: Timed) -> I32:
    """Rows of `Trace.collectives` of the calls in steady steps."""
    ranges = timed.trace.host_ranges
    first = timed.steps.host_start[timed.steps.warmup]
    last = timed.steps.host_end[-1]
    within = (ranges.start >= first) & (ranges.start < last)
    rows: I32 = ranges.collective[within & (ranges.collective >= 0)]
    return rows


def _is_kind(timed: Timed, kind: str) -> Bool:
    """Which rows of `Trace.collectives` are of a kind."""
    names = timed.trace.collectives.name.tolist()
    return np.array([collective_kind(timed.trace.text(name) or "") == kind for name in names], bool)


def _message_sizes(timed: Timed, kind: str) -> I64:
    """Bytes of each row of `Trace.collectives`, -1 where they are not known."""
    table = timed.trace.collectives
    elements = [element_bytes(timed.trace.text(dtype) or "") for dtype in table.dtype.tolist()]
    counts = zip(table.in_elements.tolist(), table.out_elements.tolist(), elements, strict=True)
    sizes = [message_bytes(kind, sent, got, -1, each) for sent, got, each in counts]
    return np.array(sizes, np.int64)
