"""Runs the tape of one rank stretch by stretch instead of op by op, with the same result to the nanosecond.

Between two waits the host only adds up its times, and stops where the launch queue is full; ops of a stream follow each
other. Both are a running maximum of sums: `end[i] = max(earliest[i], end[i-1] + gap[i]) + duration[i]` is
`sum[i] + max(earliest[k] + duration[k] - sum[k])` over k up to i, where `sum` adds up gaps and durations. A stretch
ends where the host waits, where an op depends on one of the same stretch, and before it is as long as the launch queue.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from traceanalyzer.analysis.time.launch_queue import QUEUE_DEPTH
from traceanalyzer.frozen import dataclass
from traceanalyzer.trace.distinct import distinct

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traceanalyzer.analysis.replay.tape import Tape
    from traceanalyzer.trace import I64

LONGEST_NS = 2.0**60
"""36 years: beyond, sums might not fit 64 bits, which a recording reaches only by damage."""
LEAST_OPS = 24
"""Shorter stretches, on the mean, are run faster op by op."""


class Pass(NamedTuple):
    """When things happened in a replay of one rank's tape, ns; ops and events are those of the last repetition."""

    done: list[int]
    """When the host and the device had finished each repetition."""
    called: list[int] | I64
    """When the host made each event's call."""
    returned: list[int] | I64
    """When it went on after it."""
    came: list[int] | I64
    """When each op could begin, as far as its own rank is concerned."""
    end: list[int] | I64


class _Lane(NamedTuple):
    """Ops of a stretch that run on one stream."""

    stream: int
    ops: I64 | slice
    """Within the stretch."""
    duration: I64
    before: I64
    """Duration of each less `sum`: of gaps and durations up to it."""
    sum: I64


class _Link(NamedTuple):
    """Ops of a stretch that wait for earlier ones, these, and the delay after them."""

    ops: I64
    on: I64
    delay: I64 | int


@dataclass(frozen=True)
class _Stretch:
    first: int
    stop: int
    """Its ops."""
    host: I64
    """The host's own time from the last wait until each op's launch."""
    latency: I64
    lanes: tuple[_Lane, ...]
    links: tuple[_Link, ...]


@dataclass(frozen=True)
class _Section:
    """What the host does between two waits."""

    first: int
    stop: int
    """Its events."""
    host: I64
    """The host's own time from the last wait until each event."""
    before: I64
    after: I64
    """How many of the section's ops are launched before each event, and once it has returned."""
    waits: bool
    waits_for: int
    stretches: tuple[_Stretch, ...]


def run_alone(tape: Tape, repeats: int) -> Pass | None:
    """The replay of one rank that meets no other; None where its stretches are so short that nothing is gained."""
    ops, latest = len(tape.stream), np.maximum(tape.dependencies.on, tape.dependencies.also_on)
    if not ops or not repeats or (tape.meeting >= 0).any() or (latest >= np.arange(ops)).any():
        return None
    if _longest_ns(tape) * repeats > LONGEST_NS:
        return None
    section_stops = distinct(np.append(np.flatnonzero(tape.waits) + 1, len(tape.dispatch)))
    if ops < LEAST_OPS * len(section_stops):
        return None
    op_stops = np.searchsorted(tape.event, section_stops, side="left")
    cuts = np.array([0, *_cuts(latest, op_stops)])
    if ops < LEAST_OPS * (len(cuts) - 1):
        return None
    return _run(tape, list(_sections(tape, section_stops, op_stops, cuts)), repeats)


def _longest_ns(tape: Tape) -> float:
    """No moment of a repetition lies farther from its start than all of its times together."""
    times = (tape.dispatch, tape.work, tape.loading, tape.profiling, tape.duration, tape.gap, tape.latency)
    return sum(
        float(np.abs(one.astype(np.float64)).sum()) for one in (*times, tape.dependencies.delay, np.array(tape.tail))
    )


def _cuts(latest: I64, op_stops: I64) -> Iterator[int]:
    """Where stretches of ops stop, in order."""
    begin = 0
    for stop in distinct(op_stops[op_stops > 0]).tolist():
        depending = (np.flatnonzero(latest[begin:stop] >= begin) + begin).tolist()
        for op in [*depending, stop]:
            if op != stop and latest[op] < begin:
                continue
            while op - begin > QUEUE_DEPTH:
                begin += QUEUE_DEPTH
                yield begin
                if op != stop and latest[op] < begin:
                    break
            else:
                yield op
                begin = op


