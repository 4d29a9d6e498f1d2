"""Gradient buckets of another size: the same bytes in collectives that begin when their last
gradient is there.

What a collective of a size would take comes from those recorded: time = latency + bytes /
bandwidth, fitted to the shortest time of each size (the alpha-beta model of communication); where
the buckets are of one size the latency is what the recording's own short messages take, and without
such larger ones go at the best recorded rate. The host calls each bucket one time. Between two
buckets gradients come evenly. All is compared with the model's recorded buckets."""

from dataclasses import replace
from typing import Any

import numpy as np

from traceanalyzer.analysis.algebra import where_changed
from traceanalyzer.analysis.causes.dependencies import Dependencies
from traceanalyzer.analysis.names.collectives import SYNCHRONISING
from traceanalyzer.base import dataclass, digits
from traceanalyzer.replay.changes.communication.collectives import REDUCTIONS, of_kind, sizes
from traceanalyzer.replay.patterns.repeats import split_where
from traceanalyzer.replay.tape import Tape, parametric
from traceanalyzer.trace import F64, I64

MB = 2**20  # as PyTorch's `bucket_cap_mb` counts
MAX_BUCKETS = 10_000
"""Of one backward pass: PyTorch makes tens. A recording that claims more has damaged message
sizes."""
AS_RECORDED = ("stream", "alone", "latency", "gap", "communication", "copy", "row")
"""What an inserted op has of the one that it replaces."""
SHORT_BYTES = 2**16
"""Messages up to this size take as long as one without content: links move so much in a microsecond
or two."""
SIZE_RATIO = 2.0
"""The largest message must be so many times the smallest for a line through their times to mean
something."""


@dataclass(frozen=True)
class Cost:
    """What a collective takes: `latency_ns` + bytes * `ns_per_byte`."""

    latency_ns: float
    ns_per_byte: float

    def of(self, size: F64) -> I64:
        """Time for messages of these sizes in bytes, ns."""
        return np.rint(self.latency_ns + size * self.ns_per_byte).astype(np.int64)


@dataclass(frozen=True)
class BucketSize:
    """How large buckets are: so many times the median one, or so many bytes."""

    factor: float = 1.0
    bytes: int | None = None

    def __str__(self) -> str:
        if self.bytes is not None:
            return f"of {digits(self.bytes / MB, 4)} MB"
        if self.factor == 2.0:
            return "twice as large"
        return "half as large" if self.factor == 0.5 else f"{self.factor:g} times as large"

    def of(self, size: I64) -> float:
        """The size in bytes, given the buckets' recorded ones."""
        return float(np.median(size)) * self.factor if self.bytes is None else float(self.bytes)


@parametric
def rebucketed(tape: Tape, wanted: BucketSize | None) -> Tape | None:
    """Buckets of another size, or those recorded (None), as the model has them; None where recorded
    sizes and times do not tell what smaller ones would take."""
    size = reduced_bytes(tape)
    runs = _runs(tape, size)
    cost = cost_of(tape, size) or _cost_of_larger(tape, size, wanted)
    if cost is None or not runs or not tape.compute.any():
        return None
    target = None if wanted is None else wanted.of(size[np.concatenate(runs)])
    if target is not None and max(size[run].sum() for run in runs) > MAX_BUCKETS * target:
        return None
    return _with_buckets(tape, runs, size, target, cost)


def what_size_lacks(tape: Tape, wanted: BucketSize) -> str:
    """Why buckets of that size are not predicted, in a clause."""
    size = reduced_bytes(tape)
    known = size[size > 0]
    if not len(known):
        return "no gradients are reduced in the recorded steps"
    usual = BucketSize(bytes=round(float(np.median(known))))
    if wanted.of(known) > usual.of(known):
        return "the recording does not say what compute the gradients come from"
    return (
        f"the recorded messages are {usual}, and what a smaller one takes is not known: a recording "
        "with two bucket sizes, or with short messages (a barrier) in its steps, would tell; larger "
        "ones are predicted"
    )


def _cost_of_larger(tape: Tape, size: I64, wanted: BucketSize | None) -> Cost | None:
    """Larger messages, where those recorded are all about as large: no faster than the best of
    them."""
    known = size > 0
    if not known.any():
        return None
    if wanted is not None and wanted.of(size[known]) <= np.median(size[known]):
        return None
    return Cost(0.0, float((tape.duration[known] / size[known]).min()))


