"""Gradients that are dropped after each step, not filled with zeros: nothing writes the zeros, and the
first gradient of each weight is kept as it is, not added to zero."""

import numpy as np

from traceanalyzer.base import regex
from traceanalyzer.replay.changes.gradients.weights_passed import added_up
from traceanalyzer.replay.changes.loops.unfused_rnn import tensor_loops
from traceanalyzer.replay.patterns.named import operators_named
from traceanalyzer.replay.tape import Tape
from traceanalyzer.trace import Bool, distinct

ZERO = regex(r"^aten::zero_$")
LEAST_ADDED = 0.5
"""Adds of new gradients for each tensor that is filled with zeros; with fewer these are no gradients."""


def gradients_dropped(tape: Tape) -> Tape | None:
    """Gradients are dropped; None where no loop fills them with zeros."""
    zeros = _zeros(tape)
    adds = tape.of_launches(tape.source.linked.tree.innermost(added_up(tape)) >= 0)
    if not zeros.any() or adds.sum() < LEAST_ADDED * zeros.sum():
        return None
    return tape.without_launches(zeros | _first_adds(tape, adds, zeros))


def _zeros(tape: Tape) -> Bool:
    """Ops of loops over tensors that fill each with zeros."""
    loops = tape.memo(tensor_loops)
    if loops is None:
        return np.zeros(len(tape.row), bool)
    linked = tape.source.linked
    inside = linked.tree.innermost(operators_named(linked, ZERO)) >= 0
    return (loops.number >= 0) & tape.of_launches(inside)


def _first_adds(tape: Tape, adds: Bool, zeros: Bool) -> Bool:
    """The first of these adds in each step, one for each tensor that is filled with zeros: those of
    micro-batches after the first add to gradients, and stay."""
    step_of_op = tape.step_of_op
    result = np.zeros(len(adds), bool)
    for step in distinct(step_of_op).tolist():
        in_step = step_of_op == step
        own = np.flatnonzero(adds & in_step)
        result[own[: int((zeros & in_step).sum())]] = True
    return result
