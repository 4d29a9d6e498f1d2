"""What grows from step to step: the slope of the bytes alive at each step's end, of the whole and of each line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from traceanalyzer.analysis.memory.phases import site_of
from traceanalyzer.figures import metric

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from traceanalyzer.analysis.memory.lives import Lives
    from traceanalyzer.analysis.memory.phases import Timeline
    from traceanalyzer.snapshot import I64, Stack

Verdict = Literal["leak", "growth", "steady", "unknown"]

WARM_UP = 1
"""Steps that make what stays: optimizer state, workspaces."""
LEAST_STEPS = 4
"""Steps after warm-up that a slope needs."""
MOST_STEPS = 1000
"""More are thinned out: the slope is the same."""
LEAST_BYTES = 512
"""A slope below one block a step is none."""
STILL_GROWS = 0.3
"""Slope of the second half against the whole's: less, and it was warm-up."""
EXPLAINS = 0.5
"""Share of the growth that lines with ever more allocations carry in a leak."""
LEAST_SHARE = 0.02
"""Share of the growth from which a line is named."""
NINETY_PERCENT = 1.645
"""Standard errors to each side of a 90 % interval."""


@dataclass(frozen=True)
class GrowthSite:
    """A line whose bytes grow."""

    site: str = metric("innermost line of the program on the stack of the allocations")
    bytes_per_step: float = metric("growth of what is alive at each step's end", "bytes")
    low: float = metric("low end of its 90 % interval", "bytes")
    high: float = metric("high end of it", "bytes")
    allocations_per_step: float = metric("how many more allocations are alive after each step")
    live_bytes: int = metric("bytes alive at the last step's end", "bytes")
    live_allocations: int = metric("allocations alive there")


@dataclass(frozen=True)
class Growth:
    """Bytes a step, with a 90 % interval; None where there are too few steps."""

    bytes_per_step: float | None
    low: float | None
    high: float | None
    verdict: Verdict
    steps: int
    sites: tuple[GrowthSite, ...]


UNKNOWN = Growth(None, None, None, "unknown", 0, ())


def growth_of(lives: Lives, timeline: Timeline, stacks: Sequence[Stack]) -> Growth:
    """The growth after warm-up."""
    ends = np.array(timeline.steps.ends[WARM_UP:], np.int64)
    if len(ends) > 1 and timeline.phase[ends[-1] - 1] != timeline.phase[ends[-2] - 1]:
        ends = ends[:-1]  # the history stops inside the last step
    if len(ends) < LEAST_STEPS:
        return UNKNOWN
    every = -(-len(ends) // MOST_STEPS)
    stride = float(every)
    ends = ends[::every]
    total, counts = _at_ends(lives, ends, len(stacks))
    whole = total.sum(axis=0)
    slope, low, high = (value / stride for value in slope_of(whole))
    if slope < LEAST_BYTES or low <= 0 or not _goes_on(whole):
        return Growth(slope, low, high, "steady", len(timeline.steps.ends), ())
    sites = _sites(total, counts, stacks, slope, stride)
    leaking = sum(site.bytes_per_step for site in sites if site.allocations_per_step > 0 and not _is_cache(site.site))
    return Growth(
        slope, low, high, "leak" if leaking >= EXPLAINS * slope else "growth", len(timeline.steps.ends), sites
    )


def slope_of(values: NDArray[np.int64]) -> tuple[float, float, float]:
    """Least-squares slope of equidistant values, and its 90 % interval."""
    n = len(values)
    x = np.arange(n) - (n - 1) / 2
    spread = float((x * x).sum())
    slope = float((x * values).sum()) / spread
    rest = values - values.mean() - slope * x
    error = float(np.sqrt((rest * rest).sum() / max(n - 2, 1) / spread))
    return slope, slope - NINETY_PERCENT * error, slope + NINETY_PERCENT * error


def _goes_on(values: I64) -> bool:
    half = values[len(values) // 2 :]
    if len(half) < 2:
        return True
    return slope_of(half)[0] >= STILL_GROWS * slope_of(values)[0]


def _at_ends(lives: Lives, ends: I64, n_stacks: int) -> tuple[I64, I64]:
    """Bytes and allocations alive at each step's end, a row each stack."""
    first = np.searchsorted(ends, lives.born, side="right")
    last = np.searchsorted(ends, lives.freed, side="right")
    crossing = first < last
    tables = []
    for weight in (lives.size, np.ones(len(lives), np.int64)):
        table = np.zeros((n_stacks, len(ends) + 1), np.int64)
        np.add.at(table, (lives.stack[crossing], first[crossing]), weight[crossing])
        np.add.at(table, (lives.stack[crossing], last[crossing]), -weight[crossing])
        tables.append(np.cumsum(table, axis=1)[:, :-1])
    return tables[0], tables[1]


def _sites(total: I64, counts: I64, stacks: Sequence[Stack], slope: float, stride: float) -> tuple[GrowthSite, ...]:
    by_site: dict[str, list[int]] = {}
    for row in np.flatnonzero(total[:, -1] > total[:, 0]).tolist():
        by_site.setdefault(site_of(stacks[row]) or "(no Python stack)", []).append(row)
    result = []
    for site, rows in by_site.items():
        size, count = total[rows].sum(axis=0), counts[rows].sum(axis=0)
        mine, low, high = (value / stride for value in slope_of(size))
        if mine >= LEAST_SHARE * slope and low > 0:
            more = slope_of(count)[0] / stride
            result.append(GrowthSite(site, mine, low, high, round(more, 6) + 0.0, int(size[-1]), int(count[-1])))
    return tuple(sorted(result, key=lambda site: -site.bytes_per_step))


def _is_cache(site: str) -> bool:
    return "cache" in site.lower()