def _sections(tape: Tape, stops: I64, op_stops: I64, cuts: I64) -> Iterator[_Section]:
    host = tape.dispatch + tape.work + tape.loading + tape.profiling
    first = first_op = 0
    for stop, op_stop in zip(stops.tolist(), op_stops.tolist(), strict=True):
        total = np.cumsum(host[first:stop])
        event = tape.event[first_op:op_stop] - first
        numbers = np.arange(stop - first)
        bounds = cuts[np.searchsorted(cuts, first_op) : np.searchsorted(cuts, op_stop, side="right")].tolist()
        yield _Section(
            first,
            stop,
            total,
            np.searchsorted(event, numbers, side="left"),
            np.searchsorted(event, numbers, side="right"),
            bool(tape.waits[stop - 1]),
            int(tape.waits_for[stop - 1]),
            tuple(_stretch(tape, a, b, total[event[a - first_op : b - first_op]]) for a, b in pairwise(bounds)),
        )
        first, first_op = stop, op_stop


def _stretch(tape: Tape, first: int, stop: int, host: I64) -> _Stretch:
    here = slice(first, stop)
    stream, duration, gap = tape.stream[here], tape.duration[here], tape.gap[here]
    streams = distinct(stream).tolist()
    lanes = []
    for one in streams:
        ops = slice(None) if len(streams) == 1 else np.flatnonzero(stream == one)
        total = np.cumsum(gap[ops] + duration[ops])
        lanes.append(_Lane(one, ops, duration[ops], duration[ops] - total, total))
    dependencies = tape.dependencies
    return _Stretch(
        first, stop, host, tape.latency[here], tuple(lanes),
        tuple(
            _Link(ops, other[here][ops], delay if isinstance(delay, int) else delay[here][ops])
            for other, delay in ((dependencies.on, dependencies.delay), (dependencies.also_on, 0))
            if len(ops := np.flatnonzero(other[here] >= 0))
        ),
    )  # fmt: skip


def _run(tape: Tape, sections: list[_Section], repeats: int) -> Pass:
    ops, tail = len(tape.stream), sum(tape.tail)
    came, end = np.zeros(ops, np.int64), np.zeros(ops, np.int64)
    queued = np.zeros(QUEUE_DEPTH + ops, np.int64)
    """When the launches before the first op, and then each op, left the queue."""
    called, returned = np.zeros(len(tape.dispatch), np.int64), np.zeros(len(tape.dispatch), np.int64)
    free = [0] * (int(tape.stream.max()) + 1)
    now = reach = 0
    done = []
    for _ in range(repeats):
        for section in sections:
            offsets = [np.array([now])]
            """What is to be added to the host's own time, from before the first op on."""
            for stretch in section.stretches:
                offset, latest = _advance(stretch, int(offsets[-1][-1]), queued, free, came, end)
                offsets.append(offset)
                reach = max(reach, latest)
            offset = np.concatenate(offsets)
            called[section.first : section.stop] = section.host + offset[section.before]
            returned[section.first : section.stop] = section.host + offset[section.after]
            now = int(section.host[-1] + offset[-1])
            if section.waits:
                now = max(now, reach if section.waits_for < 0 else int(end[section.waits_for]))
                returned[section.stop - 1] = now
        queued[:QUEUE_DEPTH] = queued[ops:].copy()
        now += tail
        done.append(max(now, reach))
    return Pass(done, called, returned, came, end)


def _advance(stretch: _Stretch, offset: int, queued: I64, free: list[int], came: I64, end: I64) -> tuple[I64, int]:
    """Run the ops of a stretch: the host's offset after each launch, and when the last of the ops has ended."""
    here = slice(stretch.first, stretch.stop)
    offsets = np.maximum(queued[here] - stretch.host, offset)
    np.maximum.accumulate(offsets, out=offsets)
    earliest = stretch.host + offsets + stretch.latency
    for link in stretch.links:
        earliest[link.ops] = np.maximum(earliest[link.ops], end[link.on] + link.delay)
    ended, latest = end[here], 0
    for lane in stretch.lanes:
        ends = np.maximum(earliest[lane.ops] + lane.before, free[lane.stream])
        np.maximum.accumulate(ends, out=ends)
        ends += lane.sum
        free[lane.stream] = int(ends[-1])
        latest = max(latest, int(ends.max()))
        ended[lane.ops] = ends
        came[here][lane.ops] = ends - lane.duration
    queued[stretch.first + QUEUE_DEPTH : stretch.stop + QUEUE_DEPTH] = came[here]
    return offsets, latest
