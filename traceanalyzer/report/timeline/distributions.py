"""What charts show of single events: lengths of kernels, depth of the launch queue, steps,
collectives, memory. Of bounded size whatever the recording: events are counted in bins, or those of
one step are taken."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import field, replace
from itertools import zip_longest
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from traceanalyzer.analysis.algebra import measure
from traceanalyzer.analysis.names.collectives import KINDS
from traceanalyzer.base import NS_PER_MS, OWN, dataclass
from traceanalyzer.report.timeline.lanes import representative
from traceanalyzer.trace import F64, I64, MemoryEvents, distinct

if TYPE_CHECKING:
    from traceanalyzer.diagnosis.measurements import Measurements
    from traceanalyzer.diagnosis.selection import MeasuredRanks

BINS_A_DECADE = 6
MAX_MEMORY_POINTS = 1_000  # as many as a wide screen has pixels to tell apart
MAX_MESSAGES = 400  # longest ones that are named: of more, boxes are no wider than lines
MAX_QUEUE_POINTS = 500
MAX_RANKS = 32
MAX_STEPS = 60
WORST = 11
"""Ranks that have a row or a bar of their own at any number of ranks: the critical one and the ten
worst."""
Row = TypeVar("Row")


@dataclass(frozen=True, eq=False)
class Lengths:
    """Kernels of a mean steady step by their lengths."""

    edges_us: F64  # one more than there are bins
    kernels: F64
    time_ms: F64


@dataclass(frozen=True, eq=False)
class Queue:
    """Device ops launched and not finished in the representative step."""

    time_ns: I64  # from the step's start
    depth: I64  # from each moment on; of moments that are near each other the deepest


@dataclass(frozen=True)
class StepsOfRank:
    """Wall-clock times of a rank's steps, and what of them it waited for other ranks."""

    rank: int
    first: int  # its first step
    times_ms: list[float]
    waiting_ms: list[float] = field(
        default_factory=list
    )  # empty where no collectives were matched across ranks
    others: int = 0  # so many more ranks are in this row: of all of them the longest times

    @property
    def name(self) -> str:
        """What the row is called."""
        return f"rank {self.rank}" + (f" and {self.others} more" if self.others else "")


@dataclass(frozen=True)
class LoggedLoading:
    """A step of a timing log."""

    step: int
    time_ms: float
    data_ms: float


def kernel_lengths(m: "Measurements") -> Lengths | None:
    """None without kernels."""
    ops = m.trace.device_ops
    rows = np.flatnonzero(m.linked.is_kernel & m.timed.steady_ops & (ops.end > ops.start))
    if not len(rows):
        return None
    us = (ops.end[rows] - ops.start[rows]) / 1e3
    low = int(np.floor(np.log10(us.min()) * BINS_A_DECADE))
    high = int(np.ceil(np.log10(us.max()) * BINS_A_DECADE))
    edges = 10.0 ** (np.arange(low, max(high, low + 1) + 1) / BINS_A_DECADE)
    bins = np.clip(
        np.searchsorted(edges, us, side="right") - 1,
        0,
        len(edges) - 2,
    )
    steps = m.timed.steps.steady_count
    count = len(edges) - 1
    return Lengths(
        edges, np.bincount(bins, None, count) / steps, np.bincount(bins, us, count) / 1e3 / steps
    )


