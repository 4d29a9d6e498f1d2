"""What a device op waits for on other streams: as recorded, else inferred.

Recordings without CUDA sync events do not say it. Three rules stand in for it: an op that started
later than its launch and its stream explain, just after an op of another stream had ended, waited
for that one; a collective waits for the compute op launched before it (its input); a compute op
launched after a `cudaStreamWaitEvent` waits for the collective that had ended last when it
started."""

import numpy as np

from traceanalyzer.analysis.algebra import at, texts_where
from traceanalyzer.analysis.joined.linked import Linked
from traceanalyzer.analysis.names.api import ApiKind
from traceanalyzer.analysis.names.collectives import CALLS
from traceanalyzer.base import dataclass
from traceanalyzer.trace import I32, I64, Bool, constant_column

NEVER = np.iinfo(np.int64).min // 2  # end of what an op does not have
REACTION_NS = 20_000  # an op that waits for another starts within this after it has ended
SLACK_NS = 5_000  # starting later by less than this needs no explanation


@dataclass(frozen=True, eq=False)
class Dependencies:
    """For each op the ops of other streams that it waits for (indices, -1: none)."""

    awaited: I64
    delay: I64  # from the end of the awaited op to the start of the one that waits, ns
    also_awaited: I64  # a second one, on which the op follows without a delay

    @classmethod
    def none(cls, count: int) -> "Dependencies":
        """No op waits for another stream."""
        nothing = constant_column(-1, count, np.int64)
        delay = constant_column(0, count, np.int64)
        return cls(awaited=nothing, delay=delay, also_awaited=nothing)

    def met(self, end: I64) -> I64:
        """When all that each op waits for has happened, given the ends of all ops, ns; `NEVER`
        without any."""
        if self.awaited is self.also_awaited:  # none
            return constant_column(NEVER, len(self.awaited), np.int64)
        first = np.where(self.awaited >= 0, end[np.maximum(self.awaited, 0)] + self.delay, NEVER)
        second = np.where(self.also_awaited >= 0, end[np.maximum(self.also_awaited, 0)], NEVER)
        return np.maximum(first, second)

    def among(self, chosen: I64) -> "Dependencies":
        """Those between the chosen ops, by their position there; ops wait for earlier ones only."""
        position = np.full(len(self.awaited) + 1, -1, np.int64)
        own = np.arange(len(chosen))
        position[chosen] = own
        awaited = position[self.awaited[chosen]]
        also_awaited = position[self.also_awaited[chosen]]
        return Dependencies(
            np.where(awaited < own, awaited, -1),
            self.delay[chosen],
            np.where(also_awaited < own, also_awaited, -1),
        )

    def spread(self, chosen: I64, count: int) -> "Dependencies":
        """By row of all `count` ops, of which these are the chosen ones."""
        if (self.awaited < 0).all() and (self.also_awaited < 0).all():
            return Dependencies.none(count)
        awaited = np.full(count, -1)
        delay = np.zeros(count, np.int64)
        also_awaited = np.full(count, -1)
        awaited[chosen] = np.where(self.awaited >= 0, chosen[self.awaited], -1)
        delay[chosen] = self.delay
        also_awaited[chosen] = np.where(self.also_awaited >= 0, chosen[self.also_awaited], -1)
        return Dependencies(awaited, delay, also_awaited)


MOST_ENDED = 64
"""Ends asked whether they let an op start: with more in the reaction time none is the cause."""


def inferred_dependencies(linked: Linked, stream: I32) -> Dependencies:
    """Dependencies between device ops that their times and launches suggest."""
    count = len(stream)
    chosen = np.flatnonzero(linked.launch_time >= 0)
    if not len(chosen) or stream.max(initial=0) == 0:
        return Dependencies.none(count)
    chosen = chosen[np.argsort(linked.launch_time[chosen], kind="stable")]
    return _inferred(linked, chosen, stream[chosen]).spread(chosen, count)


