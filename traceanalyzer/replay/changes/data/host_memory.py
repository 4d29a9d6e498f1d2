"""Data in host memory that the GPU could have: tables out of which the program picks and copies a
batch in every step, and state (averaged weights, sums) that the host updates from what each step
copies to it."""

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from traceanalyzer.analysis.algebra import union
from traceanalyzer.analysis.roofline.op_models.tensors import Shape, Tensor
from traceanalyzer.base import regex
from traceanalyzer.replay.changes.data.loading import (
    LEAST_COPY_NS,
    MOVES,
    large_copies,
    waiting_for,
)
from traceanalyzer.replay.changes.warmup import nothing_before_copies
from traceanalyzer.replay.patterns.named import Outermost, movers
from traceanalyzer.replay.patterns.operators import Operator
from traceanalyzer.replay.tape import Tail, Tape
from traceanalyzer.trace import F64, I64, Bool, CopyKind

PICKS = regex(r"^aten::(index|index_select|embedding(_bag)?)$")
"""Operators that take rows of their first operand."""
OPERATORS_BEFORE = 16  # so many before a copy are searched for the one that picked its data
PICKING_PASSES = 2.0  # what picking rows on the GPU moves: it reads and writes them
WIDENING_PASSES = 2.0  # what the GPU then moves to widen them, of the wide numbers, at most
UPDATES = regex(r"^aten::(lerp|add|sub|addcmul|addcdiv)_$")
"""Operators that update a tensor by another of its shape: what only calculates with it may be read
next."""
OPERATORS_AFTER = 4
"""So many after a copy are searched for the host's update: the data may be scaled first."""
UPDATE_PASSES = 3.0  # what an update on the GPU moves: both tensors are read, and one is written
TENSORS_A_LAUNCH = 32  # tensors that one launch of a `_foreach_` operator takes


class Picked(NamedTuple):
    """Copies of rows that the host picked out of tables."""

    copies: Bool
    table_bytes: float  # of all tables together


class Updated(NamedTuple):
    """Copies to the host of what it updates tensors of its own with."""

    copies: Bool
    start: I64
    end: I64  # from where each of them is made until the host has updated its tensor, ns


def picked_on_host(tape: Tape) -> Picked:
    """Copies to the device of what an operator on the host took out of a larger tensor right
    before."""
    outermost = Outermost(tape)
    bytes_ = tape.source.trace.device_ops.bytes[tape.row]
    found = np.zeros(len(tape.row), bool)
    tables = dict[tuple[Shape, Shape], float]()
    for i, place, shape in _moved(tape, outermost, large_copies(tape, CopyKind.HOST_TO_DEVICE)):
        near = (_table(one.operator, shape) for one in outermost.before(place, OPERATORS_BEFORE))
        table = next(filter(None, near), None)
        if table:
            found[i] = True
            tables[table, shape] = float(bytes_[i]) * math.prod(table) / math.prod(shape)
    return Picked(found, sum(tables.values()))


def _moved(tape: Tape, outermost: Outermost, copies: Bool) -> Iterator[tuple[int, int, Shape]]:
    """Each of these copies that an operator for it makes, that operator's place, and the shape of
    what it moves."""
    for i, place in movers(tape, copies):
        mover = outermost.at(place, place + 1)[0].operator
        if mover.shapes and mover.named(MOVES):
            yield i, place, mover.shapes[0]


def _table(operator: Operator, rows: Shape) -> Shape | None:
    """The shape of the table that an operator picks these rows from, by ids of as many dimensions
    as there are; None if it does no such thing."""
    table = operator.first_tensor if operator.named(PICKS) else ()
    ids = len(rows) - len(table) + 1  # dimensions
    if not table or ids < 1:
        return None
    fewer = table[0] > math.prod(rows[:ids]) > 0
    return table if fewer and table[1:] == rows[ids:] else None


def picked_on_device(tape: Tape) -> Tape | None:
    """The tables are on the GPU, which picks the rows itself: no copy, no wait for one, no work of
    the host before it, which launches what picks like any other kernel; None where the host picks
    nothing."""
    copies = tape.memo(picked_on_host).copies
    if not copies.any():
        return None
    copy_events = tape.events_of(copies)
    least = np.maximum(_passes_ns(tape, PICKING_PASSES), LEAST_COPY_NS)
    left = tape.retimed(
        np.where(copies, np.minimum(least, tape.duration), tape.duration)
    ).without_work(copy_events)
    left = replace(
        left,
        loading=np.where(copy_events, 0, left.loading),
        waits=left.waits & ~waiting_for(tape, copies),
    )
    return left.dispatch_at_most(copy_events, tape.usual_dispatch_ns(tape.compute))


