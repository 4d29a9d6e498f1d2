"""Idle time by place: which call, operator or line of the program stands behind a device's gaps."""

from __future__ import annotations

import numpy as np

from traceanalyzer.analysis.algebra.blocks import RowNumbers, blockwise, scatter
from traceanalyzer.analysis.algebra.grouping import counts, sums
from traceanalyzer.analysis.algebra.lean import lean
from traceanalyzer.analysis.algebra.lookup import at, where
from traceanalyzer.analysis.causes.gaps import Gaps, IdleCause
from traceanalyzer.analysis.tables.path_rows import is_named, names_at, within
from traceanalyzer.analysis.time.timed import Timed
from traceanalyzer.base.figures import NS_PER_US, metric, ms
from traceanalyzer.base.frozen import dataclass
from traceanalyzer.trace import I32, I64
from traceanalyzer.trace.distinct import ranked

NOWHERE = "(launch not recorded, or outside operators and calls)"


@dataclass(frozen=True)
class GapPlaceRow:
    """Gaps of one cause that one place of the program ended, in a mean steady step."""

    rank: int | None = metric("rank of the process")
    cause: str = metric("what the device was waiting for", text="own")
    name: str = metric("call that had drained the device (cause sync), else operator that launched the next op")
    within: str | None = metric("outermost operator or annotation around the longest of them")
    python: str | None = metric("line of the program at the longest of them, where stacks were recorded")
    gaps: float = metric("gaps a step")
    idle_ms: float = metric("idle time a step in them", "ms")
    share_of_idle: float = metric("that time as a share of the device's idle time: the rows sum to 1", "share")
    longest_us: float = metric("the longest of them", "us")


def gap_places(timed: Timed, gaps: Gaps) -> list[GapPlaceRow]:
    """A row for each cause and place of the steady state's gaps on the step's device, by idle time."""
    steps, trace, tree = timed.steps, timed.trace, timed.linked.tree
    window = (int(steps.start[steps.warmup]), int(steps.end[-1]))
    length = np.minimum(gaps.end, window[1])
    length -= np.maximum(gaps.start, window[0])
    chosen = where((length > 0) & (gaps.device == (-1 if timed.device is None else timed.device)))
    if not len(chosen):
        return []
    length, cause = lean(length[chosen]), gaps.cause[chosen]
    node = nodes_behind(timed, gaps, chosen)
    nowhere = len(trace.strings)
    name = names_at(timed, node, nowhere)
    sync = gaps.sync[chosen]
    waits = (cause == IdleCause.SYNC) & (sync >= 0)
    name[waits] = trace.api_calls.name[sync[waits]]
    del chosen, sync, waits
    what = np.multiply(name, len(IdleCause), dtype=np.int64)
    what += cause
    keys, group = ranked(what)
    del name, what
    total, count = sums(group, length, len(keys)), counts(group, len(keys))
    most, longest = np.zeros(len(keys), length.dtype), np.zeros(len(keys), np.int64)
    np.maximum.at(most, group, length)

    def largest(gap: I32, length: I32 | I64, group: I32) -> tuple[I32, I32]:
        chosen = length == most[group]
        return group[chosen], gap[chosen]

    scatter(np.maximum, longest, largest, RowNumbers(len(group)), length, group)  # of several the last one
    outermost = tree.outermost(is_named(timed))
    return [
        GapPlaceRow(
            rank=trace.rank,
            cause=IdleCause(int(keys[g]) % len(IdleCause)).label,
            name=NOWHERE if keys[g] // len(IdleCause) == nowhere else trace.strings[keys[g] // len(IdleCause)],
            within=within(timed.linked, outermost, int(node[longest[g]])),
            python=_line(timed, int(node[longest[g]])),
            gaps=float(count[g]) / steps.steady_count,
            idle_ms=ms(total[g] / steps.steady_count),
            share_of_idle=float(total[g] / total.sum()),
            longest_us=float(length[longest[g]]) / NS_PER_US,
        )
        for g in np.argsort(-total, kind="stable").tolist()
    ]


def nodes_behind(timed: Timed, gaps: Gaps, chosen: I32 | I64) -> I32:
    """For each gap the node of the host tree that stands behind it: the wait, else the next op's launch; -1: none."""

    def behind(gap: I32 | I64) -> I32:
        sync = gaps.sync[gap]
        node, waits = at(timed.joined.launch_node, gaps.next_op[gap], -1).astype(np.int32, copy=False), sync >= 0
        node[waits] = timed.linked.tree.node_of_call[sync[waits]]
        return node

    return blockwise(behind, chosen)


def _line(timed: Timed, node: int) -> str | None:
    return (
        timed.joined.python.source_line(int(timed.linked.tree.thread[node]), int(timed.linked.tree.start[node]))
        if node >= 0
        else None
    )
