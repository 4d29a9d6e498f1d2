"""Runs the tape of one rank stretch by stretch instead of op by op, with the same result to the
nanosecond.

Between two waits the host only adds up its times, and stops where the launch queue is full; ops of
a stream follow each other. Both are a running maximum of sums: `end[i] = max(earliest[i], end[i-1]
+ gap[i]) + duration[i]` is `sum[i] + max(earliest[k] + duration[k] - sum[k])` over k up to i, where
`sum` adds up gaps and durations. A stretch ends where the host waits, where an op depends on one of
the same stretch, and before it is as long as the launch queue.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from traceanalyzer.analysis.time.launch_queue import QUEUE_DEPTH
from traceanalyzer.replay.tape import Tape
from traceanalyzer.trace import I64, distinct

LONGEST_NS = (
    2.0**60
)  # 36 years: beyond, sums might not fit 64 bits, which a recording reaches only by damage
LEAST_OPS = 24  # shorter stretches, on the mean, are run faster op by op


class Pass(NamedTuple):
    """When things happened in a replay of one rank's tape, ns; ops and events are those of the last
    repetition."""

    done: list[int]  # when the host and the device had finished each repetition
    called: list[int] | I64  # when the host made each event's call
    returned: list[int] | I64  # when it went on after it
    came: list[int] | I64  # when each op could begin, as far as its own rank is concerned
    end: list[int] | I64


class _Lane(NamedTuple):
    """Ops of a stretch that run on one stream."""

    stream: int
    ops: I64 | slice  # within the stretch
    duration: I64
    before: I64  # duration of each less `sum`: of gaps and durations up to it
    sum: I64


_Link = tuple[I64, I64, I64]
"""Ops of a stretch that wait for earlier ones, these, and the delay after them."""


_WaitsAfter = dict[int, list[tuple[int, int]]]
"""By a number of ops, events that wait after so many; each with the op up to which it waits."""


class _Stretch(NamedTuple):
    first: int
    stop: int  # its ops: from the first up to this one
    host: I64  # the host's own time from the begin of the repetition until each op's launch
    latency: I64
    lanes: list[_Lane]
    links: list[_Link]
    waits: list[
        tuple[int, int]
    ]  # events after it that wait, each with the op up to which, -1 for all before it


def run_alone(tape: Tape, repeats: int) -> Pass | None:
    """The replay of one rank that meets no other; None where its stretches are so short that
    nothing is gained."""
    ops = len(tape.stream)
    latest = np.maximum(tape.dependencies.on, tape.dependencies.also_on)
    if not ops * repeats or _longest_ns(tape) * repeats > LONGEST_NS:
        return None
    if (tape.meeting >= 0).any() or (latest >= np.arange(ops)).any():
        return None
    waits = np.flatnonzero(tape.waits)
    launched = np.searchsorted(tape.event, waits, side="right")
    if ops < LEAST_OPS * (len(waits) + 1):
        return None
    cuts = [0, *_cuts(latest, distinct(np.append(launched, ops)))]
    if ops < LEAST_OPS * (len(cuts) - 1):
        return None
    own = np.cumsum(tape.dispatch + tape.work + tape.loading + tape.profiling)
    after = _waits_after(tape, waits, launched)
    return _run(tape, own, _stretches(tape, own, [0, *cuts], after), repeats)


def _waits_after(tape: Tape, waits: I64, launched: I64) -> _WaitsAfter:
    """The waits after so many ops."""
    after: _WaitsAfter = {}
    awaited = tape.waits_for[waits].tolist()
    for event, place, op in zip(waits.tolist(), launched.tolist(), awaited, strict=True):
        after.setdefault(place, []).append((event, op))
    return after


def _stretches(tape: Tape, own: I64, edges: list[int], after: _WaitsAfter) -> list[_Stretch]:
    """The stretches between these ops."""
    links = _links_of_stretches(tape, edges)
    is_one_stream = bool((tape.stream == tape.stream[0]).all())
    return [
        _Stretch(
            first,
            stop,
            own[tape.event[first:stop]],
            tape.latency[first:stop],
            _lanes(tape, slice(first, stop), is_one_stream=is_one_stream),
            links[number],
            after.get(stop, []),
        )
        for number, (first, stop) in enumerate(pairwise(edges))
    ]


def _longest_ns(tape: Tape) -> float:
    """All times of a repetition together: no moment of it lies farther from its start."""
    times = (
        tape.dispatch,
        tape.work,
        tape.loading,
        tape.profiling,
        tape.duration,
        tape.gap,
        tape.latency,
        tape.dependencies.delay,
        np.array(tape.tail),
    )
    return sum(float(np.abs(one.astype(np.float64)).sum()) for one in times)


def _cuts(latest: I64, waits: I64) -> Iterator[int]:
    """Where stretches of ops stop, in order, given where the host waits and where the ops end."""
    begin = 0
    for stop in waits[waits > 0].tolist():
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


def _lanes(tape: Tape, rows: slice, *, is_one_stream: bool) -> list[_Lane]:
    """The ops of a stretch by stream."""
    stream = tape.stream[rows]
    duration = tape.duration[rows]
    gap = tape.gap[rows]
    if is_one_stream and len(stream):
        total = np.cumsum(gap + duration)
        return [_Lane(int(stream[0]), slice(None), duration, duration - total, total)]
    lanes = []
    for number in np.flatnonzero(np.bincount(stream)).tolist():
        ops = np.flatnonzero(stream == number)
        total = np.cumsum(gap[ops] + duration[ops])
        lanes.append(_Lane(number, ops, duration[ops], duration[ops] - total, total))
    return lanes


def _links_of_stretches(tape: Tape, edges: list[int]) -> list[list[_Link]]:
    """The links of each stretch between two of these edges."""
    needs = tape.dependencies
    result: list[list[_Link]] = [[] for _ in edges[1:]]
    for on, delay in ((needs.on, needs.delay), (needs.also_on, np.zeros_like(needs.delay))):
        linked = np.flatnonzero(on >= 0)
        bounds = np.searchsorted(linked, edges).tolist()
        for number, (first, stop) in enumerate(pairwise(bounds)):
            if first < stop:
                ops = linked[first:stop]
                within = ops - edges[number]
                result[number].append((within, on[ops], delay[ops]))
    return result


def _run(tape: Tape, own: I64, stretches: list[_Stretch], repeats: int) -> Pass:
    """`own`: the host's own time from the begin of a repetition until each event; what holds it up
    comes on top."""
    ops = len(tape.stream)
    tail = sum(tape.tail)
    came = np.zeros(ops, np.int64)
    end = np.zeros(ops, np.int64)
    held = np.zeros(ops, np.int64)
    queued = np.zeros(QUEUE_DEPTH + ops, np.int64)
    """When the launches before the first op, and then each op, left the queue."""
    free = [0] * (int(tape.stream.max()) + 1)
    waited = np.zeros(len(own), np.int64)
    now = begin = device_done = 0
    done = []
    for _ in range(repeats):
        begin = offset = now
        for stretch in stretches:
            if stretch.lanes:
                offsets, latest = _advance(stretch, offset, queued, free, came, end)
                held[stretch.first : stretch.stop] = offsets
                offset = int(offsets[-1])
                device_done = max(device_done, latest)
            for event, awaited in stretch.waits:
                offset = max(
                    offset, (device_done if awaited < 0 else int(end[awaited])) - int(own[event])
                )
                waited[event] = offset
        queued[:QUEUE_DEPTH] = queued[ops:].copy()
        now = int(own[-1]) + offset + tail
        done.append(max(now, device_done))
    last = np.searchsorted(tape.event, np.arange(len(waited)), side="right") - 1
    after = np.where(last >= 0, held[last], begin)
    after = np.maximum.accumulate(np.where(tape.waits, np.maximum(after, waited), after))
    return Pass(done, own + np.append(begin, after[:-1]), own + after, came, end)


def _advance(
    stretch: _Stretch, offset: int, queued: I64, free: list[int], came: I64, end: I64
) -> tuple[I64, int]:
    """Run the ops of a stretch: the host's offset after each launch, and when the last of the ops
    has ended."""
    rows = slice(stretch.first, stretch.stop)
    offsets = np.maximum(queued[rows] - stretch.host, offset)
    np.maximum.accumulate(offsets, out=offsets)
    earliest = stretch.host + offsets + stretch.latency
    for ops, on, delay in stretch.links:
        earliest[ops] = np.maximum(earliest[ops], end[on] + delay)
    ended = end[rows]
    latest = 0
    for lane in stretch.lanes:
        ends = np.maximum(earliest[lane.ops] + lane.before, free[lane.stream])
        np.maximum.accumulate(ends, out=ends)
        ends += lane.sum
        free[lane.stream] = int(ends[-1])
        latest = max(latest, int(ends.max()))
        ended[lane.ops] = ends
        came[rows][lane.ops] = ends - lane.duration
    queued[stretch.first + QUEUE_DEPTH : stretch.stop + QUEUE_DEPTH] = came[rows]
    return offsets, latest
