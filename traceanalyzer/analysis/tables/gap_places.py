"""Idle time by place: which call, operator or line of the program stands behind a device's gaps."""

from __future__ import annotations

import numpy as np

from traceanalyzer.analysis.algebra.blocks import RowNumbers, blockwise, scatter
from traceanalyzer.analysis.algebra.grouping import counts, sums
from traceanalyzer.analysis.algebra.lean import lean
from traceanalyzer.analysis.algebra.lookup import at, one_of, where
from traceanalyzer.analysis.causes.details import OF_NO_CALL, IdleDetail
from traceanalyzer.analysis.causes.gaps import Gaps, IdleCause
from traceanalyzer.analysis.tables.path_rows import is_named, names_at, within
from traceanalyzer.analysis.time.dominant import dominant_nodes
from traceanalyzer.analysis.time.timed import Timed
from traceanalyzer.base.figures import NS_PER_US, metric, ms
from traceanalyzer.base.frozen import dataclass
from traceanalyzer.trace import I32, I64, Bool
from traceanalyzer.trace.distinct import ranked

NOWHERE = "(launch not recorded)"
OUTSIDE = "(outside operators and calls)"


@dataclass(frozen=True)
class GapPlaceRow:
    """Gaps of one cause that one place of the program ended, in a mean steady step."""

    rank: int | None = metric("rank of the process")
    cause: str = metric("what the device was waiting for", text="own")
    name: str = metric(
        "where the host was: in the call that had drained the device (cause sync), the operator that launched the next "
        "op (cause launch), else the operator or call in which it was for longest"
    )
    within: str | None = metric("outermost operator or annotation around the longest of them")
    python: str | None = metric("line of the program at the longest of them, where stacks were recorded")
    gaps: float = metric("gaps a step")
    idle_ms: float = metric("idle time a step in them", "ms")
    share_of_idle: float = metric("that time as a share of the device's idle time: the rows sum to 1", "share")
    longest_us: float = metric("the longest of them", "us")


def gap_places(timed: Timed, gaps: Gaps, min_us: float = 0.0) -> list[GapPlaceRow]:
    """A row for each cause and place of the steady state's gaps, of at least that length, on the step's device, by idle
    time."""
    steps, trace, tree = timed.steps, timed.trace, timed.linked.tree
    window = (int(steps.start[steps.warmup]), int(steps.end[-1]))
    length = np.minimum(gaps.end, window[1])
    length -= np.maximum(gaps.start, window[0])
    here = gaps.device == (-1 if timed.device is None else timed.device)
    chosen = where((length > 0) & (gaps.duration >= min_us * NS_PER_US) & here)
    if not len(chosen):
        return []
    length, cause = lean(length[chosen]), gaps.cause[chosen]
    node = nodes_behind(timed, gaps, chosen)
    nowhere = len(trace.strings)
    name = names_at(timed, node, nowhere)
    name[(name == nowhere) & ((node >= 0) | on_host(timed, gaps, chosen))] = nowhere + 1
    sync = gaps.sync[chosen]
    waits = (cause == IdleCause.SYNC) & (sync >= 0)
    name[waits] = trace.api_calls.name[sync[waits]]
    of_no_call = one_of(gaps.detail[chosen], OF_NO_CALL)
    name[of_no_call] = nowhere + 2 + gaps.detail[chosen][of_no_call].astype(np.int64)
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
            name=_name(timed, int(keys[g]) // len(IdleCause)),
            within=within(timed.linked, outermost, int(node[longest[g]])),
            python=_line(timed, int(node[longest[g]])),
            gaps=float(count[g]) / steps.steady_count,
            idle_ms=ms(total[g] / steps.steady_count),
            share_of_idle=float(total[g] / total.sum()),
            longest_us=float(length[longest[g]]) / NS_PER_US,
        )
        for g in np.argsort(-total, kind="stable").tolist()
    ]


def _name(timed: Timed, code: int) -> str:
    strings, special = timed.trace.strings, (NOWHERE, OUTSIDE, *(f"({detail.label})" for detail in IdleDetail))
    return strings[code] if code < len(strings) else special[code - len(strings)]


def nodes_behind(timed: Timed, gaps: Gaps, chosen: I32 | I64) -> I32:
    """For each gap the node of the host tree that stands behind it: the wait, the next op's launch, or what the host
    was in for longest until then; -1: none."""

    def behind(gap: I32 | I64) -> I32:
        sync = gaps.sync[gap]
        node, waits = at(timed.joined.launch_node, gaps.next_op[gap], -1).astype(np.int32, copy=False), sync >= 0
        node[waits] = timed.linked.tree.node_of_call[sync[waits]]
        host = on_host(timed, gaps, gap)
        some = gaps.take(gap[host])
        issued = np.where(some.next_op >= 0, timed.linked.launch_times_of(np.maximum(some.next_op, 0)), some.end)
        call = at(timed.linked.launch, some.next_op, -1)
        until, thread = np.maximum(issued, some.start + 1), at(timed.trace.api_calls.thread, call, -1)
        node[host] = dominant_nodes(timed.timeline, some.start, until, thread)[0]
        return node

    return blockwise(behind, chosen)


def on_host(timed: Timed, gaps: Gaps, rows: I32 | I64) -> Bool:
    """In which of these gaps the host did something else than launch or wait, until it launched what ended it."""
    cause, next_op = gaps.cause[rows], gaps.next_op[rows]
    known = (next_op < 0) | (timed.linked.launch_times_of(np.maximum(next_op, 0)) >= 0)
    other = ~one_of(cause, (IdleCause.LAUNCH, IdleCause.SYNC)) & (gaps.queued[rows] == 0)
    result: Bool = other & known & (gaps.sync[rows] < 0)
    return result


def _line(timed: Timed, node: int) -> str | None:
    return (
        timed.joined.python.source_line(int(timed.linked.tree.thread[node]), int(timed.linked.tree.start[node]))
        if node >= 0
        else None
    )
