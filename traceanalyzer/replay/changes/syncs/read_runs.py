"""Values that a loop reads one by one, as one read of all of them (`tolist()`)."""

from __future__ import annotations

import re

import numpy as np

from traceanalyzer.replay.changes.edits import without_dispatch, without_launches
from traceanalyzer.replay.on_tape import (
    copies_of,
    events_of,
    events_of_only,
    launching_events,
    nodes,
    step_of_event,
)
from traceanalyzer.replay.patterns.named import are_named
from traceanalyzer.replay.patterns.runs import after_each, split_where
from traceanalyzer.replay.tape import Tape
from traceanalyzer.trace import Bool, CopyKind

LOOKS = re.compile(
    r"^aten::(select|index|index_select|gather|take|slice|to|_to_copy|copy_|float|squeeze|eq|ne|gt|lt|ge|le|logical_\w+"
    r"|bitwise_\w+|__\w+__|any|all|isnan|isfinite|item|is_nonzero|_local_scalar_dense)$"
)
"""Operators that pick or test a value for the host."""
LONGEST_LOOK_NS = 5_000
"""A kernel that picks or tests a few values takes no longer."""
MOST_VALUE_BYTES = 4096
"""A read of more brings data, not an item's values."""
FEWEST_READS = 16
"""With fewer reads in a row a loop over items is not what makes them."""


def after_first_read(tape: Tape) -> Bool:
    """Events of loops that read item by item, with nothing between but what picks or tests the next values: those that
    come after the first read. One read of all items would take their place."""
    reading, looking = _reading(tape), _looking(tape)
    other = ~(reading | looking)
    run = np.cumsum(other | (np.diff(step_of_event(tape), prepend=-1) != 0))
    operator = tape.source.linked.tree.outer_operator[nodes(tape)]
    at = np.flatnonzero(reading & ~other)
    begins = at[np.append(True, (operator[at[1:]] != operator[at[:-1]]) | (run[at[1:]] != run[at[:-1]]))[: len(at)]]
    result = np.zeros(len(tape.dispatch), bool)
    for own in split_where(begins, np.diff(run[begins]) != 0):
        if len(own) >= FEWEST_READS:
            last = at[run[at] == run[own[0]]][-1]
            result[own[1] : last + 1] = True
    return result


def read_at_the_end(tape: Tape) -> Tape | None:
    """Each such loop reads all its values at once; None without any."""
    gone = tape.memo(after_first_read)
    if not gone.any():
        return None
    return without_dispatch(without_launches(tape, gone[tape.event]), gone)


def _reading(tape: Tape) -> Bool:
    """Events that bring a few values to the host, or wait for that."""
    bytes_ = tape.source.trace.device_ops.bytes[tape.row]
    small = copies_of(tape, CopyKind.DEVICE_TO_HOST) & (bytes_ <= MOST_VALUE_BYTES)
    copying = events_of_only(tape, small)
    waiting = tape.waits & ~launching_events(tape) & after_each(copying)
    return copying | waiting | (tape.reads & ~events_of(tape, ~small))


def _looking(tape: Tape) -> Bool:
    """Events that launch only short kernels of operators that pick or test values."""
    named = are_named(tape.source.linked, tape.source.linked.tree.outer_operator[nodes(tape)], LOOKS)
    copies = tape.copy & ~copies_of(tape, CopyKind.DEVICE_TO_DEVICE)
    long = (tape.duration > LONGEST_LOOK_NS) | tape.communication | copies
    return named & ~events_of(tape, long) & ~tape.waits
