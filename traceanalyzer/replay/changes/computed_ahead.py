"""What a frozen network makes of its input in each step of a training: latents of pictures, embeddings of
texts, a reference's odds. Where the same input comes again in each epoch, it can be made once."""

import numpy as np

from traceanalyzer.base import regex
from traceanalyzer.replay.changes.called_again import LEAST_KERNELS, outermost_calls
from traceanalyzer.replay.patterns.named import operators_named
from traceanalyzer.replay.tape import Tape, within_optimizer
from traceanalyzer.trace import Bool

AVERAGE = regex(r"^aten::(_foreach_(lerp|mul|add|copy)_|lerp_)$")
"""Operators that change weights outside of an optimizer: a teacher that follows its student."""


def without_frozen_calls(tape: Tape) -> Tape | None:
    """The tape without calls of networks that never learn; None where there are none, where nothing
    learns, or where weights may follow those that are trained."""
    gone = tape.memo(frozen_calls)
    if not gone.any():
        return None
    return tape.without_events(gone)


def frozen_calls(tape: Tape) -> Bool:
    """Events of calls without gradients of modules that are never called with them."""
    linked = tape.source.linked
    called = linked.trace.api_calls.start[tape.call]
    gone = np.zeros(len(called), bool)
    averages = operators_named(linked, AVERAGE) & ~linked.memo(within_optimizer)
    if averages.any() or not tape.in_backward.any() or not tape.in_optimizer.any():
        return gone
    calls = linked.memo(outermost_calls)
    learning = {call.module for call in calls if call.learns}
    for call in calls:
        inside = (called >= call.start) & (called < call.end)
        if call.module not in learning and int(inside.sum()) >= LEAST_KERNELS:
            gone |= inside
    return gone
