"""Lookups in many tables, one call each, as one call.

A lookup takes whole numbers and gives vectors, so one can never need what another found: nothing but the way the
program is written makes them one after the other.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from traceanalyzer.analysis.algebra.texts import texts_where
from traceanalyzer.analysis.replay.changes.kernels import JOINING
from traceanalyzer.analysis.replay.changes.repetition import FEWEST_CALLS, joined
from traceanalyzer.analysis.replay.on_tape import backward_of, launched_within, nodes, of_launches
from traceanalyzer.trace import RangeKind
from traceanalyzer.trace.distinct import distinct

if TYPE_CHECKING:
    from traceanalyzer.analysis.replay.tape import Tape
    from traceanalyzer.trace import I32, I64, Bool

LOOKUP = re.compile(r"^aten::(embedding|embedding_bag)$")
MOST_BETWEEN = 3
"""Kernels between two lookups that prepare the next one: offsets, a cast, a shift."""


def lookups_joined(tape: Tape) -> Tape | None:
    """Lookups that follow each other are one call, and so is what they give rise to in the backward pass; None where
    fewer than a handful do."""
    tree, strings = tape.source.tree, tape.source.trace.strings
    lookups = tree.named(texts_where(strings, LOOKUP.match))
    lookups &= (tree.kind == RangeKind.OP) & ~tape.source.in_backward
    outer = tree.outermost(lookups)
    call = of_launches(tape, outer)
    forward = _runs(tape, call)
    if not forward[1].any():
        return None
    place = np.cumsum(np.diff(nodes(tape)[tape.event], prepend=-1) != 0)
    made = backward_of(tape, outer >= 0) & (call < 0)
    backward = _runs(tape, np.where(made, place, -1))
    kept, gone = forward[0] | backward[0], forward[1] | backward[1]
    gone |= np.append(False, gone[:-1]) & launched_within(tape, texts_where(strings, JOINING.match)) & ~kept
    return joined(tape, kept, gone, np.maximum(forward[2], backward[2]))


def _runs(tape: Tape, call: I32 | I64) -> tuple[Bool, Bool, I64]:
    """Of runs of calls (numbers, one for each op, -1: none) in a step: the ops of the first, those from there to the
    end of the last, and for each op how many calls its run has."""
    kept, gone, count = np.zeros(len(call), bool), np.zeros(len(call), bool), np.ones(len(call), np.int64)
    rows = np.flatnonzero(call >= 0)
    step = tape.step_of_op
    ends = (np.diff(rows) > MOST_BETWEEN + 1) | (np.diff(step[rows]) != 0)
    for run in np.split(rows, np.flatnonzero(ends) + 1):
        calls = len(distinct(call[run]))
        if calls < FEWEST_CALLS:
            continue
        first = run[call[run] == call[run[0]]]
        kept[first], count[first] = True, calls
        gone[first[-1] + 1 : run[-1] + 1] = True
    return kept, gone & ~kept, count
