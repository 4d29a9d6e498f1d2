"""Batches that the program picks out of a table in host memory and copies in every step: data that fits on the GPU."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from traceanalyzer.analysis.replay.changes.constants import MOVES, Told, places_of_movers
from traceanalyzer.analysis.replay.changes.edits import retimed, with_dispatch
from traceanalyzer.analysis.replay.changes.loading import LEAST_COPY_NS, large_copies, waiting_for
from traceanalyzer.analysis.replay.on_tape import events_of, moving_ns, of_launches, usual_dispatch_ns
from traceanalyzer.trace import CopyKind

if TYPE_CHECKING:
    from traceanalyzer.analysis.replay.tape import Tape
    from traceanalyzer.analysis.roofline.op_models.tensors import Shape
    from traceanalyzer.trace import Bool

PICKS = re.compile(r"^aten::(index|index_select)$")
"""Operators that take rows of their first operand."""
NEAR = 16
"""Operators before a copy among which the one that picked its data is looked for."""
PASSES = 2.0
"""What picking rows on the GPU moves: it reads and writes them."""


class Picked(NamedTuple):
    """Copies of rows that the host picked out of tables."""

    copies: Bool
    table_bytes: float
    """Of all tables together."""


def picked_on_host(tape: Tape) -> Picked:
    """Copies to the device of what an operator on the host took out of a larger tensor right before."""
    copies = large_copies(tape, CopyKind.HOST_TO_DEVICE)
    found = np.zeros(len(tape.row), bool)
    tables: dict[tuple[Shape, Shape], float] = {}
    tree, bytes_ = tape.source.tree, tape.source.trace.device_ops.bytes[tape.row]
    rows, told = tree.row[tree.outermost_operators], Told(tape)
    launching = np.isin(tree.outermost_operators, of_launches(tape, tree.outer_operator))
    for i, at in places_of_movers(tape, copies):
        name, inputs = told[int(rows[at])]
        if not inputs or not MOVES.match(name):
            continue
        near = (k for k in range(at - 1, max(at - NEAR, 0) - 1, -1) if not launching[k])
        table = next((one for k in near if (one := _table(told, int(rows[k]), inputs[0]))), None)
        if table is not None:
            found[i] = True
            tables[table, inputs[0]] = float(bytes_[i]) * table[0] / inputs[0][0]
    return Picked(found, sum(tables.values()))


def _table(told: Told, row: int, rows: Shape) -> Shape | None:
    """The shape of the table that an operator picks these rows from; None if it does no such thing."""
    name, inputs = told[row]
    if not PICKS.match(name) or not inputs:
        return None
    table = inputs[0]
    return table if len(rows) == len(table) and table[1:] == rows[1:] and table[0] > rows[0] > 0 else None


def picked_on_device(tape: Tape) -> Tape | None:
    """The tables are on the GPU, which picks the rows itself: no copy, no wait for one, no work of the host before it,
    which launches what picks like any other kernel; None where the host picks nothing."""
    copies = tape.once(picked_on_host).copies
    if not copies.any():
        return None
    moved = moving_ns(tape, tape.source.trace.device_ops.bytes[tape.row], PASSES)
    left = retimed(tape, np.where(copies, np.minimum(np.maximum(moved, LEAST_COPY_NS), tape.duration), tape.duration))
    there = events_of(tape, copies)
    usual = int(usual_dispatch_ns(tape, tape.compute))
    left = replace(
        left,
        work=np.where(there, 0, left.work),
        loading=np.where(there, 0, left.loading),
        waits=left.waits & ~waiting_for(tape, copies),
    )
    return with_dispatch(left, np.where(there, np.minimum(left.dispatch, usual), left.dispatch))
