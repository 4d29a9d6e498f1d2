"""Idle time by place (which call, operator or line of the program stands behind a device's gaps), and a gap's cause in
words.
"""

from collections.abc import Iterator
from functools import cache

import numpy as np

from traceanalyzer.analysis.algebra import Groups, RowNumbers, at, blockwise, counts, lean, one_of, scatter, sums, where
from traceanalyzer.analysis.causes.details import OF_NO_CALL, IdleDetail
from traceanalyzer.analysis.causes.frames import python_frames
from traceanalyzer.analysis.causes.gaps import Gaps
from traceanalyzer.analysis.causes.idle_cause import IdleCause
from traceanalyzer.analysis.names.kernel_names import short_name
from traceanalyzer.analysis.tables.path_rows import is_named, names_at, within
from traceanalyzer.analysis.tables.syncs import op_path, same_path, steady_lengths
from traceanalyzer.analysis.time.dominant import dominant_nodes
from traceanalyzer.analysis.time.timed import Timed
from traceanalyzer.base import NS_PER_US, cut, dataclass, metric, ms
from traceanalyzer.trace import I32, I64, Bool, ranked

LONGEST_NAME = 60
"""Characters of an op's name in a sentence."""


def gap_details(timed: Timed, gaps: Gaps, chosen: I64) -> list[str]:
    """For each of these gaps (rows) its cause in words: what the host was doing, and the op that ended it."""
    some = gaps.take(chosen)
    followed, launched = some.next_op >= 0, some.end.copy()
    launched[followed] = timed.linked.launch_times_of(some.next_op[followed])
    on_host = (some.cause != IdleCause.SYNC) & ~one_of(some.detail, OF_NO_CALL) & (some.queued == 0)
    on_host &= ~followed | (launched >= 0)
    host = _host_activities(timed, some.take(on_host), launched[on_host])

    @cache
    def ended_by(code: int, is_kernel: bool) -> str:
        name = timed.trace.strings[code]
        return f"; ended by {cut(short_name(name) if is_kernel else name, LONGEST_NAME)}"

    names, kernels = at(timed.trace.device_ops.name, some.next_op, -1), at(timed.linked.is_kernel, some.next_op, False)
    columns = zip(on_host.tolist(), followed.tolist(), names.tolist(), kernels.tolist(), strict=True)
    return [
        (next(host) if told else _other_cause(timed, some, i)) + (ended_by(*op) if follows else "; nothing follows")
        for i, (told, follows, *op) in enumerate(columns)
    ]


def _other_cause(timed: Timed, gaps: Gaps, i: int) -> str:
    """The cause of a gap in which it does not matter what the host did, or is not known."""
    cause, named = IdleCause(gaps.cause[i]), IdleDetail(gaps.detail[i])
    if cause == IdleCause.SYNC:
        call = int(gaps.sync[i])
        name = timed.trace.strings[timed.trace.api_calls.name[call]]
        path = op_path(timed.linked, int(timed.linked.tree.node_of_call[call]))
        return f"queue drained by {name}" + (f" in {path}" if path else "")
    if named in OF_NO_CALL:
        return named.label
    if gaps.queued[i]:
        known = "device-side latency" if cause == IdleCause.LAUNCH else "it waited for something not recorded"
        return f"the next op was already queued: {known}"
    return "the launch of the next op was not recorded"


