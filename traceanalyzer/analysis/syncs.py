"""Points where the host waits for the device, and what the device lost by it.

How long the host waited says little: waiting for a busy device is benign. What a wait costs is the device's
idle time after it, until the host is ahead again (`gaps`, cause sync).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from traceanalyzer.analysis.intervals import measure
from traceanalyzer.analysis.metric import metric, ms
from traceanalyzer.trace import RangeKind

if TYPE_CHECKING:
    from traceanalyzer.analysis.context import Context
    from traceanalyzer.analysis.gaps import Gaps
    from traceanalyzer.trace import I64

BENIGN_IDLE_SHARE = 0.001
"""Waits from one place that cost the device less than this share of the step are called benign."""


@dataclass(frozen=True)
class SyncRow:
    """Waits for the device from one place in the program."""

    rank: int | None = metric("rank of the process")
    call: str = metric("API call that waited")
    op: str | None = metric("operators around the call, outermost first")
    python: str | None = metric("line of the program, where stacks were recorded")
    calls: float = metric("calls a step")
    host_wait_ms: float = metric("time the host spent in these calls a step", "ms")
    device_busy_share: float | None = metric("share of the host's wait in which the device was working", "share")
    gpu_idle_ms: float = metric("device idle time a step because the queue had been drained by these waits", "ms")
    benign: bool = metric("whether the device lost (almost) nothing by them")


def sync_rows(ctx: Context, gaps: Gaps) -> list[SyncRow]:
    """A row for each place that waits in the steady state, by device idle time, then host wait."""
    calls = ctx.trace.api_calls
    rows = np.flatnonzero(ctx.blocks & ctx.steady_host(calls.start))
    if not len(rows):
        return []
    labels = [_place(ctx, int(r)) for r in rows]
    places = {label: i for i, label in enumerate(dict.fromkeys(labels))}
    place = np.array([places[label] for label in labels])
    idle = np.bincount(place, weights=_idle_after(ctx, gaps, rows), minlength=len(places))
    wait = np.bincount(place, weights=calls.end[rows] - calls.start[rows], minlength=len(places))
    busy = np.bincount(place, weights=_device_busy(ctx, calls.start[rows], calls.end[rows]), minlength=len(places))
    count = np.bincount(place, minlength=len(places))
    steps, mean_step = ctx.steps.steady_count, float(np.mean(ctx.steps.duration[ctx.steps.steady]))
    table = [
        SyncRow(
            rank=ctx.trace.rank,
            call=label[0],
            op=label[1],
            python=label[2],
            calls=float(count[i]) / steps,
            host_wait_ms=ms(wait[i] / steps),
            device_busy_share=float(busy[i] / wait[i]) if wait[i] and ctx.device is not None else None,
            gpu_idle_ms=ms(idle[i] / steps),
            benign=bool(idle[i] / steps < BENIGN_IDLE_SHARE * mean_step),
        )
        for label, i in places.items()
    ]
    return sorted(table, key=lambda row: (-row.gpu_idle_ms, -row.host_wait_ms))


def _place(ctx: Context, row: int) -> tuple[str, str | None, str | None]:
    calls = ctx.trace.api_calls
    frame = ctx.python.source_line(int(calls.thread[row]), int(calls.start[row]))
    return ctx.trace.strings[calls.name[row]], op_path(ctx, int(ctx.tree.node_of_call[row])), frame


MOST_LEVELS = 64
"""Of a path of operators the innermost: programs nest about ten."""


def op_path(ctx: Context, node: int) -> str | None:
    """Operators that enclose a node of the host tree, outermost first, as `a > b`; None outside all."""
    tree, ranges = ctx.tree, ctx.trace.host_ranges
    names: list[str] = []
    for _ in range(MOST_LEVELS):
        if node < 0:
            break
        row = int(tree.row[node])
        if not tree.is_call[node] and ranges.kind[row] == RangeKind.OP:
            names.append(ctx.trace.strings[ranges.name[row]])
        node = int(tree.parent[node])
    return " > ".join(reversed(names)) or None


def _idle_after(ctx: Context, gaps: Gaps, rows: I64) -> I64:
    """Idle time on the step's device that each of these calls caused within steady steps, ns."""
    steps, first = ctx.steps, ctx.steps.warmup
    caused = np.flatnonzero((gaps.sync >= 0) & (gaps.device == (-1 if ctx.device is None else ctx.device)))
    window = (int(steps.start[first]), int(steps.end[-1]))
    length = np.minimum(gaps.end[caused], window[1]) - np.maximum(gaps.start[caused], window[0])
    by_call = np.zeros(len(ctx.trace.api_calls), np.int64)
    np.add.at(by_call, gaps.sync[caused], np.maximum(length, 0))
    return by_call[rows]


def _device_busy(ctx: Context, start: I64, end: I64) -> I64:
    if ctx.device is None:
        return np.zeros(len(start), np.int64)
    return measure(ctx.activity[ctx.device].busy, start, end)
