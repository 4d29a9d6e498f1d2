"""What a device op waits for on other streams, where it was recorded: CUDA sync events, nsys'
synchronisation.

The first op launched on the stream that was made to wait waits for what the source stream had been
given when the event was recorded. Where neither stream nor moment of that record is known, it is
the last op given to another stream before the wait that had ended when the waiting op started."""

from typing import NamedTuple

import numpy as np

from traceanalyzer.analysis.algebra.grouping import first_rows
from traceanalyzer.analysis.algebra.lookup import at, look_up
from traceanalyzer.analysis.causes.dependencies import NEVER, REACTION_NS, Dependencies
from traceanalyzer.analysis.joined.linked import Linked
from traceanalyzer.base import dataclass
from traceanalyzer.trace import I32, I64, WaitKind, distinct, is_sorted
from traceanalyzer.trace.events import Waits

UNKNOWN = -1  # number of a stream that the recording does not name, or on which nothing ran


class _Streams(NamedTuple):
    """Launched device ops by stream and launch."""

    row: I64
    launched: I64
    first: I64  # where each stream's ops begin; one entry more than there are streams

    @classmethod
    def of(cls, launch_time: I64, stream: I32) -> "_Streams":
        row = np.flatnonzero(launch_time >= 0)
        row = row[np.lexsort((row, launch_time[row], stream[row]))]
        return cls(
            row,
            launch_time[row],
            np.searchsorted(stream[row], np.arange(int(stream.max(initial=-1)) + 2)),
        )

    def of_stream(self, stream: int) -> slice:
        """Where a stream's ops are."""
        return slice(int(self.first[stream]), int(self.first[stream + 1]))

    def given(self, stream: int, time: I64) -> I64:
        """How many of a stream's ops had been launched before each of these times, counted from the
        first of all."""
        ops = self.of_stream(stream)
        return ops.start + np.searchsorted(self.launched[ops], time, side="left")

    def ended(self, stream: int, end: I64, time: I64) -> I64:
        """How many of a stream's ops had ended (`end`: of all ops) at each of these times, counted
        from the first of all."""
        ops = self.of_stream(stream)
        in_order = np.maximum.accumulate(end[self.row[ops]])
        return ops.start + np.searchsorted(in_order, time, side="right")


@dataclass(frozen=True, eq=False)
class _Wait:
    """Waits of streams for others, each with the op that was held."""

    stream: I64  # number of the stream that waits
    source: I64  # and of the one that it waits for; `UNKNOWN` where that was not recorded
    recorded: I64  # when the event was recorded, ns
    held: I64  # the first op launched on the waiting stream from then on, -1 without
    begun: I64  # when it began, ns; `NEVER` without


def recorded_dependencies(linked: Linked, stream: I32) -> Dependencies | None:
    """Dependencies between device ops (rows of `Trace.device_ops`) as recorded; None where no such
    waits were."""
    waits = linked.trace.waits
    waits = waits.take((waits.kind == WaitKind.STREAM_WAIT_EVENT) & (waits.stream >= 0))
    if not len(waits):
        return None
    streams = _Streams.of(linked.launch_time, stream)
    wait = _waits_of(linked, stream, streams, waits)
    holds = wait.held >= 0
    awaited = _awaited(linked, streams, wait)
    return _joined(linked, wait.held[holds], awaited[holds])


def _waits_of(linked: Linked, stream: I32, streams: _Streams, waits: Waits) -> _Wait:
    calls = linked.trace.api_calls
    call, record = np.split(_calls_with(linked, np.append(waits.correlation, waits.record)), 2)
    called = np.where(call >= 0, at(calls.start, call, 0), waits.start)
    recorded = np.where(record >= 0, at(calls.start, record, 0), called)
    numbers = numbers_by_stream(linked, stream)

    def numbered(recorded: I32) -> I64:
        keys = zip(waits.context.tolist(), recorded.tolist(), strict=True)
        return np.array([numbers.get(key, UNKNOWN) for key in keys], np.int64)

    waiting = numbered(waits.stream)
    held = _next_op(streams, waiting, called)
    return _Wait(
        stream=waiting,
        source=numbered(waits.source_stream),
        recorded=np.minimum(recorded, called),
        held=held,
        begun=np.append(linked.trace.device_ops.start, NEVER)[held],
    )


