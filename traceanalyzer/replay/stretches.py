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

LONGEST_NS = 2.0**60
"""36 years. Longer sums might not fit 64 bits; only a damaged recording has them."""
LEAST_OPS = 24  # shorter stretches, on the mean, are run faster op by op


class ReplayTimes(NamedTuple):
    """When things happened in a replay of one rank's tape, ns; ops and events are those of the last
    repetition."""

    done: list[int]  # when the host and the device had finished each repetition
    called: list[int] | I64  # when the host made each event's call
    returned: list[int] | I64  # when it went on after it
    ready: list[int] | I64  # when each op could start, as far as its own rank is concerned
    end: list[int] | I64  # when each op ended


class _Lane(NamedTuple):
    """Ops of a stretch that run on one stream."""

    stream: int
    ops: I64 | slice  # within the stretch
    duration: I64
    before: I64  # duration of each less `sum`: of gaps and durations up to it
    sum: I64


class _Links(NamedTuple):
    """Ops of a stretch that wait for ops of earlier stretches."""

    ops: I64  # within the stretch
    awaited: I64  # on the tape
    delay: I64  # from the end of the awaited op, ns


class _Wait(NamedTuple):
    """An event at which the host waits for the device."""

    event: int
    awaited: int  # the op up to which it waits, -1: all that was launched before it


_WaitsAfter = dict[int, list[_Wait]]
"""The waits that follow the launch of so many ops."""


class _Stretch(NamedTuple):
    first: int  # its ops: from the first up to before `stop`
    stop: int
    host: I64  # the host's own time from the begin of the repetition until each op's launch
    latency: I64
    lanes: list[_Lane]
    links: list[_Links]
    waits: list[_Wait]  # after its last op


def run_alone(tape: Tape, repeats: int) -> ReplayTimes | None:
    """The replay of one rank that meets no other; None where its stretches are so short that
    nothing is gained."""
    ops = len(tape.stream)
    latest = np.maximum(tape.dependencies.awaited, tape.dependencies.also_awaited)
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
    host_until = np.cumsum(tape.host_before_event)
    after = _waits_after(tape, waits, launched)
    stretches = _stretches(tape, host_until, [0, *cuts], after)
    return _Replay(tape, host_until).run(stretches, repeats)


def _waits_after(tape: Tape, waits: I64, launched: I64) -> _WaitsAfter:
    """The waits (events), by how many ops had been launched before each."""
    after: _WaitsAfter = {}
    awaited = tape.waits_for[waits].tolist()
    for event, count, op in zip(waits.tolist(), launched.tolist(), awaited, strict=True):
        after.setdefault(count, []).append(_Wait(event, op))
    return after


