"""What a device op waits for on other streams, inferred from the recording.

Recordings without CUDA sync events do not say it. Three rules stand in for it: an op that started later than
its launch and its stream explain, just after an op of another stream had ended, waited for that one; a
collective waits for the compute op launched before it (its input); a compute op launched after a
`cudaStreamWaitEvent` waits for the collective that had ended last when it started.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from traceanalyzer.analysis.api_names import ApiKind

if TYPE_CHECKING:
    from traceanalyzer.analysis.context import Context
    from traceanalyzer.trace import I32, I64, Bool

REACTION_NS = 20_000
"""An op that waits for another starts within this after it has ended."""
SLACK_NS = 5_000
"""Starting later by less than this needs no explanation."""


@dataclass(frozen=True, eq=False)
class Dependencies:
    """For each op of a tape the op it waits for (index in the tape, always smaller; -1: none) and the delay, ns."""

    on: I64
    delay: I64
    on_communication: I64
    """A second one: the collective that a compute op waits for, -1: none."""

    def met(self, end: I64) -> I64:
        """When all that each op waits for has happened, given the ends of all ops, ns; far in the past without any."""
        never = np.iinfo(np.int64).min // 2
        first = np.where(self.on >= 0, end[np.maximum(self.on, 0)] + self.delay, never)
        second = np.where(self.on_communication >= 0, end[np.maximum(self.on_communication, 0)], never)
        result: I64 = np.maximum(first, second)
        return result


def find_dependencies(ctx: Context, chosen: I64, stream: I32) -> Dependencies:
    """Dependencies between the chosen device ops, which are in launch order."""
    ops = ctx.trace.device_ops
    start, end = ops.start[chosen], ops.end[chosen]
    communication = ctx.is_communication[chosen]
    on = _just_ended(start, end, stream)
    delay = np.where(on >= 0, np.maximum(start - end[np.maximum(on, 0)], 0), 0)
    index = np.arange(len(chosen))
    compute_before = np.maximum.accumulate(np.where(communication, -1, index))
    source = np.where(communication & (on < 0) & (compute_before >= 0), compute_before, on)
    other = (source >= 0) & (stream[np.maximum(source, 0)] != stream)
    source = np.where(other, source, -1)
    waits = _after_stream_wait(ctx, chosen) & ~communication
    second = np.where(waits, _last_ended(start, end, communication), -1)
    second = np.where((second >= 0) & (stream[np.maximum(second, 0)] != stream), second, -1)
    return Dependencies(source, delay, second)


MOST_ENDED = 64
"""Ops that are asked whether their end let another start: of more that end at one time none is the cause."""


def stream_free_since(start: I64, end: I64, stream: I32) -> I64:
    """When the op before each op on its stream had ended, ns; far in the past for the first one."""
    order = np.lexsort((start, stream))
    before = np.full(len(start), np.iinfo(np.int64).min // 2)
    same = stream[order][1:] == stream[order][:-1]
    before[order[1:][same]] = end[order[:-1][same]]
    return before


def _just_ended(start: I64, end: I64, stream: I32) -> I64:
    """The op of another stream, launched earlier, whose end let each op start; -1 where none did."""
    before = stream_free_since(start, end, stream)
    by_end = np.argsort(end, kind="stable")
    result = np.full(len(start), -1, np.int64)
    if len(np.unique(stream)) == 1:
        return result
    ends = end[by_end]
    for i in np.flatnonzero(start - before > SLACK_NS).tolist():
        position = int(np.searchsorted(ends, start[i], side="right")) - 1
        last = max(position - MOST_ENDED, -1)
        while position > last and start[i] - end[by_end[position]] <= REACTION_NS:
            candidate = int(by_end[position])
            if candidate < i and stream[candidate] != stream[i]:
                result[i] = candidate
                break
            position -= 1
    return result


def _last_ended(start: I64, end: I64, communication: Bool) -> I64:
    """The collective, launched earlier, that had ended last when each op started; -1 where none had."""
    collectives = np.flatnonzero(communication)
    result = np.full(len(start), -1, np.int64)
    if not len(collectives):
        return result
    collectives = collectives[np.argsort(end[collectives], kind="stable")]
    position = np.searchsorted(end[collectives], start, side="right") - 1
    found = collectives[np.maximum(position, 0)]
    usable = (position >= 0) & (found < np.arange(len(start)))
    result[usable] = found[usable]
    return result


def _after_stream_wait(ctx: Context, chosen: I64) -> Bool:
    """Which ops are the first to be launched after a call that makes a stream wait for an event."""
    calls = ctx.trace.api_calls
    waiting = np.sort(calls.start[ctx.api_kind == ApiKind.EVENT_WAIT])
    launched = ctx.launch_time[chosen]
    count = np.searchsorted(waiting, launched)
    return np.append(count[:1] > 0, count[1:] > count[:-1])
