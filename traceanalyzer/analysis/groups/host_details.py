"""Idle time of the recorded step by `IdleDetail`, and its longest gaps."""

from __future__ import annotations

import numpy as np

from traceanalyzer.analysis.algebra.intervals import measure, union
from traceanalyzer.analysis.algebra.lookup import one_of
from traceanalyzer.analysis.causes.causes import Causes
from traceanalyzer.analysis.causes.details import FAULT_NS, IdleDetail
from traceanalyzer.analysis.causes.gaps import IdleCause
from traceanalyzer.analysis.tables.gap_details import gap_details
from traceanalyzer.base.figures import ms

HOST_DETAILS = tuple(detail for detail in IdleDetail if detail not in (IdleDetail.NONE, IdleDetail.LOST))
MANAGED = (IdleDetail.PAGE_MIGRATION, IdleDetail.MANAGED_LOOP)
MOSTLY = 0.5
"""A detail of more than half of the host's idle time names it."""


def detail_ms(explained: Causes, detail: IdleDetail) -> float:
    """Idle time a recorded step behind which is this detail, ms. Of a pause before a migration its fault is migration,
    the rest what the CPU did before it."""
    gaps, steps = explained.gaps, explained.timed.steps
    if explained.timed.device is None:
        return 0.0
    alike = MANAGED if detail in MANAGED else (detail,)
    rows = one_of(gaps.detail, alike) & (gaps.device == explained.timed.device)
    start, end = gaps.start[rows], gaps.end[rows]
    fault = np.maximum(start, end - FAULT_NS)
    start = fault if detail is IdleDetail.PAGE_MIGRATION else start
    end = fault if detail is IdleDetail.MANAGED_LOOP else end
    idle = measure(union(start, end), steps.start[steps.steady], steps.end[steps.steady])
    return ms(idle.mean())


def main_detail(explained: Causes) -> str:
    """In words what most of the recorded idle time of host work is; empty where no detail is most of it."""
    if explained.timed.device is None:
        return ""
    time = {detail: detail_ms(explained, detail) for detail in HOST_DETAILS}
    longest = max(time, key=lambda detail: time[detail])
    share = named_host_share(explained)
    most = share * time[longest] > MOSTLY * sum(time.values())
    return longest.label if most else ""


def named_host_share(explained: Causes) -> float:
    """Share of the recorded idle time of cause host that a detail names."""
    gaps, steps = explained.gaps, explained.timed.steps
    host = (gaps.cause == IdleCause.HOST) & (
        gaps.device == (-1 if explained.timed.device is None else explained.timed.device)
    )
    window = steps.start[steps.steady], steps.end[steps.steady]
    total, named = (
        measure(union(gaps.start[rows], gaps.end[rows]), *window).sum() for rows in (host, host & (gaps.detail > 0))
    )
    return float(named / total) if total else 0.0


def longest_of(
    explained: Causes, detail: IdleDetail, cause: IdleCause | None = None, count: int = 2
) -> list[tuple[float, str]]:
    """Length, ms, and description of the longest gaps of a detail (and cause) in the steady state."""
    gaps = explained.gaps
    chosen = (
        (gaps.detail == detail) & (gaps.step >= explained.timed.steps.warmup) & (gaps.device == explained.timed.device)
    )
    if cause is not None:
        chosen &= gaps.cause == cause
    rows = np.flatnonzero(chosen)
    rows = rows[np.argsort(-gaps.duration[rows], kind="stable")][:count]
    return list(zip(map(ms, gaps.duration[rows]), gap_details(explained.timed, gaps, rows), strict=True))
