"""What grows from step to step: the slope of the bytes alive at each step's end, of the whole and
of each line."""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.analysis.memory.lives import Allocations, Rows, at_moments
from traceanalyzer.analysis.memory.phases import HistoryTimeline, allocation_site
from traceanalyzer.analysis.memory.stats import Verdict
from traceanalyzer.base import MEMORY, dataclass, metric
from traceanalyzer.trace import F64
from traceanalyzer.trace.snapshot import I64, Stack

WARM_UP = 1  # steps that make what stays: optimizer state, workspaces
LEAST_STEPS = 4  # steps after warm-up that a slope needs
MOST_STEPS = 1000  # more are thinned out: the slope is the same
LEAST_BYTES = 512  # a slope below one block a step is none
STILL_GROWS = 0.3  # slope of the second half against the whole's: less, and it was warm-up
STAYS = 0.5
"""Share of what grew that is alive when the history ends, or when memory ran out: less, and it was
freed after all (caches of autocast, a list that is emptied)."""
EXPLAINS = 0.5  # share of the growth that lines with ever more allocations carry in a leak
LEAST_SHARE = 0.02  # share of the growth from which a line is named
NINETY_PERCENT = (6.314, 2.920, 2.353, 2.132, 2.015, 1.943, 1.895, 1.860, 1.833, 1.812, 1.645)
"""Standard errors to each side of a 90 % interval (Student's t) with 1, 2, ... and very many
degrees of freedom."""


@dataclass(frozen=True)
class GrowthSite:
    """A line whose bytes grow."""

    site: str = metric("innermost line of the program on the stack of the allocations")
    bytes_per_step: float = metric("growth of what is alive at each step's end", MEMORY)
    low: float = metric("low end of its 90 % interval", MEMORY)
    high: float = metric("high end of it", MEMORY)
    allocations_per_step: float = metric("how many more allocations are alive after each step")
    live_bytes: int = metric("bytes alive at the last step's end", MEMORY)
    live_allocations: int = metric("allocations alive there")

    @property
    def leaks(self) -> bool:
        """Whether more and more is allocated and kept, by what does not say that it keeps it."""
        return self.allocations_per_step > 0 and "cache" not in self.site.lower()


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


def growth_of(
    lives: Allocations, timeline: HistoryTimeline, stacks: Sequence[Stack], last: int | None = None
) -> Growth:
    """The growth after warm-up. `last`: the row at which memory ran out, after which a program
    frees what it has; else the history's end. What is freed by then is no leak."""
    ends = np.array(timeline.steps.ends[WARM_UP:], np.int64)
    if len(set(timeline.phase[ends[-2:] - 1].tolist())) > 1:
        ends = ends[:-1]  # the history stops inside the last step
    if len(ends) < LEAST_STEPS:
        return UNKNOWN
    every = -(-len(ends) // MOST_STEPS)
    ends = ends[::every]
    allocated = at_moments(ends, (lives.born, lives.freed, lives.size))
    slope, low, high = (value / every for value in slope_of(allocated))
    if slope < LEAST_BYTES or low <= 0 or not goes_on(allocated):
        return Growth(slope, low, high, "steady", len(timeline.steps.ends), ())
    sites = _sites(lives, ends, stacks, slope, every)
    end = lives.n_events if last is None else last
    left = int(lives.size[lives.alive(end)].sum())
    stays = left - allocated[0] >= STAYS * (allocated[-1] - allocated[0])
    leaking = sum(site.bytes_per_step for site in sites if site.leaks and stays)
    verdict: Verdict = "leak" if leaking >= EXPLAINS * slope else "growth"
    return Growth(slope, low, high, verdict, len(timeline.steps.ends), sites)


def slope_of(values: NDArray[np.int64]) -> tuple[float, float, float]:
    """Least-squares slope of equidistant values, and its 90 % interval."""
    n = len(values)
    x = np.arange(n) - (n - 1) / 2
    spread = float((x * x).sum())
    slope = float((x * values).sum()) / spread
    rest = values - values.mean() - slope * x
    free = max(n - 2, 1)
    reach = (
        float(np.sqrt((rest * rest).sum() / free / spread))
        * NINETY_PERCENT[min(free, len(NINETY_PERCENT)) - 1]
    )
    return slope, slope - reach, slope + reach


def goes_on(values: I64) -> bool:
    """Whether the later half grows, too."""
    half = values[len(values) // 2 :]
    return len(half) < 2 or slope_of(half)[0] >= STILL_GROWS * slope_of(values)[0]


def _sites(
    lives: Allocations, ends: I64, stacks: Sequence[Stack], slope: float, stride: int
) -> tuple[GrowthSite, ...]:
    """The lines that grow, from the stacks of which more is alive at the last step's end than at
    the first's."""
    at_first = _by_stack(lives, int(ends[0]), len(stacks))
    grows = _by_stack(lives, int(ends[-1]), len(stacks)) > at_first
    is_crossing = (lives.freed >= ends[0]) & (lives.born < ends[-1])
    crossing = np.flatnonzero(grows[lives.stack] & is_crossing)
    found = []
    for name, rows in _by_site(lives, crossing, stacks, np.flatnonzero(grows)):
        of_site = (lives.born[rows], lives.freed[rows], lives.size[rows])
        found.append(growth_site(*of_site, ends, name, stride))
    large = [site for site in found if site.bytes_per_step >= LEAST_SHARE * slope]
    kept = [site for site in large if site.low > 0]
    return tuple(sorted(kept, key=lambda site: -site.bytes_per_step))


def _by_site(
    lives: Allocations, chosen: I64, stacks: Sequence[Stack], of_stacks: I64
) -> Iterator[tuple[str, I64]]:
    """The chosen lives, which are all of these stacks, by the line of the program."""
    places: dict[str, int] = {}
    number = np.zeros(len(stacks), np.int32)
    for stack in of_stacks.tolist():
        name = allocation_site(stacks[stack]) or "(no Python stack)"
        number[stack] = places.setdefault(name, len(places))
    place = number[lives.stack[chosen]]
    by_place = chosen[np.argsort(place, kind="stable")]
    parts = np.split(by_place, np.cumsum(np.bincount(place))[:-1])
    return zip(places, parts, strict=True)


def _by_stack(lives: Allocations, moment: int, stacks: int) -> F64:
    """Bytes that are alive at a moment, by the stack that allocated them."""
    alive = lives.alive(moment)
    return np.bincount(lives.stack[alive], lives.size[alive], stacks).astype(np.float64, copy=False)


def growth_site(
    born: Rows, freed: Rows, sizes: I64, ends: I64, name: str, stride: int = 1
) -> GrowthSite:
    """A line with these lives."""
    size = at_moments(ends, (born, freed, sizes))
    count = at_moments(ends, (born, freed, np.ones_like(sizes)))
    slope, low, high = (value / stride for value in slope_of(size))
    more = round(slope_of(count)[0] / stride, 6) + 0.0
    return GrowthSite(name, slope, low, high, more, int(size[-1]), int(count[-1]))
