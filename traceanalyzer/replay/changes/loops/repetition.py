"""More data in each launch: what a kernel then takes, calls joined into one, and the same small
calls many times a step as one batched call."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from traceanalyzer.analysis.algebra import where_changed
from traceanalyzer.base import regex
from traceanalyzer.replay.changes.data.loading import LEAST_COPY_NS, large_copies
from traceanalyzer.replay.changes.syncs.syncs import read_at_once
from traceanalyzer.replay.patterns.independent import takes_its_result
from traceanalyzer.replay.patterns.items import item_starts, single_tokens, takes_items
from traceanalyzer.replay.patterns.named import are_named, launched_within
from traceanalyzer.replay.patterns.operators import JOINING, operators
from traceanalyzer.replay.patterns.repeats import after_each, each_step, launching
from traceanalyzer.replay.tape import Tape
from traceanalyzer.trace import F64, I64, Bool, CopyKind, distinct

GREATER_BATCH = 8  # times as large as a batch is tried where the GPU idles: what nearly always fits
REACHED = 0.75  # share of the GPU's limits that kernels of a large batch reach
SMALL_SHARE = 0.5
"""Share of their kernels that must be too small to fill the GPU: others take as much longer as the
batch is larger."""
STEPS_A_BATCH = 32  # calls of as many steps that make a batch where each step is one call
SCALAR_BYTES = 8
FEWEST_CALLS = 4  # fewer calls of the same kind a step are not worth batching
FEWEST_KERNELS = 3  # kernels that a call launches at least: fewer are no model...
FEWEST_IF_READ = 10
"""... and where calls are told apart by what is read after them alone: fewer are layers whose
values are looked at."""
ALIKE_SHARE = 0.5
"""Share of a step's ops that must belong to calls of the same kind: the rest may be an update of
the model."""
SPREAD = 0.25
"""How much the number of kernels may differ from call to call: other lengths have other tiles and
splits."""
WRITES_PARTS = regex(r"^aten::(index_copy_|index_put_|_index_put_impl_)$")
CACHE_DIMENSIONS = 3  # rows, places and what is kept of each, at least; a mask over logits has two


def mostly_small(tape: Tape, ops: Bool) -> bool:
    """Whether most of these kernels are too small to fill the GPU."""
    kernels = tape.row[ops & tape.source.linked.is_kernel[tape.row]]
    small = tape.source.roofline.small | (
        tape.source.trace.device_ops.blocks < tape.source.linked.limit("sms")
    )
    return len(kernels) > 0 and float(small[kernels].mean()) >= SMALL_SHARE


def growth(tape: Tape, count: float | F64) -> F64:
    """How much longer each kernel takes for so many times the data: not at all until its blocks
    fill the GPU, which holds several a multiprocessor, or the work reaches the GPU's limits."""
    rated = tape.source
    blocks = rated.trace.device_ops.blocks[tape.row]
    sms = rated.linked.limit("sms")[tape.row]
    waves = rated.roofline.waves[tape.row]
    filled = np.where((blocks > 0) & np.isfinite(sms), blocks / sms, 1.0)
    filled = np.where(np.isfinite(waves), np.minimum(waves, filled), filled)
    copies = large_copies(tape, CopyKind.HOST_TO_DEVICE) | large_copies(
        tape, CopyKind.DEVICE_TO_HOST
    )
    longer = np.maximum(filled * count, 1.0) / np.maximum(filled, 1.0)
    least = (
        np.nan_to_num(rated.roofline.attainable[tape.row])
        / REACHED
        / np.maximum(tape.duration, 1)
        * count
    )
    fixed = np.minimum(LEAST_COPY_NS / np.maximum(tape.duration, 1), 1.0)
    return np.where(
        copies, fixed + (1.0 - fixed) * count, np.clip(least, longer, np.maximum(longer, count))
    )


def grown(tape: Tape, kept: Bool, gone: Bool, count: float | F64) -> Tape:
    """What is kept works on so many times the data, and what is gone needs no launch."""
    times = np.where(kept, tape.duration * growth(tape, count), tape.duration)
    return replace(tape, duration=np.rint(times).astype(np.int64)).without_launches(gone)


def joined(
    tape: Tape, kept: Bool, gone: Bool, count: float | F64, *, first_is_usual: bool = False
) -> Tape:
    """What is gone is done by what is kept, for so many times the data, which is launched like any
    of them: what a step begins with, and the recorder does there, are before the first, unless that
    is taken to be as usual."""
    left = grown(tape, kept, gone, count).without_work(tape.events_of_only(gone))
    if first_is_usual:
        return left
    return left.dispatch_at_most(tape.events_of(kept), tape.usual_dispatch_ns(kept | gone))


