"""Activations kept instead of calculated again in the backward pass (checkpointing)."""

import numpy as np

from traceanalyzer.base import regex
from traceanalyzer.replay.patterns.named import texts
from traceanalyzer.replay.patterns.repeats import after_each
from traceanalyzer.replay.tape import Tape, parametric
from traceanalyzer.trace import Bool

REENTRANT = regex(r"CheckpointFunctionBackward")
HOOKED_SHARE = 0.75
"""What is left, where operands are kept, of the host's time for operators whose operands are not:
each saved tensor calls a hook in Python, forward and backward (about 10 us of 40 an operator; two
programs got at least this much faster)."""
LEAST_KERNELS = 3  # kernels that tell a stretch of the forward pass from others


def recomputed(tape: Tape) -> Bool:
    """Ops of forward operators that run within the backward pass."""
    return tape.source.joined.run_again[tape.nodes][tape.event] & tape.compute


@parametric
def kept(tape: Tape, hooked: float) -> Tape | None:
    """Nothing is calculated again, and the host neither saves the state that this needs nor goes
    back to it, and takes this share of its time for the operators that stay; None where nothing is
    calculated again."""
    gone = recomputed(tape)
    if not gone.any():
        return None
    left = tape.without_launches(gone)
    removed = tape.events_of(gone)
    (begin, stretch) = _first_time(tape, gone)
    # After each stretch the host comes back from calculating again.
    begun = tape.events_of(begin)
    after = ~removed & after_each(removed)
    backward = tape.source.joined.in_backward[tape.nodes]
    dispatch = left.dispatch.copy()
    for events, like in ((begun, ~backward), (after, backward)):
        others = like & ~events & ~removed
        usual = int(np.median(dispatch[others])) if others.any() else 0
        dispatch[events] = np.minimum(dispatch[events], usual)
    # Stretches that a node of their own calculates again have no hooks on what is saved.
    reentrant = texts(tape.source.linked, REENTRANT).any()
    if not reentrant:
        slowed = tape.events_of(stretch) | backward
        dispatch = np.where(slowed, dispatch * hooked, dispatch)
    left = left.without_work(begun | after | tape.events_of_only(gone))
    return left.with_dispatch(dispatch)


def _first_time(tape: Tape, gone: Bool) -> tuple[Bool, Bool]:
    """Stretches of the forward pass that run again later (the same kernels in order): the first op
    of each, and all."""
    name = tape.source.trace.device_ops.name[tape.row]
    begins = np.flatnonzero(gone & ~after_each(gone))
    ends = np.flatnonzero(gone & ~np.append(gone[1:], False)) + 1
    begin = np.zeros(len(gone), bool)
    inside = np.zeros(len(gone), bool)
    for stretch in {
        tuple(name[a:b].tolist())
        for a, b in zip(begins, ends, strict=True)
        if b - a >= LEAST_KERNELS
    }:
        same = np.ones(len(name) - len(stretch) + 1, bool)
        for offset, kernel in enumerate(stretch):
            same &= name[offset:][: len(same)] == kernel
        found = np.flatnonzero(same)
        begin[found] = True
        inside[(found[:, None] + np.arange(len(stretch))).reshape(-1)] = True
    return begin & ~gone, inside & ~gone