def reduced_bytes(tape: Tape) -> I64:
    """For each op the bytes that it reduces, -1: none."""
    return np.where(of_kind(tape, *REDUCTIONS), sizes(tape), -1)


def cost_of(tape: Tape, size: I64) -> Cost | None:
    """The cost of collectives of these sizes (-1: none), from their own times, else with the
    latency of other, short ones; None where neither tells."""
    short = (
        tape.communication
        & (size < 0)
        & (sizes(tape) <= SHORT_BYTES)
        & (of_kind(tape, *SYNCHRONISING))
    )
    known = size > 0
    fitted = fit_cost(size, tape.duration)
    if fitted is not None or not short.any() or not known.any():
        return fitted
    latency = float(tape.duration[short].min())
    slope = float(((tape.duration[known] - latency) / size[known]).min())
    return Cost(latency, slope) if slope > 0 else None


def fit_cost(size: I64, duration: I64) -> Cost | None:
    """The cost of a collective from sizes (-1: none) and times; None where they differ too little
    to tell."""
    known = size > 0
    sizes, index = np.unique(size[known], return_inverse=True)
    if len(sizes) < 2 or sizes[-1] < SIZE_RATIO * sizes[0]:
        return None
    shortest = np.full(len(sizes), np.inf)
    np.minimum.at(shortest, index, duration[known])
    # Relative errors count alike, so that the small messages say what the latency is.
    rows = np.stack((1 / shortest, sizes / shortest), axis=1)
    latency, slope = np.linalg.lstsq(rows, np.ones(len(sizes)))[0].tolist()
    return Cost(max(latency, 0.0), slope) if slope > 0 else None


def _runs(tape: Tape, size: I64) -> list[I64]:
    """Reductions on one stream one after the other, none of which anything waits for before the
    last is launched. What waits in one step and not in another that reduces the same does so by
    chance."""
    buckets = np.flatnonzero(size > 0)
    index = np.arange(len(tape.row))
    needed = np.full(len(tape.row), len(tape.row), np.int64)
    for awaited in (tape.dependencies.awaited, tape.dependencies.also_awaited):
        waits = (awaited >= 0) & ~tape.communication
        np.minimum.at(needed, awaited[waits], index[waits])
    awaited = tape.dependencies.awaited
    waited = np.cumsum(tape.waits)[tape.event]
    for_compute = (awaited >= 0) & ~tape.communication[np.maximum(awaited, 0)]
    new = ~for_compute[buckets]
    for column in (tape.stream, tape.step_of_op, waited):
        new |= where_changed(column[buckets])
    new[1:] |= needed[buckets[:-1]] < buckets[1:]
    alike: dict[tuple[int, ...], list[I64]] = {}
    next_step = where_changed(tape.step_of_op[buckets])[1:]
    for rows in split_where(np.arange(len(buckets)), next_step):
        alike.setdefault(tuple(size[buckets[rows]].tolist()), []).append(rows)
    for steps in alike.values():
        new[np.stack(steps)] = new[np.stack(steps)].all(axis=0)
    return split_where(buckets, new[1:])


def _with_buckets(
    tape: Tape,
    runs: list[I64],
    size: I64,
    target: float | None,
    cost: Cost,
) -> Tape:
    """The recorded buckets stay as marks that take no time; what they did is done, and launched, by
    inserted ones."""
    buckets = [_buckets_of(tape, run, size[run], target) for run in runs]
    gone = np.zeros(len(tape.row), bool)
    gone[np.concatenate(runs)] = True
    marked = replace(
        tape,
        duration=np.where(gone, 0, tape.duration),
        meeting=np.where(gone, -1, tape.meeting),
        gap=np.where(gone, 0, tape.gap),
        latency=np.where(gone, 0, tape.latency),
        dependencies=_without_seeming_waits(tape, runs),
    ).with_dispatch(_less_dispatch(tape, runs, buckets))
    after = np.concatenate([one.after for one in buckets])
    like = np.concatenate([one.like for one in buckets])
    moved = np.concatenate([one.bytes for one in buckets])
    return _inserted(marked, tape, after, like, cost.of(moved))


@dataclass(frozen=True, eq=False)
class _Buckets:
    """The buckets that take the place of a run's reductions."""

    after: I64  # the op behind which each comes
    like: I64  # the recorded reduction that it is otherwise like
    bytes: F64


