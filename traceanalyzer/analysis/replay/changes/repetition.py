"""The same small calls many times a step as one batched call."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from traceanalyzer.analysis.algebra.ordering import where_changed
from traceanalyzer.analysis.algebra.texts import texts_where
from traceanalyzer.analysis.replay.changes.edits import with_dispatch, without_dispatch, without_launches
from traceanalyzer.analysis.replay.changes.items import first_shape, item_starts, single_tokens, takes_items
from traceanalyzer.analysis.replay.changes.kernels import JOINING
from traceanalyzer.analysis.replay.changes.loading import LEAST_COPY_NS, large_copies
from traceanalyzer.analysis.replay.changes.sequences import launching
from traceanalyzer.analysis.replay.changes.syncs import read_at_once
from traceanalyzer.analysis.replay.on_tape import (
    copies_of,
    events_of,
    events_of_only,
    in_optimizer,
    launched_within,
    of_launches,
    step_of_event,
    usual_dispatch_ns,
)
from traceanalyzer.trace import CopyKind
from traceanalyzer.trace.distinct import distinct

if TYPE_CHECKING:
    from traceanalyzer.analysis.replay.tape import Tape
    from traceanalyzer.trace import F64, I32, I64, Bool

STEPS_A_BATCH = 32
"""Calls of as many steps that make a batch where each step is one call."""
GREATER_BATCH = 8
"""Times as large as a batch is tried where the GPU idles: what nearly always fits."""
SCALAR_BYTES = 8
REACHED = 0.75
"""Share of the GPU's limits that kernels of a large batch reach."""
FEWEST_CALLS = 4
"""Fewer calls of the same kind a step are not worth batching."""
FEWEST_KERNELS = 3
"""Kernels that a call launches at least: fewer are no model..."""
FEWEST_IF_READ = 10
"""... and where calls are told apart by what is read after them alone: fewer are layers whose values are looked at."""
ALIKE_SHARE = 0.5
"""Share of a step's ops that must belong to calls of the same kind: the rest may be an update of the model."""
SMALL_SHARE = 0.5
"""Share of their kernels that must be too small to fill the GPU: others take as much longer as the batch is larger."""
SPREAD = 0.25
"""How much the number of kernels may differ from call to call: other lengths have other tiles and splits."""


class Calls(NamedTuple):
    """The calls of a tape's steps."""

    number: I64
    """For each op the call that it belongs to, counted over the whole tape; -1: none."""
    per_step: float


def repeated_calls(tape: Tape) -> Calls | None:
    """Stretches of each step that begin with data from the host or the next item, or end with a read, and launch nearly
    the same number of kernels each; None where there are few, where the kernels fill the GPU, or where reads alone tell
    them apart and nothing says that each has an item of its own."""
    number, brought, items = _stretches(tape)
    inside = number >= 0
    enough = FEWEST_CALLS * tape.steps
    least = FEWEST_KERNELS if brought >= enough else FEWEST_IF_READ
    kernels = tape.source.is_kernel[tape.row] & inside
    count = np.bincount(number[kernels], minlength=int(number.max(initial=-1)) + 1)
    if not len(count) or not count.any():
        return None
    usual = float(np.median(count[count >= least])) if (count >= least).any() else 0.0
    alike = (count >= least) & (np.abs(count - usual) <= max(SPREAD * usual, 1.0))
    chosen = inside & alike[np.maximum(number, 0)]
    per_step = int(alike.sum()) / tape.steps
    if per_step < FEWEST_CALLS or chosen.sum() < ALIKE_SHARE * len(number) or not mostly_small(tape, chosen):
        return None
    by_read = max(brought, items) < enough
    if _one_needs_another(tape, number) or (by_read and not takes_items(tape, chosen)):
        return None
    return _with_cut_call(tape, Calls(np.where(chosen, number, -1), per_step))


def _with_cut_call(tape: Tape, calls: Calls) -> Calls:
    """The same, where what is before the first call of each step and what is after the last are a call, too: its begin
    and its end, if reads in the middle of calls tell them apart."""
    operators, number = launching(tape), calls.number.copy()
    call = calls.number[operators.first]
    for i, step in enumerate(distinct(operators.step[call >= 0]).tolist()):
        here = np.flatnonzero(operators.step == step)
        inside = here[call[here] >= 0]
        usual = operators.name[inside[call[inside] == call[inside[0]]]]
        before, after = here[here < inside[0]], here[here > inside[-1]]
        left = len(usual) - len(before)
        cut = np.append(after[:left], before)
        if not 0 < left < len(usual) or not np.array_equal(operators.name[cut], usual):
            return calls
        mine = operators.of_ops(np.isin(np.arange(len(call)), cut), len(number))
        number[mine] = int(calls.number.max()) + 1 + i
    return Calls(number, calls.per_step + 1)


