"""Changes of communication, one for each remedy: what is reduced, how often, when, and in how many bytes."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from traceanalyzer.analysis.algebra.intervals import union
from traceanalyzer.analysis.algebra.texts import texts_where
from traceanalyzer.analysis.names.collectives import KINDS
from traceanalyzer.analysis.replay.changes.edits import (
    in_backward,
    launched_within,
    on_own_stream,
    retimed,
    share_within,
    without_launches,
)
from traceanalyzer.analysis.replay.together import apart
from traceanalyzer.figures import NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Callable

    from traceanalyzer.analysis.algebra.intervals import IntervalSet
    from traceanalyzer.analysis.replay.tape import Tape
    from traceanalyzer.trace import I64, Bool

REDUCTIONS = ("all_reduce", "reduce_scatter")
OVERLAP_COST = 0.5
"""Share of a collective's time by which computation beside it becomes longer: it holds multiprocessors and bandwidth
(0.2 to 0.7 in recordings of two GPUs)."""
MOST_OVERLAP_COST = 0.75
"""The same by the cautious reading."""
GATHERING = re.compile(r"^FSDP::(all_gather|backward_prefetch)")
"""What FSDP calls its gathers, the copies into and out of their messages, and those made early."""
BUCKETING = re.compile(r"ddp\.reducer|torch::distributed::reducer")
"""What DDP calls its copies of gradients into buckets and back."""
CAST_PASSES = 5.0
"""How often a message's bytes pass the GPU's memory when it is reduced in half of them: the cast reads all and writes
half, the mean reads and writes half, the cast back reads half and writes all, and none of them reaches the limit."""
LAST_BUCKET = 25 * 2**20
"""Bytes of the last bucket, whose gradients are there only when the backward pass is over: DDP's usual size."""


def kinds(tape: Tape) -> I64:
    """For each op its kind of collective (index in `KINDS`), -1 for other ops."""
    calls = tape.source.collective_calls
    result = np.full(len(tape.source.trace.device_ops), -1, np.int64)
    result[calls.row] = calls.kind
    return result[tape.row]


def sizes(tape: Tape) -> I64:
    """For each op the bytes of its message, -1 for others and where it is not known."""
    calls = tape.source.collective_calls
    result = np.full(len(tape.source.trace.device_ops), -1, np.int64)
    result[calls.row] = calls.bytes
    return result[tape.row]


def of_kind(tape: Tape, *names: str) -> Bool:
    """Ops that are collectives of these kinds."""
    result: Bool = np.isin(kinds(tape), [KINDS.index(name) for name in names])
    return result


def removed(tape: Tape, ops: Bool) -> Tape | None:
    """Without these collectives: computation beside them is as fast as without; None without any."""
    if not ops.any():
        return None
    freed = _slowed_by(tape, ops)
    duration = np.where(freed, tape.alone, tape.duration)
    meeting = np.where(ops, -1, tape.meeting)
    return without_launches(replace(tape, duration=duration, meeting=meeting), ops)


def _slowed_by(tape: Tape, ops: Bool) -> Bool:
    """Computation between the launches of the first of these ops and of the next collective that stays."""
    staying = np.flatnonzero(tape.communication & ~ops)
    index = np.arange(len(ops))
    last_gone = np.maximum.accumulate(np.where(ops, index, -1))
    last_staying = np.full(len(ops), -1)
    last_staying[staying] = staying
    result: Bool = last_gone > np.maximum.accumulate(last_staying)
    return result


def accumulated_without_sync(tape: Tape) -> Tape | None:
    """Gradients are reduced with the last of several backward passes of a step; None where each has its own step."""
    gone = repeated_reductions(tape)
    if not gone.any():
        return None
    # What fills and empties their buckets goes with them.
    step, last = tape.source.steps.of_op[tape.row], np.full(int(tape.source.steps.of_op.max()) + 2, -1)
    rows = np.flatnonzero(gone)
    np.maximum.at(last, step[rows], rows)
    names = texts_where(tape.source.trace.strings, BUCKETING.search)
    bucketing = launched_within(tape, names) & (np.arange(len(gone)) <= last[step])
    left = removed(tape, gone)
    return None if left is None else without_launches(left, bucketing)


def repeated_reductions(tape: Tape) -> Bool:
    """Reductions whose bytes are reduced again later in the same step: all but the last round of equal messages. Rounds
    are told apart by the backward passes of the step; a model whose layers reduce alike has one round."""
    size, step = sizes(tape), tape.source.steps.of_op[tape.row]
    reducing = of_kind(tape, *REDUCTIONS) & (size > 0)
    pass_ = backward_passes(tape)
    result = np.zeros(len(size), bool)
    for one in np.unique(step[reducing]).tolist():
        rows = np.flatnonzero(reducing & (step == one))
        rounds = [rows[pass_[rows] == number] for number in range(int(pass_[step == one].max()) + 1)]
        messages = [np.sort(size[mine]).tolist() for mine in rounds if len(mine)]
        if len(messages) == len(rounds) > 1 and all(some == messages[-1] for some in messages):
            result[np.concatenate(rounds[:-1])] = True
    return result


