"""Gradient buckets of another size: the same bytes in collectives that begin when their last gradient is there.

What a collective of a size would take comes from those recorded: time = latency + bytes / bandwidth, fitted to the
shortest time of each size (the alpha-beta model of communication). Between two buckets gradients come evenly.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from traceanalyzer.analysis.causes.dependencies import Dependencies
from traceanalyzer.analysis.replay.changes.collectives import REDUCTIONS, of_kind, sizes
from traceanalyzer.analysis.replay.changes.edits import with_dispatch

if TYPE_CHECKING:
    from traceanalyzer.analysis.replay.changes.edits import Change
    from traceanalyzer.analysis.replay.tape import Tape
    from traceanalyzer.trace import F64, I64, Bool

MB = 2**20
"""As PyTorch's `bucket_cap_mb` counts."""
MAX_BUCKETS = 10_000
"""Of one backward pass: PyTorch makes tens. A recording that claims more has damaged message sizes."""
SIZE_RATIO = 2.0
"""The largest message must be so many times the smallest for a line through their times to mean something."""


@dataclass(frozen=True)
class Cost:
    """What a collective takes: `latency_ns` + bytes * `ns_per_byte`."""

    latency_ns: float
    ns_per_byte: float

    def of(self, size: F64) -> I64:
        """Time for messages of these sizes in bytes, ns."""
        time: I64 = np.rint(self.latency_ns + size * self.ns_per_byte).astype(np.int64)
        return time


@dataclass(frozen=True)
class BucketSize:
    """How large buckets are: so many times the median one, or so many bytes."""

    factor: float = 1.0
    bytes: int | None = None

    def __str__(self) -> str:
        if self.bytes is not None:
            return f"of {self.bytes / MB:g} MB"
        return {2.0: "twice as large", 0.5: "half as large"}.get(self.factor, f"{self.factor:g} times as large")

    def of(self, size: I64) -> float:
        """The size in bytes, given the buckets' recorded ones."""
        return float(np.median(size)) * self.factor if self.bytes is None else float(self.bytes)


def rebucketed(wanted: BucketSize, *, at_recorded_rate: bool = False) -> Change:
    """Buckets of another size; None where recorded sizes and times do not tell what they would take, unless larger ones
    `at_recorded_rate` are meant."""

    def change(tape: Tape) -> Tape | None:
        size = _sizes(tape)
        runs = _runs(tape, size)
        cost = fit_cost(size, tape.duration) or (_same_rate(tape, size, wanted) if at_recorded_rate else None)
        if cost is None or not runs:
            return None
        if max(size[run].sum() for run in runs) > MAX_BUCKETS * wanted.of(size[np.concatenate(runs)]):
            return None
        return _with_buckets(tape, runs, size, wanted.of(size[np.concatenate(runs)]), cost)

    return change


def fit_cost(size: I64, duration: I64) -> Cost | None:
    """The cost of a collective from sizes (-1: none) and times; None where they differ too little to tell."""
    known = size > 0
    sizes, index = np.unique(size[known], return_inverse=True)
    if len(sizes) < 2 or sizes[-1] < SIZE_RATIO * sizes[0]:
        return None
    shortest = np.full(len(sizes), np.inf)
    np.minimum.at(shortest, index, duration[known])
    # Relative errors count alike, so that the small messages say what the latency is.
    rows = np.stack((1 / shortest, sizes / shortest), axis=1)
    latency, slope = np.linalg.lstsq(rows, np.ones(len(sizes)))[0].tolist()
    if slope <= 0:
        return None
    return Cost(max(latency, 0.0), slope)


def _same_rate(tape: Tape, size: I64, wanted: BucketSize) -> Cost | None:
    """The cost of larger messages where those recorded are all about as large: no higher rate than the best of them
    reached. None for smaller ones, whose cost nothing tells."""
    known = size > 0
    if not known.any() or wanted.of(size[known]) <= np.median(size[known]):
        return None
    return Cost(0.0, float((tape.duration[known] / size[known]).min()))


def _sizes(tape: Tape) -> I64:
    """Bytes that each op reduces across ranks, -1 where it does not or they were not recorded."""
    return np.where(of_kind(tape, *REDUCTIONS), sizes(tape), -1)


def _runs(tape: Tape, size: I64) -> list[I64]:
    """Reductions on one stream one after the other, none of which anything waits for before the last is launched."""
    buckets = np.flatnonzero(size > 0)
    if not len(buckets):
        return []
    needed = np.full(len(tape.row), len(tape.row), np.int64)
    index = np.arange(len(tape.row))
    for on in (tape.dependencies.on, tape.dependencies.also_on):
        waits = (on >= 0) & ~tape.communication
        np.minimum.at(needed, on[waits], index[waits])
    cut = (needed[buckets[:-1]] < buckets[1:]) | (tape.stream[buckets[:-1]] != tape.stream[buckets[1:]])
    step = tape.step_of_op[buckets]
    cut |= step[1:] != step[:-1]
    cut |= ~_waits_for_compute(tape)[buckets[1:]] | _host_waited(tape, buckets)
    return np.split(buckets, np.flatnonzero(cut) + 1)


