"""Device operations that cannot have lasted as long as the recording says.

On one stream an op ends before the next begins, save for small overlaps that are real: with
programmatic dependent launch a kernel starts while its predecessor drains, and clocks of ROCm
devices are tens of ns apart."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.trace import I64, Bool, Health, Trace

LATEST = 2**61
"""Neither a clock that counts from 1970 nor one that counts from boot goes beyond, and differences
fit int64."""
LONGEST = 2**52  # 50 days: what claims to last longer is damaged
OUTLIVES_NS = 10_000
"""An op that runs this much longer than its whole successor cannot be real: a dependent kernel may
start early, but not end early. The largest real overlap seen with a successor is 3.2 us (split-K
reductions on H100/H200)."""
OVERLAP_NS = 100_000
"""No early start is this early: a predecessor drains for as long as its last wave of blocks
runs."""


@dataclass
class Tally:
    """Counts and remarks of a whole file, collected while it is read."""

    skipped: int = 0
    lost: int = 0
    clipped: int = 0
    unclosed: int = 0  # of the lost ones ranges without an end
    notes: list[str] = field(default_factory=list)

    def add(self, other: "Tally") -> None:
        """Count what another one counted."""
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)

    def with_health(
        self, traces: list[Trace], events: int, notes: Iterable[str], *, truncated: bool
    ) -> list[Trace]:
        """The traces of the file: the first has the file's counts, of so many events, and its
        notes."""
        counts = {name: getattr(self, name) for name in ("skipped", "lost", "clipped")}
        first = replace(
            traces[0], health=Health(events, truncated=truncated, notes=tuple(notes), **counts)
        )
        return [
            first,
            *(replace(one, health=replace(one.health, truncated=truncated)) for one in traces[1:]),
        ]


def mend_times(rows: dict[str, NDArray[Any]], known: Bool, tally: Tally) -> Bool:
    """Which rows, of those whose times are known, have possible ones; a time span that ends before
    it starts is cut to nothing."""
    start = rows["start"]
    end = rows["end"]
    timed = known & (start <= LATEST) & (end <= LATEST)
    backwards = timed & ((end < start) | (end - start > LONGEST))
    tally.lost += int((~timed).sum())
    tally.clipped += int(backwards.sum())
    rows["end"] = np.where(backwards, start, end)
    return timed


def clip_impossible(columns: dict[str, I64], window_end: int | None) -> tuple[I64, Bool]:
    """The ends of device ops with impossible ones cut, and which those are.

    `columns`: start, end, device, context, stream and correlation of the ops, in any order. An op
    on a recorded stream is cut at the start of the next one there; kernels of one graph launch
    (same correlation) may run side by side. An op without a successor is cut at the end of the
    recording if it outlasts the recording twice over."""
    start = columns["start"]
    end = columns["end"]
    clipped = np.zeros(len(start), bool)
    if not len(start):
        return end, clipped
    follower = _follower(columns)
    has = np.flatnonzero(follower >= 0)
    begins = start[follower[has]]
    ends = end[follower[has]]
    overlap = end[has] - begins
    impossible = (overlap > OVERLAP_NS) | (
        (overlap > OUTLIVES_NS) & (end[has] - ends > OUTLIVES_NS)
    )
    result = end.copy()
    result[has[impossible]] = begins[impossible]
    clipped[has[impossible]] = True
    if window_end is not None:
        limit = max(window_end, int(start.max()))
        length = limit - int(start.min())
        absurd = (result - limit > length) & (length > 0)
        result[absurd] = np.maximum(limit, start[absurd])
        clipped |= absurd
    return result, clipped


def _follower(columns: dict[str, I64]) -> I64:
    """For each op the next on its stream that starts later and was launched by another call, -1 if
    none."""
    start = columns["start"]
    correlation = columns["correlation"]
    order = np.lexsort((start, columns["stream"], columns["context"], columns["device"]))
    op = order[:-1]
    other = order[1:]
    same_stream = _same(columns, op, other)
    same_launch = (correlation[op] == correlation[other]) & (correlation[op] > 0)
    follows = same_stream & ~same_launch & (start[other] > start[op])
    # Position of the next op that follows, carried back over those of the same launch or start.
    position = np.where(follows | ~same_stream, np.arange(1, len(order)), len(order))
    position = np.minimum.accumulate(position[::-1])[::-1]
    result = np.full(len(order), -1, np.int64)
    inside = position < len(order)
    candidates = order[np.where(inside, position, 0)]
    valid = inside & _same(columns, op, candidates)
    result[op[valid]] = candidates[valid]
    return result


def _same(columns: dict[str, I64], a: I64, b: I64) -> Bool:
    """Whether ops a and b are on the same recorded stream."""
    result: Bool = columns["stream"][a] >= 0
    for name in ("device", "context", "stream"):
        result &= columns[name][a] == columns[name][b]
    return result
