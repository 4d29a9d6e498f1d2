"""Gaps as rows for people: each with its cause in words, and a histogram by length."""

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from traceanalyzer.analysis.algebra import largest
from traceanalyzer.analysis.causes.causes import Causes
from traceanalyzer.analysis.causes.gaps import Gaps, GapSide
from traceanalyzer.analysis.causes.idle_cause import IdleCause
from traceanalyzer.analysis.tables.budget import Idle
from traceanalyzer.analysis.tables.gap_places import gap_details
from traceanalyzer.analysis.tables.syncs import steady_lengths
from traceanalyzer.analysis.time.timed import Timed
from traceanalyzer.base import NS_PER_US, dataclass, metric, ms
from traceanalyzer.trace import I64


@dataclass(frozen=True)
class GapRow:
    """A stretch in which a device had no work."""

    rank: int | None = metric("rank of the process")
    device: int = metric("CUDA ordinal of the device")
    start_ns: int = metric("start on the recording's own clock")
    duration_ns: int = metric("length of the gap")
    step: int | None = metric("index of the step whose work ended the gap")
    cause: str = metric("what the device was waiting for", text="own")
    detail: str = metric("what the host was doing, and the op that ended the gap", text="sentence")


@dataclass(frozen=True)
class GapHistogramRow:
    """Gaps of the steady state whose length lies in a decade."""

    length: str = metric("range of gap lengths")
    scale: str = metric("micro: latency between ops that follow each other; macro: the device ran dry", text="own")
    gaps: float = metric("gaps a step")
    idle_ms: float = metric("idle time a step in them")
    launch_ms: float = metric("part of it caused by launching")
    sync_ms: float = metric("part of it caused by waits for the device")
    other_ms: float = metric("part of it with any other cause")


BOUNDS_US = (0, 2, 5, 10, 50, 100, 1_000, 10_000, float("inf"))
MICRO_GAP_US = 10
"""Gaps up to this are latency of launching and of the device's front end; longer ones mean that it ran dry."""


def gap_rows(timed: Timed, gaps: Gaps, chosen: I64) -> list[GapRow]:
    """Rows for the chosen gaps, in the order given."""
    first, some, rank = timed.steps.first, gaps.take(chosen), timed.trace.rank
    labels = [cause.label for cause in IdleCause]
    step = [first + step if timed.steps.found and step >= 0 else None for step in some.step.tolist()]
    columns = (some.device.tolist(), some.start.tolist(), some.duration.tolist(), step)
    causes = (labels[cause] for cause in some.cause.tolist())
    return [GapRow(rank, *row) for row in zip(*columns, causes, gap_details(timed, gaps, chosen), strict=True)]


def longest_gaps(explained: Causes, top: int | None, min_us: float) -> list[GapRow]:
    """Rows of the gaps of at least that length, in time order; of all, or of the `top` longest. Of the longest ones
    those are listed, too, that a step begins or ends with: they are part of its idle time."""
    gaps, steps = explained.gaps, explained.timed.steps
    listed = (gaps.side == GapSide.INSIDE) | ((top is not None) & steps.found & (gaps.step >= 0))
    chosen = listed & (gaps.duration >= min_us * NS_PER_US)
    if explained.timed.only_step is not None:
        chosen &= (gaps.end > steps.start[0]) & (gaps.start < steps.end[-1])
    index = np.flatnonzero(chosen)
    if top is not None:
        index = np.sort(index[largest(gaps.duration[index], top)])
    return gap_rows(explained.timed, gaps, index)


def gap_histogram(timed: Timed, gaps: Gaps) -> list[GapHistogramRow]:
    """Gaps of the steady state on the step's device by length, clipped to the steps' windows."""
    steps, rows = timed.steps.steady_count, []
    for length, cause, low, high in _by_length(timed, gaps):
        total = ms(length.sum() / steps)
        launch, sync = (ms(length[cause == one].sum() / steps) for one in (IdleCause.LAUNCH, IdleCause.SYNC))
        scale, other = "micro" if high <= MICRO_GAP_US * NS_PER_US else "macro", max(total - launch - sync, 0.0)
        rows.append(GapHistogramRow(_range(low, high), scale, len(length) / steps, total, launch, sync, other))
    return rows


def idle_by_length(timed: Timed, gaps: Gaps) -> dict[str, Idle]:
    """Idle time of the mean steady step by cause for each length of the histogram."""
    steps = timed.steps.steady_count
    return {
        _range(low, high): Idle(*(ms(ns / steps) for ns in np.bincount(cause, length, len(IdleCause)).tolist()))
        for length, cause, low, high in _by_length(timed, gaps)
    }


def _by_length(timed: Timed, gaps: Gaps) -> Iterator[tuple[I64, I64, float, float]]:
    """Lengths and causes of the gaps of each range that has some, and its ends."""
    length = steady_lengths(timed, gaps)
    length, cause = length[length > 0], gaps.cause[length > 0]
    bounds = np.array(BOUNDS_US) * NS_PER_US
    for low, high in pairwise(bounds.tolist()):
        inside = (length >= low) & (length < high)
        if inside.any():
            yield length[inside], cause[inside], low, high


def _range(low: float, high: float) -> str:
    def text(ns: float) -> str:
        return f"{ns / 1e3:g} us" if ns < 1e6 else f"{ns / 1e6:g} ms"

    return f"{text(low)} to {text(high)}" if high != float("inf") else f"over {text(low)}"