def _awaited(linked: Linked, streams: _Streams, wait: _Wait) -> I64:
    """The op that each wait was for, -1 where none fits: of several streams that which ended
    last."""
    end = linked.trace.device_ops.end
    result = np.full(len(wait.stream), -1, np.int64)
    ended = np.full(len(wait.stream), NEVER)
    for number in range(len(streams.first) - 1):
        row = _last_of_stream(streams, number, end, wait)
        row_end = np.append(end, NEVER)[row]
        better = (row >= 0) & (row_end > ended) & (row_end <= wait.begun)
        result[better] = row[better]
        ended[better] = row_end[better]
    return result


def _last_of_stream(streams: _Streams, number: int, end: I64, wait: _Wait) -> I64:
    """The last op of a stream that each wait may be for; -1 without."""
    given = streams.given(number, wait.recorded)
    ended = streams.ended(number, end, wait.begun)
    is_source = wait.source == number
    # A record that is known is the one; of an unknown one the work had been done when the op began.
    position = np.where(is_source, given, np.minimum(given, ended)) - 1
    usable = (position >= streams.first[number]) & (wait.stream != number)
    usable &= is_source | (wait.source == UNKNOWN)
    return np.where(usable, np.append(streams.row, -1)[np.maximum(position, 0)], -1)


def numbers_by_stream(linked: Linked, number: I32) -> dict[tuple[int, int], int]:
    """The number of each stream of a context, given those of the device ops."""
    ops = linked.trace.device_ops
    first = first_rows(number, int(number.max(initial=-1)) + 1)
    return {(int(ops.context[i]), int(ops.stream[i])): int(number[i]) for i in first}


def _calls_with(linked: Linked, correlation: I64) -> I64:
    """The first calls with these correlation ids, -1 where none was recorded."""
    known = linked.trace.api_calls.correlation
    rows = np.flatnonzero(known > 0)
    if not is_sorted(known[rows]):
        rows = rows[np.argsort(known[rows], kind="stable")]
    return at(rows, look_up(known[rows], correlation), -1).astype(np.int64)


def _next_op(streams: _Streams, waiting: I64, time: I64) -> I64:
    """The first op launched on each waiting stream from its time on, -1 where there is none."""
    result = np.full(len(waiting), -1, np.int64)
    for number in distinct(waiting[waiting >= 0]).tolist():
        waits = np.flatnonzero(waiting == number)
        position = streams.given(number, time[waits])
        inside = position < streams.first[number + 1]
        result[waits[inside]] = streams.row[position[inside]]
    return result


def _joined(linked: Linked, target: I64, awaited: I64) -> Dependencies:
    """One row an op: of what it waits for, the two of different streams that ended last."""
    ops = linked.trace.device_ops
    target = target[awaited >= 0]
    awaited = awaited[awaited >= 0]
    order = np.lexsort((-ops.end[awaited], target))
    target = target[order]
    awaited = awaited[order]
    first = np.append(True, target[1:] != target[:-1])[: len(target)]
    last = np.full(len(ops), -1, np.int64)
    last[target[first]] = awaited[first]
    second = np.full(len(ops), -1, np.int64)
    other = ~first & (ops.stream[awaited] != ops.stream[last[target]])
    second[target[other][::-1]] = awaited[other][::-1]
    slack = np.where(last >= 0, ops.start - ops.end[np.maximum(last, 0)], 0)
    near = (last >= 0) & (slack <= REACTION_NS)
    usual = int(np.median(slack[near])) if near.any() else 0
    return Dependencies(last, np.where(last >= 0, np.where(near, slack, usual), 0), second)