def _one_needs_another(tape: Tape, number: I64) -> bool:
    """Whether each call needs what the one before it led to: an update of the weights, or the next token of a text."""
    updates = distinct(number[in_optimizer(tape) & (number >= 0)])
    words = distinct(number[single_tokens(tape) & (number >= 0)])
    return max(len(updates), len(words)) >= FEWEST_CALLS * tape.steps


def _stretches(tape: Tape) -> tuple[I64, int, int]:
    """For each op the stretch between two moments at which the host hands data over, reads some, or takes the next item
    of a batch; and how many begin with the first, and with the last. What is read before a call for an item has ended
    is read within it, unless a read follows every few kernels."""
    step, brings, items = tape.step_of_op, copies_of(tape, CopyKind.HOST_TO_DEVICE), item_starts(tape)
    reads = read_at_once(tape)[tape.event] & copies_of(tape, CopyKind.DEVICE_TO_HOST)
    within = _within_calls(items, step)
    if reads[within].sum() * FEWEST_IF_READ <= within.sum():
        reads &= ~within
    starts = brings & ~np.append(False, brings[:-1])
    starts |= np.append(False, reads[:-1] & ~brings[1:]) & (np.append(0, np.diff(step)) == 0)
    starts |= where_changed(step) | items
    return np.cumsum(starts) - 1, int((starts & brings).sum()), int(items.sum())


def _within_calls(items: Bool, step: I32) -> Bool:
    """The ops between the first item of a step and the end of the last one's call, which is as long as the others."""
    result = np.zeros(len(items), bool)
    first = np.flatnonzero(items)
    for one in distinct(step[first]).tolist():
        mine = first[step[first] == one]
        if len(mine) > 1:
            result[mine[0] : mine[-1] + int(np.median(np.diff(mine))) - 1] = True
    return result


def mostly_small(tape: Tape, ops: Bool) -> bool:
    """Whether most of these kernels are too small to fill the GPU."""
    ops_table = tape.source.trace.device_ops
    kernels = ops & tape.source.is_kernel[tape.row]
    blocks, sms = ops_table.blocks[tape.row], tape.source.limit("sms")[tape.row]
    small = tape.source.roofline.small[tape.row] | (blocks < sms)
    return float(small[kernels].mean()) >= SMALL_SHARE if kernels.any() else False


def batched(tape: Tape) -> Tape | None:
    """The calls of each step are one: it launches what one of them launches, and waits once; None without such calls.

    A kernel that does not fill the GPU takes as long for all as for one, until it does.
    """
    calls = repeated_calls(tape)
    if calls is None:
        return None
    step = tape.step_of_op
    first = _first_calls(calls.number, step)
    gone = ((calls.number >= 0) & ~first) | _joined_after(tape, calls.number >= 0)
    times = np.where(first, tape.duration * growth(tape, calls.per_step), tape.duration)
    left = without_launches(replace(tape, duration=np.rint(times).astype(np.int64)), gone)
    there = between(tape, gone)
    left = replace(without_dispatch(left, there), work=np.where(there, 0, left.work))
    return with_dispatch(left, left.dispatch * _usual_call(tape, calls.number, first))


def _joined_after(tape: Tape, calls: Bool) -> Bool:
    """The ops right after calls that put results together: one call gives them together."""
    joining = launched_within(tape, texts_where(tape.source.trace.strings, JOINING.match)) & ~calls
    last = np.maximum.accumulate(np.where(joining, -1, np.arange(len(calls))))
    result: Bool = joining & (last >= 0) & calls[np.maximum(last, 0)]
    return result


def _usual_call(tape: Tape, number: I64, first: Bool) -> F64:
    """What the host's time for the first call of a step is multiplied by, for each event: it takes no longer than that
    of the other calls. What a step begins with, and the recorder does there, are in the first one."""
    of_event = np.full(len(tape.dispatch), -1, np.int64)
    of_event[tape.event] = number
    spent = np.bincount(of_event[of_event >= 0], tape.dispatch[of_event >= 0])
    firsts = distinct(number[first])
    usual = float(np.median(spent[distinct(number[number >= 0])]))
    share = min(usual / max(float(spent[firsts].mean()), 1.0), 1.0)
    return np.where(events_of(tape, first), share, 1.0)


def joined(tape: Tape, kept: Bool, gone: Bool, count: float | F64, *, first_is_usual: bool = False) -> Tape:
    """What is gone is done by what is kept, for so many times the data, which is launched like any of them: what a step
    begins with, and the recorder does there, are before the first, unless that is taken to be as usual."""
    times = np.where(kept, tape.duration * growth(tape, count), tape.duration)
    left = without_launches(replace(tape, duration=np.rint(times).astype(np.int64)), gone)
    left = replace(left, work=np.where(events_of_only(tape, gone), 0, left.work))
    if first_is_usual:
        return left
    usual = int(usual_dispatch_ns(tape, kept | gone))
    return with_dispatch(left, np.where(events_of(tape, kept), np.minimum(left.dispatch, usual), left.dispatch))