def _passes_ns(tape: Tape, passes: float) -> F64:
    return tape.moving_ns(tape.source.trace.device_ops.bytes[tape.row], passes)


def prepared_on_device(tape: Tape) -> Tape | None:
    """No work of the host's own, and nothing that the program itself does before it copies data to
    the device, where numbers that it widens first (bytes to fp32) go as they were; None without
    that."""
    left = nothing_before_copies(tape)
    share = tape.memo(narrower_before)
    if left is None or not (share < 1.0).any():
        return left
    widening_ns = _passes_ns(tape, WIDENING_PASSES)
    narrow = np.maximum(left.duration * share, LEAST_COPY_NS) + widening_ns
    return left.retimed(np.where(share < 1.0, np.minimum(narrow, left.duration), left.duration))


def narrower_before(tape: Tape) -> F64:
    """For each op the share of its bytes that a copy to the device would bring before operators on
    the host made wider numbers of as many; 1 where none did."""
    outermost = Outermost(tape)
    share = np.ones(len(tape.row))
    for i, place in movers(tape, large_copies(tape, CopyKind.HOST_TO_DEVICE)):
        mover = outermost.at(place, place + 1)[0].operator
        if not mover.named(MOVES):
            continue
        moved = _first_of(mover)
        before = outermost.before(place, OPERATORS_BEFORE)
        begun_with = [_first_of(one.operator) for one in before]
        widths = [one.bytes for one in begun_with if one and moved and one.shape == moved.shape]
        if moved and moved.bytes > 0:
            share[i] = min(filter(math.isfinite, widths), default=moved.bytes) / moved.bytes
    return np.minimum(share, 1.0)


def _first_of(operator: Operator) -> Tensor | None:
    """The tensor that is its first argument."""
    first = operator.typed[0] if operator.typed else None
    return first if isinstance(first, Tensor) else None


def updated_on_host(tape: Tape) -> Updated:
    """Copies to the host whose data it then works into a tensor of the same shape, with operators
    that launch nothing: what is only kept, or looked at, is not. Small ones that come with large
    ones count, too."""
    tree = tape.source.linked.tree
    outermost = Outermost(tape)
    found = np.zeros(len(tape.row), bool)
    (begin, until) = np.zeros((2, len(tape.row)), np.int64)
    unread = tape.copies_of(CopyKind.DEVICE_TO_HOST) & ~tape.reads[tape.event]
    for i, place, shape in _moved(tape, outermost, unread):
        near = outermost.after(place, OPERATORS_AFTER)
        updates = (
            one.node
            for one in near
            if one.operator.named(UPDATES) and one.operator.shapes.count(shape) > 1
        )
        node = next(updates, None)
        if node is not None:
            found[i] = True
            begin[i] = tree.start[outermost.nodes[place]]
            until[i] = tree.end[node]
    found &= (found & large_copies(tape, CopyKind.DEVICE_TO_HOST)).any()
    return Updated(found, begin[found], until[found])


def updated_on_device(tape: Tape) -> Tape | None:
    """The GPU updates them: a pass over the data instead of each copy, one launch for every few
    dozen, and no wait or work of the host; None where the host updates nothing so."""
    updated = tape.memo(updated_on_host)
    if not updated.copies.any():
        return None
    moved = _passes_ns(tape, UPDATE_PASSES)
    kept = updated.copies & (np.cumsum(updated.copies) % TENSORS_A_LAUNCH == 1)
    least = np.where(kept, np.maximum(moved, LEAST_COPY_NS), moved)
    updating = np.minimum(least, tape.duration)
    left = tape.retimed(np.where(updated.copies, updating, tape.duration))
    rest = 1.0 - tape.share_within(union(updated.start, updated.end))
    dispatch = np.rint(tape.dispatch * rest).astype(np.int64)
    dispatch[tape.events_of(kept)] = int(tape.usual_dispatch_ns(tape.compute))
    work = np.rint(tape.work * rest).astype(np.int64)
    left = replace(
        left,
        gap=np.where(updated.copies & ~kept, 0, left.gap),
        work=work,
        waits=left.waits & ~waiting_for(tape, updated.copies),
        tail=_tail_as_between_steps(tape, dispatch, work),
    )
    return left.with_dispatch(dispatch)


def _tail_as_between_steps(tape: Tape, dispatch: I64, work: I64) -> Tail:
    """After the last event the host does no more than between two steps."""
    tail = tape.tail
    begins = np.flatnonzero(np.diff(tape.step_of_event)) + 1
    if not len(begins):
        return tail
    most_dispatch = int(np.median(dispatch[begins]))
    most_work = int(np.median(work[begins]))
    return tail._replace(dispatch=min(tail.dispatch, most_dispatch), work=min(tail.work, most_work))
