"""What the host adds up, or averages, from what each step copies to it (averaged weights, sums), done on the GPU: no
copy, and no pass of the host over the data."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from traceanalyzer.analysis.algebra.intervals import union
from traceanalyzer.analysis.replay.changes.constants import MOVES, Told, places_of_movers
from traceanalyzer.analysis.replay.changes.edits import retimed, with_dispatch
from traceanalyzer.analysis.replay.changes.loading import LEAST_COPY_NS, large_copies, waiting_for
from traceanalyzer.analysis.replay.on_tape import (
    copies_of,
    events_of,
    moving_ns,
    of_launches,
    share_within,
    step_of_event,
    usual_dispatch_ns,
)
from traceanalyzer.trace import CopyKind

if TYPE_CHECKING:
    from traceanalyzer.analysis.replay.tape import Tail, Tape
    from traceanalyzer.trace import I64, Bool

UPDATES = re.compile(r"^aten::(lerp|add|sub|addcmul|addcdiv)_$")
"""Operators that update a tensor by another of its shape: what only calculates with it may be read next."""
NEAR = 4
"""Operators after a copy among which the host's update is looked for: it may be scaled first."""
PASSES = 3.0
"""What an update on the GPU moves: both tensors are read, and one is written."""
LISTED = 32
"""Tensors that one launch of a `_foreach_` operator takes."""


class Updated(NamedTuple):
    """Copies to the host of what it updates tensors of its own with."""

    copies: Bool
    start: I64
    end: I64
    """From where each of them is made until the host has updated its tensor, ns."""


def updated_on_host(tape: Tape) -> Updated:
    """Copies to the host whose data it then works into a tensor of the same shape, with operators that launch nothing:
    what is only kept, or looked at, is not. Small ones that come with large ones count, too."""
    tree = tape.source.tree
    outer, told = tree.outermost_operators, Told(tape)
    launching = np.isin(outer, of_launches(tape, tree.outer_operator))
    found, until = np.zeros(len(tape.row), bool), np.zeros(len(tape.row), np.int64)
    begin = np.zeros(len(tape.row), np.int64)
    for i, at in places_of_movers(tape, copies_of(tape, CopyKind.DEVICE_TO_HOST) & ~tape.reads[tape.event]):
        name, inputs = told[int(tree.row[outer[at]])]
        if not inputs or not MOVES.match(name):
            continue
        for later in range(at + 1, min(at + 1 + NEAR, len(outer))):
            other, shapes = told[int(tree.row[outer[later]])]
            if launching[later]:
                break
            if UPDATES.match(other) and shapes.count(inputs[0]) > 1:
                found[i], begin[i], until[i] = True, tree.start[outer[at]], tree.end[outer[later]]
                break
    if not (found & large_copies(tape, CopyKind.DEVICE_TO_HOST)).any():
        found[:] = False
    return Updated(found, begin[found], until[found])


def updated_on_device(tape: Tape) -> Tape | None:
    """The GPU updates them: a pass over the data instead of each copy, one launch for every few dozen, and no wait or
    work of the host; None where the host updates nothing so."""
    found = tape.once(updated_on_host)
    if not found.copies.any():
        return None
    moved = moving_ns(tape, tape.source.trace.device_ops.bytes[tape.row], PASSES)
    kept = found.copies & (np.cumsum(found.copies) % LISTED == 1)
    least = np.where(kept, np.maximum(moved, LEAST_COPY_NS), moved)
    left = retimed(tape, np.where(found.copies, np.minimum(least, tape.duration), tape.duration))
    rest = 1.0 - share_within(tape, union(found.start, found.end))
    dispatch, work = (np.rint(time * rest).astype(np.int64) for time in (tape.dispatch, tape.work))
    dispatch[events_of(tape, kept)] = int(usual_dispatch_ns(tape, tape.compute))
    left = replace(
        left,
        gap=np.where(found.copies & ~kept, 0, left.gap),
        work=work,
        waits=left.waits & ~waiting_for(tape, found.copies),
        tail=_tail(tape, dispatch, work),
    )
    return with_dispatch(left, dispatch)


def _tail(tape: Tape, dispatch: I64, work: I64) -> Tail:
    """What the host does after the last event: no more than between two steps."""
    begins = np.flatnonzero(np.diff(step_of_event(tape))) + 1
    if not len(begins):
        return tape.tail
    return tape.tail._replace(
        dispatch=min(tape.tail.dispatch, int(np.median(dispatch[begins]))),
        work=min(tape.tail.work, int(np.median(work[begins]))),
    )
