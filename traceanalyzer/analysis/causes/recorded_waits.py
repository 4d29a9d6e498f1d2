"""What a device op waits for on other streams, where it was recorded: CUDA sync events, nsys'
synchronisation.

The first op launched on the stream that was made to wait waits for what the source stream had been
given when the event was recorded. Where neither stream nor moment of that record is known, it is
the last op given to another stream before the wait that had ended when the waiting op started."""

from typing import NamedTuple

import numpy as np

from traceanalyzer.analysis.algebra.grouping import first_rows
from traceanalyzer.analysis.causes.dependencies import NEVER, REACTION_NS, Dependencies
from traceanalyzer.analysis.joined.linked import Linked
from traceanalyzer.trace import I32, I64, WaitKind, distinct

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

    def given(self, stream: int, time: I64) -> I64:
        """How many of a stream's ops had been launched before each of these times, counted from the
        first of all."""
        low = int(self.first[stream])
        high = int(self.first[stream + 1])
        return low + np.searchsorted(self.launched[low:high], time, side="left")


def recorded_dependencies(linked: Linked, stream: I32) -> Dependencies | None:
    """Dependencies between device ops (rows of `Trace.device_ops`) as recorded; None where no such
    waits were."""
    waits = linked.trace.waits
    waits = waits.take((waits.kind == WaitKind.STREAM_WAIT_EVENT) & (waits.stream >= 0))
    if not len(waits):
        return None
    called = _time_of_call(linked, waits.correlation, waits.start)
    recorded = np.minimum(_time_of_call(linked, waits.record, called), called)
    streams = _Streams.of(linked.launch_time, stream)
    known = numbers_by_stream(linked, stream)
    context = waits.context.tolist()
    waiting, source = (
        np.array(
            [known.get(key, UNKNOWN) for key in zip(context, one.tolist(), strict=True)], np.int64
        )
        for one in (waits.stream, waits.source_stream)
    )
    target = _next_op(streams, waiting, called)
    here = target >= 0
    ops = linked.trace.device_ops
    begun = np.append(ops.start, NEVER)[target]
    result = np.full(len(waiting), -1, np.int64)
    ended = np.full(len(waiting), NEVER)
    for one in range(len(streams.first) - 1):
        low, high = streams.first[one : one + 2].tolist()
        done = (
            np.searchsorted(
                np.maximum.accumulate(ops.end[streams.row[low:high]]), begun, side="right"
            )
            + low
        )
        given = streams.given(one, recorded)
        # A record that is known is the one; of an unknown one the work had been done when the op
        # began.
        position = np.where(source == one, given, np.minimum(given, done)) - 1
        usable = (position >= low) & (waiting != one) & ((source == one) | (source == UNKNOWN))
        row = np.where(usable, np.append(streams.row, -1)[np.maximum(position, 0)], -1)
        end = np.append(ops.end, NEVER)[row]
        better = usable & (end > ended) & (end <= begun)
        result[better] = row[better]
        ended[better] = end[better]
    return _joined(linked, target[here], result[here])


def numbers_by_stream(linked: Linked, number: I32) -> dict[tuple[int, int], int]:
    """The number of each stream of a context, given those of the device ops."""
    ops = linked.trace.device_ops
    first = first_rows(number, int(number.max(initial=-1)) + 1)
    return {(int(ops.context[i]), int(ops.stream[i])): int(number[i]) for i in first}


def _time_of_call(linked: Linked, correlation: I64, otherwise: I64) -> I64:
    """When the calls with these correlation ids were made, ns; the other time where none was
    recorded."""
    calls = linked.trace.api_calls
    rows = np.flatnonzero(calls.correlation > 0)
    order = rows[np.argsort(calls.correlation[rows], kind="stable")]
    if not len(order):
        return otherwise
    position = np.minimum(np.searchsorted(calls.correlation[order], correlation), len(order) - 1)
    return np.where(
        calls.correlation[order[position]] == correlation, calls.start[order[position]], otherwise
    )


def _next_op(streams: _Streams, waiting: I64, time: I64) -> I64:
    """The first op launched on each waiting stream from its time on, -1 where there is none."""
    result = np.full(len(waiting), -1, np.int64)
    for one in distinct(waiting[waiting >= 0]).tolist():
        here = np.flatnonzero(waiting == one)
        position = streams.given(one, time[here])
        inside = position < streams.first[one + 1]
        result[here[inside]] = streams.row[position[inside]]
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
    on = np.full(len(ops), -1, np.int64)
    also = np.full(len(ops), -1, np.int64)
    on[target[first]] = awaited[first]
    other = ~first & (ops.stream[awaited] != ops.stream[on[target]])
    also[target[other][::-1]] = awaited[other][::-1]
    slack = np.where(on >= 0, ops.start - ops.end[np.maximum(on, 0)], 0)
    near = (on >= 0) & (slack <= REACTION_NS)
    usual = int(np.median(slack[near])) if near.any() else 0
    return Dependencies(on, np.where(on >= 0, np.where(near, slack, usual), 0), also)
