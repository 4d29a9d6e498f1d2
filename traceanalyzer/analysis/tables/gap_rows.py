"""Gaps as rows for people: each with its cause in words, and a histogram by length."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from traceanalyzer.analysis.causes.details import IdleDetail
from traceanalyzer.analysis.causes.frames import python_frames
from traceanalyzer.analysis.causes.gaps import IdleCause
from traceanalyzer.analysis.names.kernel_names import short_name
from traceanalyzer.analysis.tables.syncs import op_path
from traceanalyzer.cut import cut
from traceanalyzer.figures import NS_PER_US, metric, ms

if TYPE_CHECKING:
    from traceanalyzer.analysis.causes.gaps import Gaps
    from traceanalyzer.analysis.joined.linked import Linked
    from traceanalyzer.analysis.time.timed import Timed
    from traceanalyzer.trace import I64


LONGEST_NAME = 60
"""Characters of an op's name in a sentence."""


@dataclass(frozen=True)
class GapRow:
    """A stretch in which a device had no work."""

    rank: int | None = metric("rank of the process")
    device: int = metric("CUDA ordinal of the device")
    start_ns: int = metric("start on the recording's own clock", "ns")
    duration_ns: int = metric("length of the gap", "ns")
    step: int | None = metric("index of the step whose work ended the gap")
    cause: str = metric("what the device was waiting for")
    detail: str = metric("what the host was doing, and the op that ended the gap")


@dataclass(frozen=True)
class GapHistogramRow:
    """Gaps of the steady state whose length lies in a decade."""

    length: str = metric("range of gap lengths")
    scale: str = metric("micro: latency between ops that follow each other; macro: the device ran dry")
    gaps: float = metric("gaps a step")
    idle_ms: float = metric("idle time a step in them", "ms")
    launch_ms: float = metric("part of it caused by launching", "ms")
    sync_ms: float = metric("part of it caused by waits for the device", "ms")
    other_ms: float = metric("part of it with any other cause", "ms")


BOUNDS_US = (0, 2, 5, 10, 50, 100, 1_000, 10_000, float("inf"))
MICRO_GAP_US = 10
"""Gaps up to this are latency of launching and of the device's front end; longer ones mean that it ran dry."""


def gap_rows(timed: Timed, gaps: Gaps, chosen: I64) -> list[GapRow]:
    """Rows for the chosen gaps, in the order given."""
    return [
        GapRow(
            rank=timed.trace.rank,
            device=int(gaps.device[i]),
            start_ns=int(gaps.start[i]),
            duration_ns=int(gaps.end[i] - gaps.start[i]),
            step=timed.steps.first + int(gaps.step[i]) if timed.steps.found and gaps.step[i] >= 0 else None,
            cause=IdleCause(gaps.cause[i]).label,
            detail=detail(timed, gaps, int(i)),
        )
        for i in chosen
    ]


def detail(timed: Timed, gaps: Gaps, i: int) -> str:
    """The cause of a gap in words."""
    cause, next_op, named = IdleCause(gaps.cause[i]), int(gaps.next_op[i]), IdleDetail(gaps.detail[i])
    ends = f"; ended by {cut(_op_name(timed, next_op), LONGEST_NAME)}" if next_op >= 0 else "; nothing follows"
    if cause == IdleCause.SYNC:
        return _waited(timed, int(gaps.sync[i])) + ends
    if named in (IdleDetail.PAGE_MIGRATION, IdleDetail.LOST):
        return named.label + ends
    if gaps.queued[i]:
        known = "device-side latency" if cause == IdleCause.LAUNCH else "it waited for something not recorded"
        return f"the next op was already queued: {known}{ends}"
    if next_op >= 0 and timed.launch_time_of(next_op) < 0:
        return f"the launch of the next op was not recorded{ends}"
    what = f"{named.label}: " if named else ""
    return what + _host_activity(timed, gaps, i) + ends


def _waited(linked: Linked, call: int) -> str:
    name = linked.trace.strings[linked.trace.api_calls.name[call]]
    path = op_path(linked, int(linked.tree.node_of_call[call]))
    return f"queue drained by {name}" + (f" in {path}" if path else "")


def _host_activity(timed: Timed, gaps: Gaps, i: int) -> str:
    """What the host did for the longest time between the gap's start and the launch."""
    next_op = int(gaps.next_op[i])
    start = int(gaps.start[i])
    launch = timed.launch_time_of(next_op) if next_op >= 0 else int(gaps.end[i])
    thread = (
        int(timed.trace.api_calls.thread[timed.launch[next_op]]) if next_op >= 0 and timed.launch[next_op] >= 0 else -1
    )
    node, thread = timed.timeline.dominant_node(start, max(launch, start + 1), thread)
    where = f" on thread {timed.trace.threads[thread].tid}" if thread >= 0 else ""
    frames = python_frames(timed, thread, start, max(launch, start + 1))
    python = f" at {frames}" if frames else ""
    if node < 0:
        return (
            (
                "host between launches"
                if IdleCause(gaps.cause[i]) == IdleCause.LAUNCH
                else "host outside operators and calls"
            )
            + where
            + python
        )
    tree, trace = timed.tree, timed.trace
    names = trace.api_calls.name if tree.is_call[node] else trace.host_ranges.name
    name = trace.strings[names[tree.row[node]]]
    path = op_path(timed, int(tree.parent[node]))
    return f"host in {name}" + (f" (in {path})" if path else "") + where + python


def _op_name(linked: Linked, op: int) -> str:
    name = linked.trace.strings[int(linked.trace.device_ops.name[op])]
    return short_name(name) if linked.is_kernel[op] else name


def gap_histogram(timed: Timed, gaps: Gaps) -> list[GapHistogramRow]:
    """Gaps of the steady state on the step's device by length, clipped to the steps' windows."""
    steps = timed.steps
    window = (int(steps.start[steps.warmup]), int(steps.end[-1]))
    start, end = np.maximum(gaps.start, window[0]), np.minimum(gaps.end, window[1])
    here = (end > start) & (gaps.device == (-1 if timed.device is None else timed.device))
    length, cause = (end - start)[here], gaps.cause[here]
    bounds = np.array(BOUNDS_US) * NS_PER_US
    rows = []
    for low, high in pairwise(bounds.tolist()):
        inside = (length >= low) & (length < high)
        if inside.any():
            rows.append(_histogram_row(length[inside], cause[inside], low, high, steps.steady_count))
    return rows


def _histogram_row(length: I64, cause: I64, low: float, high: float, steps: int) -> GapHistogramRow:
    def spent(which: IdleCause) -> float:
        return ms(length[cause == which].sum() / steps)

    total = ms(length.sum() / steps)
    launch, sync = spent(IdleCause.LAUNCH), spent(IdleCause.SYNC)
    return GapHistogramRow(
        length=_range(low, high),
        scale="micro" if high <= MICRO_GAP_US * NS_PER_US else "macro",
        gaps=len(length) / steps,
        idle_ms=total,
        launch_ms=launch,
        sync_ms=sync,
        other_ms=max(total - launch - sync, 0.0),
    )


def _range(low: float, high: float) -> str:
    def text(ns: float) -> str:
        return f"{ns / 1e3:g} us" if ns < 1e6 else f"{ns / 1e6:g} ms"

    return f"{text(low)} to {text(high)}" if high != float("inf") else f"over {text(low)}"
