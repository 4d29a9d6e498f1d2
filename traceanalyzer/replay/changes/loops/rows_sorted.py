"""Rows that are sorted by who works on them once, instead of looked for by each."""

import numpy as np

from traceanalyzer.replay.changes.loops.items_joined import ops_of_operators
from traceanalyzer.replay.changes.loops.repetition import joined
from traceanalyzer.replay.patterns.chosen_rows import chosen_rows
from traceanalyzer.replay.tape import Tape


def rows_sorted(tape: Tape) -> Tape | None:
    """Rows are looked for, taken, weighed and added once for all turns of a loop, with one wait;
    each turn's network stays. None without such a loop."""
    found = tape.memo(chosen_rows)
    if not found:
        return None
    others = [node for one in found for node in one.around_others]
    gone = ops_of_operators(tape, others)
    count = np.ones(len(tape.row))
    kept = np.zeros(len(tape.row), bool)
    for loop in found:
        first = ops_of_operators(tape, list(loop.around_first))
        count[first] = loop.count
        kept |= first
    within_others = np.isin(tape.source.linked.tree.outer_operator[tape.nodes], others)
    return joined(tape, kept & ~gone, gone, count).without_dispatch(within_others)
