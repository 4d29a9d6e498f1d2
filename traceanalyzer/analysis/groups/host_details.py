"""Idle time of the recorded step by `IdleDetail`, and its longest gaps."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from traceanalyzer.analysis.algebra.intervals import measure, union
from traceanalyzer.analysis.causes.details import IdleDetail
from traceanalyzer.analysis.causes.gaps import IdleCause
from traceanalyzer.analysis.tables.gap_details import gap_details
from traceanalyzer.figures import ms

if TYPE_CHECKING:
    from traceanalyzer.analysis.causes.explained import Explained

HOST_DETAILS = tuple(detail for detail in IdleDetail if detail not in (IdleDetail.NONE, IdleDetail.LOST))
MOSTLY = 0.5
"""A detail of more than half of the host's idle time names it."""


def detail_ms(explained: Explained, detail: IdleDetail) -> float:
    """Idle time a recorded step behind which is this detail, ms."""
    gaps, steps = explained.gaps, explained.steps
    if explained.device is None:
        return 0.0
    rows = (gaps.detail == detail) & (gaps.device == explained.device)
    idle = measure(union(gaps.start[rows], gaps.end[rows]), steps.start[steps.steady], steps.end[steps.steady])
    return ms(idle.mean())


def main_detail(explained: Explained) -> str:
    """In words what most of the recorded idle time of host work is; empty where no detail is most of it."""
    if explained.device is None:
        return ""
    time = {detail: detail_ms(explained, detail) for detail in HOST_DETAILS}
    longest = max(time, key=lambda detail: time[detail])
    share = named_host_share(explained)
    most = share * time[longest] > MOSTLY * sum(time.values())
    return longest.label if most else ""


def named_host_share(explained: Explained) -> float:
    """Share of the recorded idle time of cause host that a detail names."""
    gaps, steps = explained.gaps, explained.steps
    host = (gaps.cause == IdleCause.HOST) & (gaps.device == (-1 if explained.device is None else explained.device))
    window = steps.start[steps.steady], steps.end[steps.steady]
    total, named = (
        measure(union(gaps.start[rows], gaps.end[rows]), *window).sum() for rows in (host, host & (gaps.detail > 0))
    )
    return float(named / total) if total else 0.0


def longest_of(
    explained: Explained, detail: IdleDetail, cause: IdleCause | None = None, count: int = 2
) -> list[tuple[float, str]]:
    """Length, ms, and description of the longest gaps of a detail (and cause) in the steady state."""
    gaps = explained.gaps
    chosen = (gaps.detail == detail) & (gaps.step >= explained.steps.warmup) & (gaps.device == explained.device)
    if cause is not None:
        chosen &= gaps.cause == cause
    rows = np.flatnonzero(chosen)
    rows = rows[np.argsort(-gaps.duration[rows], kind="stable")][:count]
    return list(zip(map(ms, gaps.duration[rows]), gap_details(explained, gaps, rows), strict=True))
