"""Lookups in many tables, one call each, as one call.

A lookup takes whole numbers and gives vectors, so one can never need what another found: nothing but the way the
program is written makes them one after the other.
"""

from __future__ import annotations

import re

import numpy as np

from traceanalyzer.replay.changes.loops.batch_size import joined
from traceanalyzer.replay.changes.loops.repetition import FEWEST_CALLS
from traceanalyzer.replay.on_tape import backward_of, nodes, of_launches
from traceanalyzer.replay.patterns.flow import JOINING
from traceanalyzer.replay.patterns.named import launched_within, operators_named
from traceanalyzer.replay.patterns.runs import after_each, split_where
from traceanalyzer.replay.tape import Tape
from traceanalyzer.trace import I32, I64, Bool
from traceanalyzer.trace.distinct import distinct

LOOKUP = re.compile(r"^aten::(embedding|embedding_bag)$")
MOST_KERNELS_BETWEEN = 3
"""Between two lookups, that prepare the next one: offsets, a cast, a shift."""


def lookups_joined(tape: Tape) -> Tape | None:
    """Lookups that follow each other are one call, and so is what they give rise to in the backward pass; None where
    fewer than a handful do."""
    outer = tape.source.linked.tree.outermost(
        operators_named(tape.source.linked, LOOKUP) & ~tape.source.joined.in_backward
    )
    call = of_launches(tape, outer)
    forward = _runs(tape, call)
    if not forward[1].any():
        return None
    place = np.cumsum(np.diff(nodes(tape)[tape.event], prepend=-1) != 0)
    made = backward_of(tape, outer >= 0) & (call < 0)
    backward = _runs(tape, np.where(made, place, -1))
    kept, gone = forward[0] | backward[0], forward[1] | backward[1]
    gone |= after_each(gone) & launched_within(tape, JOINING) & ~kept
    return joined(tape, kept, gone, np.maximum(forward[2], backward[2]))


def _runs(tape: Tape, call: I32 | I64) -> tuple[Bool, Bool, I64]:
    """Of runs of calls (numbers, one for each op, -1: none) in a step: the ops of the first, those from there to the
    end of the last, and for each op how many calls its run has."""
    kept, gone, count = np.zeros(len(call), bool), np.zeros(len(call), bool), np.ones(len(call), np.int64)
    rows, step = np.flatnonzero(call >= 0), tape.step_of_op
    for run in split_where(rows, (np.diff(rows) > MOST_KERNELS_BETWEEN + 1) | (np.diff(step[rows]) != 0)):
        calls = len(distinct(call[run]))
        if calls >= FEWEST_CALLS:
            first = run[call[run] == call[run[0]]]
            kept[first], count[first] = True, calls
            gone[first[-1] + 1 : run[-1] + 1] = True
    return kept, gone & ~kept, count