def enlarged(tape: Tape, times: float = GREATER_BATCH) -> Tape:
    """A batch so many times as large; the time of as many samples as before."""
    duration = np.rint(tape.duration * growth(tape, times)).astype(np.int64)
    return per_sample(replace(tape, duration=duration), times)


def per_sample(tape: Tape, times: float) -> Tape:
    """The time of as many samples as now, of a step that does so many times as many: what brings
    them is that of now."""
    share = 1.0 / times
    shared = ("duration", "dispatch", "work", "reading", "latency", "gap")
    times_left = {name: np.rint(getattr(tape, name) * share) for name in shared}
    left = {name: time.astype(np.int64) for name, time in times_left.items()}
    tail = tape.tail._replace(
        dispatch=round(tape.tail.dispatch * share), work=round(tape.tail.work * share)
    )
    return replace(tape, **left, tail=tail)


def enlarged_at_full_cost(tape: Tape, times: float = GREATER_BATCH) -> Tape:
    """A larger batch for which every kernel takes as much longer as the batch is larger: only the
    host's time is shared."""
    return replace(enlarged(tape, times), duration=tape.duration)


class Calls(NamedTuple):
    """The calls of a tape's steps."""

    number: I64  # for each op the call that it belongs to, counted over the whole tape; -1: none
    per_step: float


def batched(tape: Tape) -> Tape | None:
    """The calls of each step are one: it launches what one of them launches, and waits once; None
    without such calls. A kernel that does not fill the GPU takes as long for all as for one, until
    it does."""
    calls = tape.memo(repeated_calls)
    if calls is None:
        return None
    number = calls.number
    inside = calls.number >= 0
    first = np.zeros(len(number), bool)
    for rows in each_step(tape.step_of_op, inside):
        first[rows[number[rows] == number[rows[0]]]] = True
    joining = launched_within(tape, JOINING) & ~inside
    last = np.maximum.accumulate(np.where(joining, -1, np.arange(len(inside))))
    after_call = joining & (last >= 0) & inside[np.maximum(last, 0)]
    gone = (inside & ~first) | after_call
    gone_events = between(tape, gone)
    left = (
        grown(tape, first, gone, calls.per_step)
        .without_dispatch(gone_events)
        .without_work(gone_events)
    )
    share = _usual_share(tape, number, first)
    return left.with_dispatch(left.dispatch * np.where(tape.events_of(first), share, 1.0))


def _usual_share(tape: Tape, number: I64, first: Bool) -> float:
    """The dispatch of a usual call over that of the first: what a step begins with, and the recorder
    does there, are in it. At most 1."""
    of_event = np.full(len(tape.dispatch), -1, np.int64)
    of_event[tape.event] = number
    spent = np.bincount(of_event[of_event >= 0], tape.dispatch[of_event >= 0])
    usual_ns = float(np.median(spent[distinct(number[number >= 0])]))
    first_ns = float(spent[distinct(number[first])].mean())
    return min(usual_ns / max(first_ns, 1.0), 1.0)


def repeated_calls(tape: Tape) -> Calls | None:
    """Stretches of each step that begin with data from the host or the next item, or end with a
    read, and launch nearly the same number of kernels each; None where there are few, where the
    kernels fill the GPU, or where reads alone tell them apart and nothing says that each has an
    item of its own."""
    (number, brought, items) = _stretches(tape)
    enough = FEWEST_CALLS * tape.steps
    least = FEWEST_KERNELS if brought >= enough else FEWEST_IF_READ
    of_kernels = number[tape.source.linked.is_kernel[tape.row]]
    count = np.bincount(of_kernels, minlength=int(number.max(initial=-1)) + 1)
    usual = float(np.median(count[count >= least])) if (count >= least).any() else 0.0
    alike = (count >= least) & (np.abs(count - usual) <= max(SPREAD * usual, 1.0))
    chosen = alike[number]
    if (
        alike.sum() < enough
        or chosen.sum() < ALIKE_SHARE * len(number)
        or not mostly_small(tape, chosen)
    ):
        return None
    needing = max(len(distinct(number[ops])) for ops in (tape.in_optimizer, single_tokens(tape)))
    if needing >= enough or (max(brought, items) < enough and not takes_items(tape, chosen)):
        return None
    if items < enough and _carries_on(tape, number, np.flatnonzero(alike)):
        return None
    calls = Calls(np.where(chosen, number, -1), int(alike.sum()) / tape.steps)
    return _with_cut_call(tape, calls)