def _buckets_of(tape: Tape, run: I64, size: I64, target: float | None) -> _Buckets:
    """As many as were recorded, or of `target` bytes each."""
    bounds = np.cumsum(size, dtype=np.float64)
    if target is not None:
        total = int(bounds[-1])
        bounds = np.append(np.arange(target, total, target), total)
    after = _produced(tape, run, size, bounds, np.flatnonzero(tape.compute))
    return _Buckets(
        after=np.maximum(after, 0),
        like=np.full(len(after), run[0], np.int64),
        bytes=np.diff(bounds, prepend=0.0),
    )


def _without_seeming_waits(tape: Tape, runs: list[I64]) -> Dependencies:
    """What waits for what, but for the compute launched before a run's last reduction that seems to
    wait for one."""
    last = np.full(len(tape.row) + 1, -1, np.int64)
    for run in runs:
        last[run] = run[-1]
    index = np.where(tape.communication, len(tape.row), np.arange(len(tape.row)))
    waits = tape.dependencies
    awaited = np.where(index < last[waits.awaited], -1, waits.awaited)
    also_awaited = np.where(index < last[waits.also_awaited], -1, waits.also_awaited)
    return Dependencies(awaited, waits.delay, also_awaited)


def _less_dispatch(tape: Tape, runs: list[I64], buckets: list[_Buckets]) -> I64:
    """The host's dispatch where fewer reductions are sent, ns."""
    dispatch = tape.dispatch.copy()
    for run, new_buckets in zip(runs, buckets, strict=True):
        # A call ends after its launch: what is left of it lies before the next event.
        following = np.minimum(tape.event[run] + 1, len(dispatch) - 1)
        calling = np.union1d(tape.event[run], following)
        spared = tape.sending[calling] * (1.0 - min(len(new_buckets.after) / len(run), 1.0))
        dispatch[calling] = np.maximum(dispatch[calling] - spared, 0)
    return dispatch


def _produced(tape: Tape, run: I64, size: I64, bounds: F64, compute: I64) -> I64:
    """The compute op after which the gradients up to each of these bytes are there. Those of the
    first bucket come as evenly as the others, but not before the step begins."""
    ready = compute[np.maximum(np.searchsorted(compute, run) - 1, 0)]
    spacing = int(ready[-1] - ready[0]) // max(len(run) - 1, 1)
    earliest = int(np.argmax(tape.step_of_op == tape.step_of_op[run[0]]))
    first = int(ready[0])
    begins = max(first - spacing, min(earliest, first))
    begun = np.append(begins, ready)
    position = np.interp(bounds, np.append(0, np.cumsum(size)), begun)
    after = np.searchsorted(compute, np.ceil(position - 1e-6))
    return compute[np.clip(after, 0, len(compute) - 1)]


def _inserted(marked: Tape, tape: Tape, after: I64, like: I64, duration: I64) -> Tape:
    """The tape with ops inserted behind those at `after`, which they wait for; otherwise as those
    at `like`."""
    count = len(marked.row)
    new = len(after)
    place = np.append(np.arange(count) * 2, after * 2 + 1)
    order = np.argsort(place, kind="stable")
    moved = np.empty(count + new, np.int64)
    moved[order] = np.arange(count + new)

    def shifted(op: I64) -> I64:
        return np.where(op >= 0, moved[np.maximum(op, 0)], -1)

    next_meeting = int(tape.meeting.max(initial=0)) + 1
    meeting = np.where(tape.meeting[like] >= 0, next_meeting + np.arange(new), -1)
    inserted = {name: getattr(tape, name)[like] for name in AS_RECORDED}
    inserted |= {"event": tape.event[after], "duration": duration, "meeting": meeting}
    columns: dict[str, Any] = {
        name: np.append(getattr(marked, name), own)[order] for name, own in inserted.items()
    }
    waits = marked.dependencies
    nothing = np.zeros(new, np.int64)
    dependencies = Dependencies(
        np.append(shifted(waits.awaited), moved[after])[order],
        np.append(waits.delay, nothing)[order],
        np.append(shifted(waits.also_awaited), nothing - 1)[order],
    )
    return replace(
        marked, **columns, waits_for=shifted(marked.waits_for), dependencies=dependencies
    )
