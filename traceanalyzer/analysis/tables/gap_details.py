"""The cause of a gap in words."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import numpy as np

from traceanalyzer.analysis.algebra.grouping import Groups
from traceanalyzer.analysis.algebra.lookup import at, one_of
from traceanalyzer.analysis.causes.details import IdleDetail
from traceanalyzer.analysis.causes.frames import python_frames
from traceanalyzer.analysis.causes.gaps import Gaps, IdleCause
from traceanalyzer.analysis.joined.linked import Linked
from traceanalyzer.analysis.names.kernel_names import short_name
from traceanalyzer.analysis.tables.syncs import op_path, same_path
from traceanalyzer.analysis.time.dominant import dominant_nodes
from traceanalyzer.analysis.time.timed import Timed
from traceanalyzer.base.cut import cut
from traceanalyzer.trace import I32, I64

LONGEST_NAME = 60
"""Characters of an op's name in a sentence."""
OF_NO_CALL = (int(IdleDetail.PAGE_MIGRATION), int(IdleDetail.MANAGED_LOOP), int(IdleDetail.LOST))
"""Details that say all, whatever the host did."""


def gap_details(timed: Timed, gaps: Gaps, chosen: I64) -> list[str]:
    """For each of these gaps (rows) its cause in words: what the host was doing, and the op that ended it."""
    some = gaps.take(chosen)
    followed = some.next_op >= 0
    launched = some.end.copy()
    launched[followed] = timed.linked.launch_times_of(some.next_op[followed])
    on_host = (some.cause != IdleCause.SYNC) & ~one_of(some.detail, OF_NO_CALL) & (some.queued == 0)
    on_host &= ~followed | (launched >= 0)
    host = _host_activities(timed, some.take(on_host), launched[on_host])
    return [
        (next(host) if told else _other_cause(timed, some, i)) + end
        for i, (told, end) in enumerate(zip(on_host.tolist(), _ends(timed, some.next_op), strict=True))
    ]


def _ends(timed: Timed, next_op: I32) -> Iterator[str]:
    @cache
    def ended_by(code: int, is_kernel: bool) -> str:
        name = timed.trace.strings[code]
        return f"; ended by {cut(short_name(name) if is_kernel else name, LONGEST_NAME)}"

    names, kernels = at(timed.trace.device_ops.name, next_op, -1), at(timed.linked.is_kernel, next_op, False)
    for op, code, is_kernel in zip(next_op.tolist(), names.tolist(), kernels.tolist(), strict=True):
        yield ended_by(code, is_kernel) if op >= 0 else "; nothing follows"


def _other_cause(timed: Timed, gaps: Gaps, i: int) -> str:
    """The cause of a gap in which it does not matter what the host did, or is not known."""
    cause, named = IdleCause(gaps.cause[i]), IdleDetail(gaps.detail[i])
    if cause == IdleCause.SYNC:
        return _waited(timed.linked, int(gaps.sync[i]))
    if named in OF_NO_CALL:
        return named.label
    if gaps.queued[i]:
        known = "device-side latency" if cause == IdleCause.LAUNCH else "it waited for something not recorded"
        return f"the next op was already queued: {known}"
    return "the launch of the next op was not recorded"


def _waited(linked: Linked, call: int) -> str:
    name = linked.trace.strings[linked.trace.api_calls.name[call]]
    path = op_path(linked, int(linked.tree.node_of_call[call]))
    return f"queue drained by {name}" + (f" in {path}" if path else "")


def _host_activities(timed: Timed, gaps: Gaps, launched: I64) -> Iterator[str]:
    """What the host did for the longest time between the start of each gap and the launch."""
    until = np.maximum(launched, gaps.start + 1)
    launch = at(timed.linked.launch, gaps.next_op, -1)
    nodes, threads = dominant_nodes(timed.timeline, gaps.start, until, at(timed.trace.api_calls.thread, launch, -1))
    launching = gaps.cause == IdleCause.LAUNCH
    # Most gaps are told in words that others are told in, too.
    names, path = _names(timed.linked, nodes), same_path(timed.linked, at(timed.linked.tree.parent, nodes, -1))
    alike = Groups.of(names, path, threads, launching, gaps.detail)
    told = []
    for i in alike.first.tolist():
        named, thread = IdleDetail(gaps.detail[i]), int(threads[i])
        where = f" on thread {timed.trace.threads[thread].tid}" if thread >= 0 else ""
        within = _within(timed.linked, int(nodes[i]), int(names[i]), bool(launching[i]))
        told.append((f"{named.label}: " if named else "") + within + where)
    columns = (alike.index, threads, gaps.start, until)
    for group, thread, start, end in zip(*(column.tolist() for column in columns), strict=True):
        frames = python_frames(timed, thread, start, end)
        yield told[group] + (f" at {frames}" if frames else "")


def _names(linked: Linked, nodes: I64) -> I32:
    """Name (code) of the range or call that each node of the host tree is, -1 for -1."""
    names, calls = linked.tree.names(nodes), np.flatnonzero(at(linked.tree.is_call, nodes, False))
    names[calls] = linked.trace.api_calls.name[linked.tree.row[nodes[calls]]]
    return names


def _within(linked: Linked, node: int, name: int, launching: bool) -> str:
    """Where the host was, by the node of its tree and that node's name (code)."""
    if node < 0:
        return "host between launches" if launching else "host outside operators and calls"
    path = op_path(linked, int(linked.tree.parent[node]))
    return f"host in {linked.trace.strings[name]}" + (f" (in {path})" if path else "")