def one_call_a_step(tape: Tape) -> bool:
    """Whether each step is one small call of its own: it brings one item from the host, reads a result back, and its
    kernels do not fill the GPU."""
    step, bytes_ = tape.step_of_op, tape.source.trace.device_ops.bytes[tape.row]
    brings = copies_of(tape, CopyKind.HOST_TO_DEVICE) & (bytes_ > SCALAR_BYTES)
    if _brings_batches(tape, brings):
        return False
    steps, reads = distinct(step), copies_of(tape, CopyKind.DEVICE_TO_HOST)
    each = all(np.isin(steps, step[rows]).all() for rows in (brings, reads))
    return each and mostly_small(tape, np.ones(len(step), bool))


def _brings_batches(tape: Tape, brings: Bool) -> bool:
    """Whether what is brought has several items already."""
    tree, ranges = tape.source.tree, tape.source.trace.host_ranges
    operator = of_launches(tape, tree.outer_operator)[brings]
    codes = distinct(ranges.shapes[tree.row[operator[operator >= 0]]]).tolist()
    return any(len(shape) > 1 and shape[0] > 1 for shape in (first_shape(tape, code) for code in codes))


def batched_over_steps(tape: Tape) -> Tape | None:
    """So many steps' calls are one; the time of one of them. None where a step is no such call."""
    return _shared(tape, STEPS_A_BATCH) if one_call_a_step(tape) else None


def enlarged(tape: Tape, times: float = GREATER_BATCH) -> Tape:
    """A batch so many times as large; the time of as many samples as before."""
    return _shared(tape, times)


def enlarged_at_full_cost(tape: Tape, times: float = GREATER_BATCH) -> Tape:
    """The same where every kernel takes as much longer as the batch is larger: only the host's time is shared."""
    return replace(enlarged(tape, times), duration=tape.duration)


def _shared(tape: Tape, count: float) -> Tape:
    """A step that works on so many times the data, divided by their number."""
    share = 1.0 / count
    times = tape.duration * growth(tape, count) * share
    host = {name: np.rint(getattr(tape, name) * share).astype(np.int64) for name in ("dispatch", "work", "reading")}
    delays = {name: np.rint(getattr(tape, name) * share).astype(np.int64) for name in ("latency", "gap")}
    tail = tape.tail._replace(dispatch=round(tape.tail.dispatch * share), work=round(tape.tail.work * share))
    return replace(tape, **host, **delays, duration=np.rint(times).astype(np.int64), tail=tail)


def _first_calls(number: I64, step: I32) -> Bool:
    """Ops of the first call of each step."""
    result = np.zeros(len(number), bool)
    for one in distinct(step).tolist():
        rows = np.flatnonzero((step == one) & (number >= 0))
        if len(rows):
            result[rows[number[rows] == number[rows[0]]]] = True
    return result


def growth(tape: Tape, count: float | F64) -> F64:
    """How much longer each kernel takes for so many times the data: not at all until its blocks fill the GPU, which
    holds several a multiprocessor, or the work reaches the GPU's limits."""
    rated = tape.source
    blocks, sms = rated.trace.device_ops.blocks[tape.row], rated.limit("sms")[tape.row]
    waves = rated.roofline.waves[tape.row]
    filled = np.where((blocks > 0) & np.isfinite(sms), blocks / sms, 1.0)
    filled = np.where(np.isfinite(waves), np.minimum(waves, filled), filled)
    copies = large_copies(tape, CopyKind.HOST_TO_DEVICE) | large_copies(tape, CopyKind.DEVICE_TO_HOST)
    longer = np.maximum(filled * count, 1.0) / np.maximum(filled, 1.0)
    least = np.nan_to_num(rated.roofline.attainable[tape.row]) / REACHED / np.maximum(tape.duration, 1) * count
    fixed = np.minimum(LEAST_COPY_NS / np.maximum(tape.duration, 1), 1.0)
    return np.where(copies, fixed + (1.0 - fixed) * count, np.clip(least, longer, np.maximum(longer, count)))


def between(tape: Tape, gone: Bool) -> Bool:
    """Events that launch only what is gone, and those in the same step between two of them."""
    removed, kept = events_of_only(tape, gone), events_of(tape, ~gone)
    index, step = np.arange(len(removed)), step_of_event(tape)
    last_gone = np.maximum.accumulate(np.where(removed, index, -1))
    last_kept = np.maximum.accumulate(np.where(kept, index, -1))
    inside = (last_gone > last_kept) & (step == step[np.maximum(last_gone, 0)])
    result: Bool = removed | inside
    return result
