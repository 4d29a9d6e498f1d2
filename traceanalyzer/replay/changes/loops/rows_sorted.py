"""Rows that are sorted by who works on them once, instead of looked for by each, and rows that are
repeated at once, instead of item by item."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from traceanalyzer.replay.changes.loops.items_joined import ops_of_operators
from traceanalyzer.replay.changes.loops.repetition import joined
from traceanalyzer.replay.patterns.chosen_rows import ChosenRows, chosen_rows
from traceanalyzer.replay.patterns.repeated_rows import repeated_rows
from traceanalyzer.replay.tape import Tape


def rows_sorted(tape: Tape) -> Tape | None:
    """Rows are looked for, taken, weighed and added once for all turns of a loop, with one wait;
    each turn's network stays. None without such a loop."""
    found = tape.memo(chosen_rows)
    return _once(tape, found) if found else None


def rows_repeated(tape: Tape) -> Tape | None:
    """The rows of all items are repeated at once, in as many as the longest has, without a wait. None
    without a loop that repeats them item by item."""
    found = tape.memo(repeated_rows)
    if not found:
        return None
    left = _once(tape, found)
    nodes = [node for one in found for node in one.around_first]
    within = np.isin(tape.source.linked.tree.outer_operator[tape.nodes], nodes)
    return replace(left, waits=left.waits & ~within)


def _once(tape: Tape, found: Sequence[ChosenRows]) -> Tape:
    """What is around each turn is done once for all turns of its loop."""
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