def launch_queue(m: "Measurements") -> Queue | None:
    """None where no launch of the representative step was recorded."""
    ops = m.trace.device_ops
    step = representative(m.timed.steps)
    start = int(m.timed.steps.start[step])
    end = int(m.timed.steps.end[step])
    rows = np.flatnonzero(
        (m.linked.launch_time >= 0) & (m.linked.launch_time < end) & (ops.end > start)
    )
    if not len(rows):
        return None
    time = np.concatenate((m.linked.launch_time[rows], ops.end[rows]))
    order = np.argsort(time, kind="stable")
    depth = np.cumsum(np.repeat([1, -1], len(rows))[order])
    inside = np.flatnonzero((time[order] >= start) & (time[order] <= end))
    if not len(inside):
        return None
    time = time[order][inside] - start
    depth = depth[inside]
    width = max((end - start) // MAX_QUEUE_POINTS, 1)
    _, first = np.unique(time // width, return_index=True)
    return Queue(time[first], np.maximum.reduceat(depth, first))


def steps_of_ranks(measured: "MeasuredRanks") -> list[StepsOfRank]:
    """The first steps of the ranks; of more than there is room for those that hold up the run
    first, the others put together by their longest times. Empty for one rank."""
    waited = measured.ranks.waited_ns or (None,) * len(measured.each)
    ranks = []
    in_order = range(len(measured.each))
    for i in measured.ranks.worst_first if len(in_order) > MAX_RANKS else in_order:
        steps = measured.each[i].timed.steps
        rank = measured.ranks.rows[i].rank
        if steps.found:
            times = (steps.duration[:MAX_STEPS] / NS_PER_MS).tolist()
            waits = waited[i] or ()
            waiting = [time / NS_PER_MS for time in waits[:MAX_STEPS]]
            ranks.append(StepsOfRank(i if rank is None else rank, steps.first, times, waiting))
    if len(ranks) < 2:
        return []
    return [
        *ranks[:WORST],
        *(_longest(some) for some in in_groups(ranks[WORST:], MAX_RANKS - WORST)),
    ]


def in_groups(rows: Sequence[Row], most: int) -> Iterator[Sequence[Row]]:
    """The rows in at most so many groups of neighbours."""
    size = -(-len(rows) // most)
    starts = range(0, len(rows), size) if rows else ()
    return (rows[first : first + size] for first in starts)


def _longest(some: Sequence[StepsOfRank]) -> StepsOfRank:
    def most(rows: list[list[float]]) -> list[float]:
        return [max(times) for times in zip_longest(*rows, fillvalue=0.0)]

    times = most([row.times_ms for row in some])
    waiting = most([row.waiting_ms for row in some])
    return replace(some[0], times_ms=times, waiting_ms=waiting, others=len(some) - 1)


def logged_loading(m: "Measurements") -> list[LoggedLoading]:
    """The steps of a timing log that says what of them was waiting for data; empty otherwise."""
    timings = m.trace.step_timings
    known = np.flatnonzero(timings.data >= 0)
    columns = (timings.step[known], timings.duration[known] / 1e6, timings.data[known] / 1e6)
    return [
        LoggedLoading(*row)
        for row in zip(
            *(column.tolist() for column in columns),
            strict=True,
        )
    ]


@dataclass(frozen=True, eq=False)
class MemoryTrack:
    """Allocated and reserved bytes of one device over time; every stretch of time shows its
    maximum."""

    device: int  # CUDA ordinal, -1 for host memory
    time: I64  # ns on the recording's clock
    allocated: I64
    reserved: I64  # -1 where not recorded
    events: int  # allocations and frees recorded

    @property
    def peak(self) -> int:
        """Most bytes allocated at once."""
        return int(self.allocated.max(initial=0))


def memory_tracks(events: MemoryEvents) -> list[MemoryTrack]:
    """A track for each device whose allocator's totals were recorded, in order of device."""
    known = events.allocated >= 0
    tracks = []
    for device in distinct(events.device[known]).tolist():
        rows = np.flatnonzero(known & (events.device == device))
        time = events.start[rows]
        width = max((int(time[-1]) - int(time[0])) // MAX_MEMORY_POINTS + 1, 1)
        first = np.unique((time - time[0]) // width, return_index=True)[1]
        most = [np.maximum.reduceat(of[rows], first) for of in (events.allocated, events.reserved)]
        tracks.append(MemoryTrack(device, time[first], most[0], most[1], len(rows)))
    return tracks


@dataclass(frozen=True)
class CollectiveMessage:
    """A collective of the step, ns from the step's start."""

    kind: str = field(metadata=OWN)
    number: int  # which one of its kind and group it is in the step, from 1 on
    count: int  # how many of these there are
    group: str | None
    bytes: int | None
    stream: int
    start: int
    end: int
    exposed: int  # time of it that does not overlap with compute


def messages(m: "Measurements") -> list[CollectiveMessage]:
    """The longest ones on the step's device, in order of start."""
    calls = m.timed.collective_calls
    step = representative(m.timed.steps)
    if m.timed.device is None:
        return []
    rows = np.flatnonzero((calls.step == step) & (calls.device == m.timed.device))
    group = np.append(m.trace.collectives.group, np.int32(-1))[calls.metadata]
    sorts = list(
        zip(
            calls.kind[rows].tolist(),
            group[rows].tolist(),
            strict=True,
        )
    )
    total = Counter(sorts)
    seen = Counter[tuple[int, int]]()
    numbers = []
    for sort in sorts:
        seen[sort] += 1
        numbers.append(seen[sort])
    hidden = measure(
        m.timed.activity[m.timed.device].compute,
        calls.start[rows],
        calls.end[rows],
    )
    length = calls.end[rows] - calls.start[rows]
    begin = int(m.timed.steps.start[step])
    return [
        CollectiveMessage(
            KINDS[sorts[i][0]],
            numbers[i],
            total[sorts[i]],
            m.trace.text(sorts[i][1]),
            int(calls.bytes[rows[i]]) if calls.bytes[rows[i]] >= 0 else None,
            int(calls.stream[rows[i]]),
            int(calls.start[rows[i]]) - begin,
            int(calls.end[rows[i]]) - begin,
            int(length[i] - hidden[i]),
        )
        for i in np.sort(np.argsort(-length, kind="stable")[:MAX_MESSAGES]).tolist()
    ]