def _carries_on(tape: Tape, number: I64, alike: I64) -> bool:
    """Whether calls, of these numbers, may take what the call before gave: no tensor of that size comes
    from the host."""
    inside = number == int(alike[len(alike) // 2])
    brings = inside & tape.copies_of(CopyKind.HOST_TO_DEVICE)
    if large_copies(tape, CopyKind.HOST_TO_DEVICE)[brings].any():
        return False
    launched = tape.memo(launching)
    own = launched.node[inside[launched.first]]
    return len(own) > 0 and takes_its_result(operators(tape.source.linked).of_nodes(own))


def _with_cut_call(tape: Tape, calls: Calls) -> Calls:
    """The calls, where what is before the first one of each step and what is after the last are a
    call, too: its begin and its end, if reads in the middle of calls tell them apart."""
    launched = tape.memo(launching)
    number = calls.number.copy()
    call = calls.number[launched.first]
    for i, inside in enumerate(each_step(launched.step, call >= 0)):
        in_step = np.flatnonzero(launched.step == launched.step[inside[0]])
        usual = launched.name[inside[call[inside] == call[inside[0]]]]
        before = in_step[in_step < inside[0]]
        after = in_step[in_step > inside[-1]]
        left = len(usual) - len(before)
        cut = np.append(after[:left], before)
        if not 0 < left < len(usual) or not np.array_equal(launched.name[cut], usual):
            return calls
        in_cut = np.isin(np.arange(len(call)), cut)
        number[launched.of_ops(in_cut, len(number))] = int(calls.number.max()) + 1 + i
    return Calls(number, calls.per_step + 1)


def _stretches(tape: Tape) -> tuple[I64, int, int]:
    """For each op the stretch between two moments at which the host hands data over, reads some, or
    takes the next item of a batch; and how many begin with the first, and with the last. What is
    read before a call for an item has ended is read within it, unless a read follows every few
    kernels."""
    step = tape.step_of_op
    brings = tape.copies_of(CopyKind.HOST_TO_DEVICE)
    items = item_starts(tape)
    reads = read_at_once(tape)[tape.event] & tape.copies_of(CopyKind.DEVICE_TO_HOST)
    within = np.zeros(len(items), bool)
    for item_rows in each_step(step, items):
        if len(item_rows) > 1:
            usual = int(np.median(np.diff(item_rows)))
            within[item_rows[0] : item_rows[-1] + usual - 1] = True
    if reads[within].sum() * FEWEST_IF_READ <= within.sum():
        reads &= ~within
    starts = (
        (brings & ~after_each(brings)) | (after_each(reads) & ~brings) | where_changed(step) | items
    )
    number = np.cumsum(starts) - 1
    return number, int((starts & brings).sum()), int(items.sum())


def between(tape: Tape, gone: Bool) -> Bool:
    """Events that launch only what is gone, and those in the same step between two of them."""
    removed = tape.events_of_only(gone)
    kept = tape.events_of(~gone)
    index = np.arange(len(removed))
    step = tape.step_of_event
    last_gone = np.maximum.accumulate(np.where(removed, index, -1))
    last_kept = np.maximum.accumulate(np.where(kept, index, -1))
    return removed | ((last_gone > last_kept) & (step == step[np.maximum(last_gone, 0)]))


def one_call_a_step(tape: Tape) -> bool:
    """Whether each step is one small call of its own: it brings one item from the host, reads a
    result back, and its kernels do not fill the GPU."""
    step = tape.step_of_op
    bytes_ = tape.source.trace.device_ops.bytes[tape.row]
    brings = tape.copies_of(CopyKind.HOST_TO_DEVICE) & (bytes_ > SCALAR_BYTES)
    operator = distinct(tape.of_launches(tape.source.linked.tree.outer_operator)[brings])
    if any(
        len(one.first) > 1 and one.first[0] > 1
        for one in operators(tape.source.linked).of_nodes(operator)
    ):
        return False
    steps = distinct(step)
    reads = tape.copies_of(CopyKind.DEVICE_TO_HOST)
    each = all(np.isin(steps, step[rows]).all() for rows in (brings, reads))
    return each and not keeps_state(tape) and mostly_small(tape, np.ones(len(step), bool))


def keeps_state(tape: Tape) -> bool:
    """Whether steps write parts of a large tensor, as a decoder does to a cache of keys and values:
    a step of one needs what the step before it said."""
    outer = tape.forward_operators
    writes = outer[are_named(tape.source.linked, outer, WRITES_PARTS)]
    known = operators(tape.source.linked).of_nodes(writes)
    return any(len(one.first) >= CACHE_DIMENSIONS for one in known)


def batched_over_steps(tape: Tape) -> Tape | None:
    """So many steps' calls are one; the time of one of them. None where a step is no such call."""
    return enlarged(tape, STEPS_A_BATCH) if one_call_a_step(tape) else None