def backward_passes(tape: Tape) -> I64:
    """For each op the number of the backward pass of its step that it belongs to, or that was the last before it; -1
    before the first."""
    step = tape.source.steps.of_op[tape.row]
    backward = in_backward(tape) | tape.communication
    begins = backward & ~np.append(False, backward[:-1]) & ~tape.communication
    begins |= backward & (np.diff(step, prepend=-2) != 0)
    count = np.cumsum(begins)
    first = np.searchsorted(step, step, side="left") if (np.diff(step) >= 0).all() else np.zeros(len(step), np.int64)
    result: I64 = count - np.append(0, count)[first] - 1
    return result


def compressed(tape: Tape) -> Tape | None:
    """Reductions of gradients move half as many bytes; casts before and after run among the computation. None without
    any."""
    chosen = of_kind(tape, *REDUCTIONS)
    if not chosen.any():
        return None
    bytes_ = np.where(chosen, np.maximum(sizes(tape), 0), 0)
    casts = float(np.nan_to_num(CAST_PASSES * bytes_ / tape.source.limit("bandwidth")[tape.row] * NS_PER_S).sum())
    slower = 1.0 + casts / max(float(tape.duration[tape.compute].sum()), 1.0)
    times = np.where(tape.compute, tape.duration * slower, tape.duration)
    return retimed(tape, np.where(chosen, tape.duration * 0.5, times))


def overlapped(cost: float) -> Callable[[Tape], Tape | None]:
    """Reductions begin with the backward pass and run beside it, which becomes longer by this share of theirs; the last
    bucket stays behind it. None without such reductions."""

    def change(tape: Tape) -> Tape | None:
        chosen = late_reductions(tape)
        if not chosen.any():
            return None
        size = sizes(tape)
        last = np.zeros(len(size), bool)
        step = tape.source.steps.of_op[tape.row]
        for one in np.unique(step[chosen]).tolist():
            last[np.flatnonzero(chosen & (step == one))[-1]] = True
        # One message of everything would be cut into buckets, of which the last stays.
        left = np.where(last & (size > LAST_BUCKET), LAST_BUCKET / np.maximum(size, 1), np.where(last, 1.0, 0.0))
        beside = tape.duration * np.where(chosen, 1.0 - left, 0.0)
        busy = float(tape.duration[tape.compute].sum())
        slower = 1.0 + cost * min(float(beside.sum()), busy) / max(busy, 1.0)
        times = np.where(tape.compute, tape.duration * slower, np.where(chosen, tape.duration * left, tape.duration))
        return retimed(tape, times)

    return change


def late_reductions(tape: Tape) -> Bool:
    """Reductions after which, in their step, no matrix kernel runs: the backward pass is over when they begin."""
    source, step = tape.source, tape.source.steps.of_op[tape.row]
    matrix = source.is_matrix[tape.row]
    chosen = of_kind(tape, *REDUCTIONS)
    result = np.zeros(len(chosen), bool)
    for one in np.unique(step[chosen]).tolist():
        here = np.flatnonzero(step == one)
        products = here[matrix[here]]
        result[here[chosen[here] & (here > (products[-1] if len(products) else -1))]] = True
    return result


def parameters_kept(tape: Tape) -> Tape | None:
    """Parameters gathered for the forward pass are not gathered again for the backward pass, and what the host and the
    device do for that is not done; None where none are."""
    again = gathered_again(tape)
    left = removed(tape, again)
    backward = in_backward(tape)
    if left is None or (of_kind(tape, "all_gather") & backward & ~again).any():
        return left
    names = texts_where(tape.source.trace.strings, GATHERING.match)
    left = without_launches(left, launched_within(tape, names) & backward)
    dispatch = np.rint(left.dispatch * (1.0 - share_within(tape, _in_backward(tape, names)))).astype(np.int64)
    return replace(left, dispatch=dispatch, reading=np.minimum(left.reading, dispatch))


def _in_backward(tape: Tape, names: Bool) -> IntervalSet:
    """When the host is in ranges of these names within the backward pass."""
    source, ranges = tape.source, tape.source.trace.host_ranges
    here = source.tree.of_ranges(names[ranges.name], False) & source.in_backward
    rows = source.tree.row[here]
    return union(ranges.start[rows], ranges.end[rows])


def gathered_again(tape: Tape) -> Bool:
    """Gathers within the backward pass of messages as large as some that its step has gathered for the forward pass."""
    size, step = sizes(tape), tape.source.steps.of_op[tape.row]
    gathering = of_kind(tape, "all_gather") & (size > 0)
    backward = in_backward(tape)
    result = np.zeros(len(size), bool)
    for one in np.unique(step[gathering]).tolist():
        here = gathering & (step == one)
        result |= here & backward & np.isin(size, size[here & ~backward])
    return result


def prefetched(tape: Tape) -> Tape | None:
    """Parameters are gathered one layer ahead, on a stream of their own: nothing waits for them but the order of their
    stream; None without gathers."""
    gathering = of_kind(tape, "all_gather")
    return on_own_stream(tape, gathering) if gathering.any() else None


def halved_messages(tape: Tape) -> Tape | None:
    """Exchanges between all ranks move half as many bytes; None without any."""
    chosen = of_kind(tape, "all_to_all")
    return retimed(tape, np.where(chosen, tape.duration * 0.5, tape.duration)) if chosen.any() else None


def even(tape: Tape) -> Tape | None:
    """All ranks are at each collective at the same time; None where ranks were not recorded together."""
    return apart(tape) if (tape.meeting >= 0).any() else None
