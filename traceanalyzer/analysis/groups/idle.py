"""Idle time of the recording: what of it lies between queued ops, and its longest gaps."""

from __future__ import annotations

import numpy as np

from traceanalyzer.analysis.algebra.intervals import measure, union
from traceanalyzer.analysis.causes.causes import Causes
from traceanalyzer.analysis.causes.gaps import IdleCause
from traceanalyzer.analysis.tables.gap_details import gap_details
from traceanalyzer.base.figures import ms


def queued_idle_ms(explained: Causes) -> float:
    """Idle time a recorded step of cause launch whose next op had been queued before the gap began."""
    gaps, steps = explained.gaps, explained.timed.steps
    if explained.timed.device is None:
        return 0.0
    rows = (gaps.cause == IdleCause.LAUNCH) & (gaps.queued == 1) & (gaps.device == explained.timed.device)
    idle = measure(union(gaps.start[rows], gaps.end[rows]), steps.start[steps.steady], steps.end[steps.steady])
    return ms(idle.mean())


def longest_gaps(explained: Causes, cause: IdleCause, count: int = 2) -> list[tuple[float, str]]:
    """Length, ms, and description of the longest gaps of a cause in the steady state."""
    gaps = explained.gaps
    rows = np.flatnonzero(
        (gaps.cause == cause) & (gaps.step >= explained.timed.steps.warmup) & (gaps.device == explained.timed.device)
    )
    rows = rows[np.argsort(-gaps.duration[rows], kind="stable")][:count]
    return list(zip(map(ms, gaps.duration[rows]), gap_details(explained.timed, gaps, rows), strict=True))
