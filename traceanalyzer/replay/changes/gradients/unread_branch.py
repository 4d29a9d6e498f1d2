"""A network that is called with gradients beside the one that is trained: a teacher, a judge of the
same input. The backward pass goes through all of it, to an input that nobody trains.

Its gradients are added to those of all steps before, for nobody clears them, while those that an
optimizer takes are new in each step. Its first layer, which the backward pass comes to last, gives
no gradient of its input: what stands before it is data."""

import numpy as np

from traceanalyzer.base import dataclass, regex
from traceanalyzer.replay.changes.gradients.unread_gradients import (
    GRADIENT,
    LEAST_UNREAD,
    of_step,
    shapes_of,
)
from traceanalyzer.replay.changes.gradients.weights_passed import added_up
from traceanalyzer.replay.patterns.named import operators_named
from traceanalyzer.replay.patterns.operators import operators
from traceanalyzer.replay.tape import Tape
from traceanalyzer.trace import I64, Bool, distinct

CONVOLUTION = regex(r"^aten::convolution_backward$")
LOOKUP = regex(r"^aten::embedding_dense_backward$")
PRODUCT = regex(r"^aten::mm$")
NO_GRADIENT_OF_INPUT = "[false"
"""How a convolution's backward pass says, last among its arguments, that its input needs none."""
MATRIX = 2


@dataclass(frozen=True, eq=False)
class UnreadBranch:
    """The backward pass through a network that nobody trains."""

    events: Bool  # of the tape
    gradients: int  # of its weights, a step


def unread_branch(tape: Tape) -> UnreadBranch | None:
    """What of the backward pass only leads to gradients that are added up and never taken, down to
    the input; None where the recording does not say, or there is none in some step."""
    return tape.memo(_unread_branch)


def without_unread_branch(tape: Tape) -> Tape | None:
    """The network is called without gradients: no backward pass goes through it."""
    branch = unread_branch(tape)
    if branch is None:
        return None
    gone = branch.events & ~tape.events_of(tape.communication)
    return tape.without_events(gone)


def _unread_branch(tape: Tape) -> UnreadBranch | None:
    linked = tape.source.linked
    tree = linked.tree
    called = linked.trace.api_calls.start[tape.call]
    gradients = np.flatnonzero(operators_named(linked, GRADIENT))
    is_added = added_up(tape)
    events = np.zeros(len(called), bool)
    counts = list[int]()
    for step in distinct(tape.step_of_event).tolist():
        run = _run_of_added(tape, of_step(tape, gradients, step), is_added)
        if not len(run) or not _ends_at_data(tape, run):
            return None
        counts.append(len(run))
        begin = tree.start[run[0]]
        end = tree.end[run[-1]]
        events |= (called >= begin) & (called <= end) & (tape.step_of_event == step)
    events &= tape.source.joined.in_backward[tape.nodes]
    return UnreadBranch(events, min(counts)) if counts else None


def _run_of_added(tape: Tape, own: I64, is_added: Bool) -> I64:
    """The longest run of a step's gradients that are added up; empty where there are few, of these or
    of new ones, or where their weights have the shapes of new ones: micro-batches add up, too. The
    network that is called first has its gradients last."""
    new = np.flatnonzero(~is_added[own])
    nothing = own[:0]
    if len(new) < LEAST_UNREAD:
        return nothing
    edges = np.concatenate([[-1], new, [len(own)]])
    lengths = np.diff(edges) - 1
    longest = int(lengths.argmax())
    run = own[edges[longest] + 1 : edges[longest + 1]]
    if len(run) < LEAST_UNREAD:
        return nothing
    trained = {shape for shape in shapes_of(tape, own[new]) if len(shape) >= MATRIX}
    weights = [shape for shape in shapes_of(tape, run) if len(shape) >= MATRIX]
    known = sum(shape in trained for shape in weights)
    return run if weights and 2 * known < len(weights) else nothing


def _ends_at_data(tape: Tape, run: I64) -> bool:
    """Whether the last operator that gives gradients of weights gives none of its input."""
    linked = tape.source.linked
    tree = linked.tree
    giving = operators_named(linked, CONVOLUTION) | operators_named(linked, LOOKUP)
    giving |= operators_named(linked, PRODUCT) & tape.source.joined.in_backward
    nodes = np.flatnonzero(giving)
    begin = tree.start[run[0]]
    end = tree.end[run[-1]]
    inside = nodes[(tree.start[nodes] > begin) & (tree.end[nodes] < end)]
    if not len(inside):
        return False
    last = inside[tree.start[inside].argmax()]
    operator = operators(linked).of_nodes(np.array([last]))[0]
    if LOOKUP.match(operator.name):
        return True
    if CONVOLUTION.match(operator.name):
        mask = operator.values[-1].lower() if operator.values else ""
        return mask.startswith(NO_GRADIENT_OF_INPUT)
    outer = tree.outer_operator[inside]
    return int((outer == tree.outer_operator[last]).sum()) == 1
