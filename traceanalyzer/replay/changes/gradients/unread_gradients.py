"""Gradients that no optimizer takes: the backward pass ends with the last one that is taken.

Each gradient of a leaf ends in a node `AccumulateGrad`, which is recorded with its shape, and an
optimizer's operators are recorded with the shapes of what they update. A backward pass goes from the
loss to the input, so what is trained on top of a network that was meant to be frozen has its
gradients first."""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from traceanalyzer.analysis.roofline.op_models.tensors import Shape
from traceanalyzer.base import dataclass, regex
from traceanalyzer.replay.patterns.named import operators_named
from traceanalyzer.replay.patterns.operators import Operator, operators
from traceanalyzer.replay.tape import Tape, within_optimizer
from traceanalyzer.trace import I64, Bool, distinct

GRADIENT = regex(r"^torch::autograd::AccumulateGrad$")
UPDATE = regex(r"^aten::_(fused|foreach)_\w+_$|^aten::(add|addcdiv|addcmul|lerp|mul|sub)_$")
"""Operators that update tensors in place, in lists or one by one."""
LISTS = '["TensorList"'
"""How the types of an operator begin that takes a list first. PyTorch tells the shapes of up to thirty
tensors."""
LEAST_UNREAD = 8
"""Fewer gradients that nobody takes are of a head or two that a program has beside the one it trains."""


@dataclass(frozen=True)
class Unread:
    """Gradients of a step that no optimizer takes."""

    events: Bool  # of the tape: what only leads to them
    gradients: int  # how many there are a step, in the mean


def unread_gradients(tape: Tape) -> Unread | None:
    """What of the backward pass only leads to gradients that no optimizer takes; None where the
    recording does not say, or all are taken."""
    return tape.memo(_unread_gradients)


def without_unread_gradients(tape: Tape) -> Tape | None:
    """The backward pass ends with the last gradient that an optimizer takes."""
    unread = unread_gradients(tape)
    if unread is None:
        return None
    gone = unread.events & ~tape.events_of(tape.communication)
    return tape.without_events(gone)


def _unread_gradients(tape: Tape) -> Unread | None:
    linked = tape.source.linked
    called = linked.trace.api_calls.start[tape.call]
    gradients = np.flatnonzero(operators_named(linked, GRADIENT))
    updates = np.flatnonzero(operators_named(linked, UPDATE) & linked.memo(within_optimizer))
    unread = np.zeros(len(called), bool)
    count = 0
    for step in distinct(tape.step_of_event).tolist():
        own = of_step(tape, gradients, step)
        trained = trained_by(tape, of_step(tape, updates, step))
        last = None if trained is None else _last_taken(shapes_of(tape, own), trained)
        if last is None:
            return None
        count += len(own) - 1 - last
        unread |= (tape.step_of_event == step) & (called > linked.tree.end[own[last]])
    unread &= tape.source.joined.in_backward[tape.nodes]
    each = count // tape.steps
    return Unread(unread, each) if each >= LEAST_UNREAD else None


def of_step(tape: Tape, nodes: I64, step: int) -> I64:
    """The nodes of the host tree, of these, that start in a step, in order."""
    steps = tape.source.timed.steps
    start = tape.source.linked.tree.start[nodes]
    inside = (start >= steps.host_start[step]) & (start < steps.host_end[step])
    return nodes[inside][np.argsort(start[inside], kind="stable")]


def shapes_of(tape: Tape, gradients: I64) -> list[Shape]:
    """The shapes of these gradients."""
    return operators(tape.source.linked).tell(gradients, lambda one: one.first)


def trained_by(tape: Tape, updates: I64) -> Counter[Shape] | None:
    """How many tensors of each shape an optimizer updates; None where a list's were not recorded.
    An operator that updates each tensor more than once counts it more than once: then more is taken to
    be trained."""
    of_name: dict[str, Counter[Shape]] = {}
    for operator in operators(tape.source.linked).of_nodes(updates):
        updated = _updated(operator)
        if updated is None:
            return None
        of_name.setdefault(operator.name, Counter()).update(updated)
    most = Counter[Shape]()
    for counted in of_name.values():
        most |= counted
    return most or None


def _updated(operator: Operator) -> Sequence[Shape] | None:
    if (operator.texts[1] or "").startswith(LISTS):
        return operator.listed or None
    return [operator.first]


def _last_taken(gradients: Sequence[Shape], trained: Counter[Shape]) -> int | None:
    """The place of the last gradient that an optimizer takes: of each shape the first ones, as many as
    it trains. None where one shape at least does not tell that by having no more gradients than are
    trained."""
    seen = Counter[Shape]()
    last = None
    for place, shape in enumerate(gradients):
        seen[shape] += 1
        if seen[shape] <= trained[shape]:
            last = place
    is_known = any(0 < seen[shape] <= count for shape, count in trained.items())
    return last if is_known else None
