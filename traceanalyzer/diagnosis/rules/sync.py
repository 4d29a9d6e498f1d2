"""Findings on waits of the host for the device."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from traceanalyzer.analysis.metric import ms
from traceanalyzer.diagnosis.draft import Draft, Remedy, share
from traceanalyzer.diagnosis.finding import Evidence
from traceanalyzer.trace import RangeKind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traceanalyzer.analysis.measure import Measurements
    from traceanalyzer.trace import I64, Bool

PLACES = 3
"""Waiting places named in the evidence."""
READS = frozenset({"aten::item", "aten::_local_scalar_dense", "aten::is_nonzero"})
"""Operators that exist only to bring a value to the host; without the read they are gone, too."""
AND_THEN = (
    "Remove the waits, then also issue the work faster: a step without waits can be captured in a CUDA graph or "
    "compiled (mode='reduce-overhead'). Without that the host stays too slow to keep the GPU busy."
)


def host_waits(m: Measurements) -> Iterator[Draft]:
    """Waits that emptied the launch queue, so that the device idled until the host had caught up."""
    if m.idle is None or m.idle.sync <= 0:
        return
    costly = [row for row in m.syncs if not row.benign]
    evidence = [
        share(m.idle.sync, m.mean_step_ms, "idle after the queue had been drained by a wait"),
        Evidence("waits per step", sum(r.calls for r in costly), "", "calls that cost the GPU idle time"),
    ]
    evidence += [Evidence("idle caused", r.gpu_idle_ms, "ms", _where(r.call, r.op, r.python)) for r in costly[:PLACES]]
    action = (
        "Stop reading GPU values in the step: replace .item(), .cpu(), print(tensor), tensor truth tests and "
        "cuda.synchronize() by keeping results on the GPU and reading them once every many steps; copy with "
        "non_blocking=True to pinned memory."
    )
    floor = _host_floor_ms(m)
    remedies = [Remedy(action, "no shorter than the host's own work without the reads, profiler attached", floor)]
    if floor is not None and floor > m.mean_step_ms - m.idle.sync:
        remedies.append(Remedy(AND_THEN, "all idle time after waits gone, an upper bound", suffix="-and-launches"))
    yield Draft(
        "host-waits",
        "sync",
        "The host waits for the GPU and leaves its queue empty",
        "idle.sync",
        m.idle.sync,
        evidence,
        remedies,
    )


def _where(call: str, op: str | None, python: str | None) -> str:
    return call + (f" in {op}" if op else "") + (f" at {python}" if python else "")


def _host_floor_ms(m: Measurements) -> float | None:
    """What the host would still need for a step if it neither waited nor read values, ms."""
    if m.host is None:
        return None
    ctx, tree, ranges = m.ctx, m.ctx.tree, m.ctx.trace.host_ranges
    codes = [i for i, name in enumerate(ctx.trace.strings) if name in READS]
    rows = np.flatnonzero(np.isin(ranges.name, codes) & (ranges.kind == RangeKind.OP) & ctx.steady_host(ranges.start))
    nodes = tree.node_of_range[rows]
    outer = rows[~np.isin(tree.parent[nodes], nodes)]
    waited = ctx.blocks & ctx.steady_host(ctx.trace.api_calls.start)
    inside = _covered(ranges.start[outer], ranges.end[outer], ctx.trace.api_calls.start[waited])
    length = (ctx.trace.api_calls.end - ctx.trace.api_calls.start)[waited][inside]
    reading = (ranges.end - ranges.start)[outer].sum() - length.sum()
    return m.host.floor_ms - max(ms(reading / ctx.steps.steady_count), 0.0)


def _covered(start: I64, end: I64, time: I64) -> Bool:
    """Which times lie in one of the intervals (sorted by start)."""
    index = np.searchsorted(start, time, side="right") - 1
    result: Bool = (index >= 0) & (time < end[np.maximum(index, 0)]) if len(start) else np.zeros(len(time), bool)
    return result