def _stretches(tape: Tape, host_until: I64, edges: list[int], after: _WaitsAfter) -> list[_Stretch]:
    """The stretches between these ops."""
    links = _links_of_stretches(tape, edges)
    is_one_stream = bool((tape.stream == tape.stream[0]).all())
    return [
        _Stretch(
            first,
            stop,
            host_until[tape.event[first:stop]],
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
    """Where stretches of ops stop, in order: where the host waits (after so many ops), before an op
    that waits for one (`latest`) of the same stretch, and after a queue of launches."""
    begin = 0
    for stop in waits[waits > 0].tolist():
        depending = (np.flatnonzero(latest[begin:stop] >= begin) + begin).tolist()
        for op in depending:
            while latest[op] >= begin:
                begin = min(op, begin + QUEUE_DEPTH)
                yield begin
        while begin < stop:
            begin = min(stop, begin + QUEUE_DEPTH)
            yield begin


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


def _links_of_stretches(tape: Tape, edges: list[int]) -> list[list[_Links]]:
    """The links of each stretch between two of these edges."""
    needs = tape.dependencies
    result: list[list[_Links]] = [[] for _ in edges[1:]]
    for awaited, delay in (
        (needs.awaited, needs.delay),
        (needs.also_awaited, np.zeros_like(needs.delay)),
    ):
        linked = np.flatnonzero(awaited >= 0)
        bounds = np.searchsorted(linked, edges).tolist()
        for number, (first, stop) in enumerate(pairwise(bounds)):
            if first < stop:
                ops = linked[first:stop]
                result[number].append(_Links(ops - edges[number], awaited[ops], delay[ops]))
    return result


class _Replay:
    """A replay of one rank, stretch by stretch.

    A moment of the host is its own time since the begin of the repetition plus an *offset*: the
    begin itself, and all that held the host up since, which are waits and a full launch queue."""

    def __init__(self, tape: Tape, host_until: I64) -> None:
        """`host_until`: the host's own time from the begin of a repetition until each event."""
        ops = len(tape.stream)
        self._tape = tape
        self._host_until = host_until
        self._offset_at_launch = np.zeros(ops, np.int64)
        self._offset_after_wait = np.zeros(len(host_until), np.int64)
        self._ready = np.zeros(ops, np.int64)
        self._end = np.zeros(ops, np.int64)
        self._left_queue = np.zeros(QUEUE_DEPTH + ops, np.int64)
        """When the launches before the first op, and then each op, left the launch queue."""
        self._stream_free = [0] * (int(tape.stream.max()) + 1)
        self._device_done = 0

    def run(self, stretches: list[_Stretch], repeats: int) -> ReplayTimes:
        """Run the tape, which these stretches are, so many times."""
        tail_ns = sum(self._tape.tail)
        begin = now = 0
        done = []
        for _ in range(repeats):
            begin = now
            now = self._repeat(stretches, begin) + tail_ns
            done.append(max(now, self._device_done))
        called, returned = self._host_times(begin)
        return ReplayTimes(done, called, returned, self._ready, self._end)

    def _repeat(self, stretches: list[_Stretch], begin: int) -> int:
        """Run the tape once: when the host goes on after its last event."""
        offset = begin
        for stretch in stretches:
            if stretch.lanes:
                offset = self._launch(stretch, offset)
            for wait in stretch.waits:
                offset = self._wait(wait, offset)
        ops = len(self._ready)
        self._left_queue[:QUEUE_DEPTH] = self._left_queue[ops:].copy()
        return int(self._host_until[-1]) + offset

    def _launch(self, stretch: _Stretch, offset: int) -> int:
        """Launch and run the ops of a stretch: the host's offset after the last launch."""
        rows = slice(stretch.first, stretch.stop)
        offsets = np.maximum(self._left_queue[rows] - stretch.host, offset)
        np.maximum.accumulate(offsets, out=offsets)
        self._offset_at_launch[rows] = offsets
        earliest = stretch.host + offsets + stretch.latency
        for links in stretch.links:
            awaited_end = self._end[links.awaited] + links.delay
            earliest[links.ops] = np.maximum(earliest[links.ops], awaited_end)
        for lane in stretch.lanes:
            self._run_lane(lane, rows, earliest)
        self._left_queue[rows.start + QUEUE_DEPTH : rows.stop + QUEUE_DEPTH] = self._ready[rows]
        return int(offsets[-1])

    def _run_lane(self, lane: _Lane, rows: slice, earliest: I64) -> None:
        """Run the ops of one stream, which follow each other; `earliest`: when each op of the
        stretch could start on an empty stream."""
        ends = np.maximum(earliest[lane.ops] + lane.before, self._stream_free[lane.stream])
        np.maximum.accumulate(ends, out=ends)
        ends += lane.sum
        self._stream_free[lane.stream] = int(ends[-1])
        self._device_done = max(self._device_done, int(ends.max()))
        self._end[rows][lane.ops] = ends
        self._ready[rows][lane.ops] = ends - lane.duration

    def _wait(self, wait: _Wait, offset: int) -> int:
        """Let the host wait: its offset after that."""
        ended = self._device_done if wait.awaited < 0 else int(self._end[wait.awaited])
        offset = max(offset, ended - int(self._host_until[wait.event]))
        self._offset_after_wait[wait.event] = offset
        return offset

    def _host_times(self, begin: int) -> tuple[I64, I64]:
        """When the host made each event's call in the last repetition, which began then, and when
        it went on after it."""
        events = np.arange(len(self._host_until))
        last_launch = np.searchsorted(self._tape.event, events, side="right") - 1
        launched = np.where(last_launch >= 0, self._offset_at_launch[last_launch], begin)
        waited = np.maximum(launched, self._offset_after_wait)
        offset = np.maximum.accumulate(np.where(self._tape.waits, waited, launched))
        offset_before = np.append(begin, offset[:-1])
        return self._host_until + offset_before, self._host_until + offset