def with_graph_edges(linked: Linked, stream: I32, known: Dependencies) -> Dependencies:
    """What is known, with edges of replayed graphs from other streams: an op waits for the one of
    them that ended last."""
    edges = linked.trace.graph_edges
    ops = linked.trace.device_ops
    rows = np.flatnonzero(stream[edges.op] != stream[edges.after])
    if not len(rows):
        return known
    rows = rows[np.argsort(ops.end[edges.after[rows]], kind="stable")]
    op = edges.op[rows]
    awaited = known.awaited.copy()
    delay = known.delay.copy()
    awaited[op] = edges.after[rows]
    delay[op] = np.maximum(ops.start[op] - ops.end[awaited[op]], 0)
    return Dependencies(awaited, delay, known.also_awaited)


def _inferred(linked: Linked, chosen: I64, stream: I32) -> Dependencies:
    """Dependencies between the chosen ops, which are in launch order."""
    ops = linked.trace.device_ops
    start = ops.start[chosen]
    end = ops.end[chosen]
    communication = linked.is_communication[chosen]
    launched = at(linked.trace.api_calls.end, linked.launch[chosen], NEVER)
    ready = np.maximum(_free_since(start, end, stream), launched)
    ended = _just_ended(np.flatnonzero(start - ready > SLACK_NS), start, end, stream)
    delay = np.where(ended >= 0, np.maximum(start - end[np.maximum(ended, 0)], 0), 0)
    compute_before = np.maximum.accumulate(np.where(communication, -1, np.arange(len(chosen))))
    has_input = communication & (ended < 0) & (compute_before >= 0)
    awaited = _of_other_stream(np.where(has_input, compute_before, ended), stream)
    waits = _after_stream_wait(linked, chosen) & ~communication
    second = np.where(waits, _last_ended(start, end, communication), -1)
    return Dependencies(awaited, delay, _of_other_stream(second, stream))


def _just_ended(searching: I64, start: I64, end: I64, stream: I32) -> I64:
    """For each of the ops that search for a reason to start as late, the op of another stream,
    launched before, that had ended last within the time of a reaction; -1: none, or not
    searched."""
    by_end = np.argsort(end, kind="stable")
    result = np.full(len(start), -1, np.int64)
    position = np.searchsorted(end[by_end], start[searching], side="right") - 1
    for _ in range(MOST_ENDED):
        candidate = by_end[np.maximum(position, 0)]
        near = (position >= 0) & (start[searching] - end[candidate] <= REACTION_NS)
        found = near & (candidate < searching) & (stream[candidate] != stream[searching])
        result[searching[found]] = candidate[found]
        going_on = near & ~found
        searching = searching[going_on]
        position = position[going_on] - 1
    return result


def _of_other_stream(op: I64, stream: I32) -> I64:
    """What ops wait for (-1: nothing), without ops of their own streams."""
    is_other = (op >= 0) & (stream[np.maximum(op, 0)] != stream)
    return np.where(is_other, op, -1)


def _free_since(start: I64, end: I64, stream: I32) -> I64:
    """When the op before each op on its stream had ended, ns; `NEVER` for the first one."""
    order = np.lexsort((start, stream))
    before = np.full(len(start), NEVER)
    same = stream[order][1:] == stream[order][:-1]
    before[order[1:][same]] = end[order[:-1][same]]
    return before


def _last_ended(start: I64, end: I64, communication: Bool) -> I64:
    """The collective, launched earlier, that had ended last when each op started; -1 where none
    had."""
    result = np.full(len(start), -1, np.int64)
    collectives = np.flatnonzero(communication)
    if not len(collectives):
        return result
    collectives = collectives[np.argsort(end[collectives], kind="stable")]
    position = np.searchsorted(end[collectives], start, side="right") - 1
    found = collectives[np.maximum(position, 0)]
    usable = (position >= 0) & (found < np.arange(len(start)))
    result[usable] = found[usable]
    return result


def _after_stream_wait(linked: Linked, chosen: I64) -> Bool:
    """Which ops are launched first after a stream was made to wait for an event, but not within a
    collective's call."""
    tree = linked.tree
    rows = np.flatnonzero(linked.api_kind == ApiKind.EVENT_WAIT)
    if len(rows):
        within = tree.innermost(tree.named(texts_where(linked.trace.strings, CALLS.match)))
        rows = rows[at(within, tree.node_of_call[rows], -1) < 0]
    count = np.searchsorted(np.sort(linked.trace.api_calls.start[rows]), linked.launch_time[chosen])
    return np.append(count[:1] > 0, count[1:] > count[:-1])
