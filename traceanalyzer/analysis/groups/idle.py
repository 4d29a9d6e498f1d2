"""Idle time of the recorded step: what lies between queued ops, what `IdleDetail` says of it, its
longest gaps."""

import numpy as np

from traceanalyzer.analysis.algebra import isin_few, measure, union
from traceanalyzer.analysis.causes.causes import Causes
from traceanalyzer.analysis.causes.details import FAULT_NS, IdleDetail
from traceanalyzer.analysis.causes.idle_cause import IdleCause
from traceanalyzer.analysis.tables.gap_rows import gap_details
from traceanalyzer.base import ms
from traceanalyzer.trace import I64, Bool

MANAGED = (IdleDetail.PAGE_MIGRATION, IdleDetail.MANAGED_LOOP)
OF_NO_WORK = (IdleDetail.NONE, IdleDetail.LOST, IdleDetail.MISSING, IdleDetail.NEIGHBOUR)
"""Details that are no work of the host."""
MOSTLY = 0.5  # a detail of more than half of the host's idle time names it


def queued_idle_ms(explained: Causes) -> float:
    """Idle time a recorded step of cause launch whose next op had been queued before the gap
    began."""
    return _mean_ms(
        explained, (explained.gaps.cause == IdleCause.LAUNCH) & (explained.gaps.queued == 1)
    )


def detail_ms(explained: Causes, detail: IdleDetail) -> float:
    """Idle time a recorded step of this detail, ms. Of a pause before a migration only its fault is
    migration."""
    gaps = explained.gaps
    if detail not in MANAGED:
        return _mean_ms(explained, gaps.detail == detail)
    fault = np.maximum(gaps.start, gaps.end - FAULT_NS)
    start, end = (fault, gaps.end) if detail is IdleDetail.PAGE_MIGRATION else (gaps.start, fault)
    return _mean_ms(explained, isin_few(gaps.detail, MANAGED), (start, end))


def _mean_ms(explained: Causes, chosen: Bool, part: tuple[I64, I64] | None = None) -> float:
    """Of these gaps, or a part of each, what lies in a mean steady step."""
    gaps = explained.gaps
    steps = explained.timed.steps
    device = explained.timed.device
    if device is None:
        return 0.0
    rows = chosen & (gaps.device == device)
    start, end = part or (gaps.start, gaps.end)
    steady = steps.steady
    during = union(start[rows], end[rows])
    idle = measure(during, steps.start[steady], steps.end[steady])
    return ms(idle.mean())


def longest_gaps_of(
    explained: Causes,
    cause: IdleCause | None = None,
    detail: IdleDetail | None = None,
    count: int = 2,
) -> list[tuple[float, str]]:
    """Length, ms, and description of the longest gaps of a cause, a detail, or both, in the steady
    state."""
    gaps = explained.gaps
    timed = explained.timed
    chosen = (gaps.step >= timed.steps.warmup) & (gaps.device == timed.device)
    for column, wanted in ((gaps.cause, cause), (gaps.detail, detail)):
        chosen &= True if wanted is None else column == wanted
    rows = np.flatnonzero(chosen)
    rows = rows[np.argsort(-gaps.duration[rows], kind="stable")][:count]
    details = gap_details(timed, gaps, rows)
    return list(zip(map(ms, gaps.duration[rows]), details, strict=True))


def by_turns(explained: Causes) -> bool:
    """Whether most of the idle time that no host work explains is another GPU's turn."""
    other = _mean_ms(explained, explained.gaps.cause == IdleCause.OTHER)
    return detail_ms(explained, IdleDetail.NEIGHBOUR) > MOSTLY * other


def main_detail(explained: Causes) -> str:
    """In words what most of the recorded idle time of host work is; empty where no detail is most
    of it."""
    if explained.timed.device is None:
        return ""
    details = [one for one in IdleDetail if one not in OF_NO_WORK]
    time = {detail: detail_ms(explained, detail) for detail in details}
    longest = max(time, key=time.__getitem__)
    return (
        longest.label
        if named_host_share(explained) * time[longest] > MOSTLY * sum(time.values())
        else ""
    )


def named_host_share(explained: Causes) -> float:
    """Share of the recorded idle time of cause host that a detail names."""
    gaps = explained.gaps
    steps = explained.timed.steps
    device = explained.timed.device
    host = (gaps.cause == IdleCause.HOST) & (gaps.device == (-1 if device is None else device))
    total, named = (
        measure(
            union(gaps.start[rows], gaps.end[rows]),
            steps.start[steps.steady],
            steps.end[steps.steady],
        ).sum()
        for rows in (host, host & (gaps.detail > 0))
    )
    return float(named / total) if total else 0.0