def _waits_for_compute(tape: Tape) -> Bool:
    """Which ops wait for computation on another stream."""
    on = tape.dependencies.on
    return (on >= 0) & ~tape.communication[np.maximum(on, 0)]


def _host_waited(tape: Tape, buckets: I64) -> Bool:
    """Whether the host waited for the device between each of these ops and the next."""
    waited = np.cumsum(tape.waits)[tape.event[buckets]]
    return np.diff(waited) > 0


def _with_buckets(tape: Tape, runs: list[I64], size: I64, target: float, cost: Cost) -> Tape:
    """The recorded buckets stay as marks that take no time; what they did is done by inserted ones, and where these
    are fewer the host has fewer to launch."""
    compute = np.flatnonzero(~tape.communication & ~tape.copy)
    duration, meeting, gap, latency = (a.copy() for a in (tape.duration, tape.meeting, tape.gap, tape.latency))
    dispatch = tape.dispatch.copy()
    parts = []
    for run in runs:
        total = int(size[run].sum())
        bounds = np.append(np.arange(target, total, target), total)
        after = _produced(tape, run, size[run], bounds, compute)
        parts.append((np.maximum(after, 0), run[0] + np.zeros(len(after), np.int64), np.diff(bounds, prepend=0.0)))
        duration[run], meeting[run], gap[run], latency[run] = 0, -1, 0, 0
        # A call ends after its launch: what is left of it lies before the next event.
        calling = np.union1d(tape.event[run], np.minimum(tape.event[run] + 1, len(dispatch) - 1))
        spared = tape.sending[calling] * (1.0 - min(len(after) / len(run), 1.0))
        dispatch[calling] = np.maximum(dispatch[calling] - spared, 0)
    marked = replace(tape, duration=duration, meeting=meeting, gap=gap, latency=latency)
    after, like, moved = (np.concatenate([part[i] for part in parts]) for i in range(3))
    return _inserted(with_dispatch(marked, dispatch), tape, after, like, cost.of(moved))


def _produced(tape: Tape, run: I64, size: I64, bounds: F64, compute: I64) -> I64:
    """The compute op after which the gradients up to each of these bytes are there. Those of the first bucket come
    as evenly as the others, but not before the step begins."""
    step = tape.step_of_op
    ready = compute[np.maximum(np.searchsorted(compute, run) - 1, 0)]
    spacing = int(ready[-1] - ready[0]) // max(len(run) - 1, 1)
    earliest = int(np.argmax(step == step[run[0]]))
    begun = np.append(max(int(ready[0]) - spacing, min(earliest, int(ready[0]))), ready)
    position = np.interp(bounds, np.append(0, np.cumsum(size)), begun)
    after: I64 = compute[np.clip(np.searchsorted(compute, np.ceil(position - 1e-6)), 0, len(compute) - 1)]
    return after


def _inserted(marked: Tape, tape: Tape, after: I64, like: I64, duration: I64) -> Tape:
    """The tape with ops inserted behind those at `after`, which they wait for; otherwise as those at `like`."""
    count, new = len(marked.row), len(after)
    order = np.argsort(np.append(np.arange(count) * 2, after * 2 + 1), kind="stable")
    moved = np.empty(count + new, np.int64)
    moved[order] = np.arange(count + new)

    def shifted(on: I64) -> I64:
        result: I64 = np.where(on >= 0, moved[np.maximum(on, 0)], -1)
        return result

    added: dict[str, Any] = {
        f.name: np.concatenate((getattr(marked, f.name), getattr(tape, f.name)[like]))[order]
        for f in fields(marked)
        if f.name in ("stream", "alone", "latency", "gap", "communication", "copy", "row")
    }
    on = marked.dependencies
    zeros = np.zeros(new, np.int64)
    shared = tape.meeting[like] >= 0
    fresh = np.where(shared, int(tape.meeting.max(initial=0)) + 1 + np.arange(new), -1)
    dependencies = Dependencies(
        np.append(shifted(on.on), moved[after])[order],
        np.append(on.delay, zeros)[order],
        np.append(shifted(on.also_on), zeros - 1)[order],
    )
    return replace(
        marked,
        **added,
        waits_for=shifted(marked.waits_for),
        event=np.append(marked.event, tape.event[after])[order],
        duration=np.append(marked.duration, duration)[order],
        meeting=np.append(marked.meeting, fresh)[order],
        dependencies=dependencies,
    )