def _host_activities(timed: Timed, gaps: Gaps, launched: I64) -> Iterator[str]:
    """What the host did for the longest time between the start of each gap and the launch."""
    until = np.maximum(launched, gaps.start + 1)
    launch = at(timed.linked.launch, gaps.next_op, -1)
    nodes, threads = dominant_nodes(timed.timeline, gaps.start, until, at(timed.trace.api_calls.thread, launch, -1))
    launching = gaps.cause == IdleCause.LAUNCH
    # Most gaps are told in words that others are told in, too.
    tree, trace = timed.linked.tree, timed.trace
    names, path = tree.names(nodes), same_path(timed.linked, at(tree.parent, nodes, -1))
    calls = np.flatnonzero(at(tree.is_call, nodes, False))
    names[calls] = trace.api_calls.name[tree.row[nodes[calls]]]
    alike = Groups.of(names, path, threads, launching, gaps.detail)
    told = []
    for i in alike.first.tolist():
        named, thread, node = IdleDetail(gaps.detail[i]), int(threads[i]), int(nodes[i])
        within = "host between launches" if launching[i] else "host outside operators and calls"
        if node >= 0:
            around = op_path(timed.linked, int(tree.parent[node]))
            within = f"host in {trace.strings[names[i]]}" + (f" (in {around})" if around else "")
        where = f" on thread {trace.threads[thread].tid}" if thread >= 0 else ""
        told.append((f"{named.label}: " if named else "") + within + where)
    columns = (alike.index, threads, gaps.start, until)
    for group, thread, start, end in zip(*(column.tolist() for column in columns), strict=True):
        frames = python_frames(timed, thread, start, end)
        yield told[group] + (f" at {frames}" if frames else "")


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
    idle_ms: float = metric("idle time a step in them")
    share_of_idle: float = metric("that time as a share of the device's idle time: the rows sum to 1", "share")
    longest_us: float = metric("the longest of them")


def gap_places(timed: Timed, gaps: Gaps, min_us: float = 0.0) -> list[GapPlaceRow]:
    """A row for each cause and place of the steady state's gaps, of at least that length, on the step's device, by idle
    time."""
    steps, trace, tree = timed.steps, timed.trace, timed.linked.tree
    length = steady_lengths(timed, gaps)
    chosen = where((length > 0) & (gaps.duration >= min_us * NS_PER_US))
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
    what = np.multiply(name, len(IdleCause), dtype=np.int64)
    what += cause
    keys, group = ranked(what)
    del chosen, sync, waits, name, what
    total, count = sums(group, length, len(keys)), counts(group, len(keys))
    most, longest = np.zeros(len(keys), length.dtype), np.zeros(len(keys), np.int64)
    np.maximum.at(most, group, length)

    def largest(gap: I32, length: I32 | I64, group: I32) -> tuple[I32, I32]:
        chosen = length == most[group]
        return group[chosen], gap[chosen]

    def line(node: int) -> str | None:
        return timed.joined.python.source_line(int(tree.thread[node]), int(tree.start[node])) if node >= 0 else None

    scatter(np.maximum, longest, largest, RowNumbers(len(group)), length, group)  # of several the last one
    outermost = tree.outermost(is_named(timed))
    names = [*trace.strings, NOWHERE, OUTSIDE, *(f"({detail.label})" for detail in IdleDetail)]
    return [
        GapPlaceRow(
            rank=trace.rank, cause=IdleCause(int(keys[g]) % len(IdleCause)).label,
            name=names[int(keys[g]) // len(IdleCause)], within=within(timed.linked, outermost, int(node[longest[g]])),
            python=line(int(node[longest[g]])), gaps=float(count[g]) / steps.steady_count,
            idle_ms=ms(total[g] / steps.steady_count), share_of_idle=float(total[g] / total.sum()),
            longest_us=float(length[longest[g]]) / NS_PER_US,
        )
        for g in np.argsort(-total, kind="stable").tolist()
    ]  # fmt: skip


def nodes_behind(timed: Timed, gaps: Gaps, chosen: I32 | I64) -> I32:
    """For each gap the node of the host tree that stands behind it: the wait, the next op's launch, or what the host
    was in for longest until then; -1: none."""

    def behind(gap: I32 | I64) -> I32:
        sync = gaps.sync[gap]
        node, waits = at(timed.joined.launch_node, gaps.next_op[gap], -1).astype(np.int32, copy=False), sync >= 0
        node[waits] = timed.linked.tree.node_of_call[sync[waits]]
        host = on_host(timed, gaps, gap)
        some = gaps.take(gap[host].astype(np.int64))
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
    return other & known & (gaps.sync[rows] < 0)
