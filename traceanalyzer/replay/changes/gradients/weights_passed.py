"""Gradients of weights that no optimizer takes, in the middle of a backward pass: what is trained stands
before a network that was meant to be frozen (a perceptual loss, a judge), so its gradient has to go
through that network.

Who takes which gradient is told by what nobody clears: a gradient that an optimizer takes is new in
each step, others are added to those of all steps before."""

import re
from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np

from traceanalyzer.analysis.joined.linked import Linked
from traceanalyzer.analysis.roofline.op_models.tensors import Shape
from traceanalyzer.base import dataclass, regex
from traceanalyzer.replay.changes.gradients.unread_gradients import (
    GRADIENT,
    LEAST_UNREAD,
    UPDATE,
    of_step,
    shapes_of,
    trained_by,
)
from traceanalyzer.replay.patterns.named import kernels_named, operators_named
from traceanalyzer.replay.patterns.operators import Operator, operators
from traceanalyzer.replay.tape import Tape, within_optimizer
from traceanalyzer.trace import Bool, distinct

ADDS = regex(r"^aten::add_?$")
CONVOLUTION = regex(r"^aten::convolution_backward$")
WEIGHTS = 2  # place of a convolution's weights among the tensors of its backward pass
OF_WEIGHTS = regex(r"wgrad")
"""Kernels for the gradient of a convolution's weights; those for that of its data have other names."""
PRODUCT = regex(r"^aten::mm$")
BIAS = regex(r"^aten::sum$")
CAST = regex(r"^aten::copy_$")


@dataclass(frozen=True, eq=False)
class Passed:
    """Weights that the gradient only has to pass."""

    ops: Bool  # of the tape: what only leads to their gradients
    gradients: int  # how many there are a step


def weights_passed(tape: Tape) -> Passed | None:
    """What of the backward pass only leads to gradients that are added up and never taken; None where
    the recording does not say, or there are few."""
    return tape.memo(_weights_passed)


def without_weights_passed(tape: Tape) -> Tape | None:
    """The gradient passes these weights, whose own gradients nobody calculates."""
    passed = weights_passed(tape)
    return None if passed is None else tape.without_launches(passed.ops)


def _weights_passed(tape: Tape) -> Passed | None:
    linked = tape.source.linked
    gradients = np.flatnonzero(operators_named(linked, GRADIENT))
    updates = np.flatnonzero(operators_named(linked, UPDATE) & linked.memo(within_optimizer))
    is_added = added_up(tape)
    counts = set[int]()
    untrained: set[Shape] | None = None
    for step in distinct(tape.step_of_event).tolist():
        own = of_step(tape, gradients, step)
        trained = trained_by(tape, of_step(tape, updates, step))
        kept = own[is_added[own]]
        if trained is None or not _all_taken(shapes_of(tape, own[~is_added[own]]), trained):
            return None
        counts.add(len(kept))
        shapes = {shape for shape in shapes_of(tape, kept) if shape not in trained}
        untrained = shapes if untrained is None else untrained & shapes
    if not untrained or min(counts) < LEAST_UNREAD:
        return None
    return Passed(_leading_to(tape, untrained), min(counts))


def _all_taken(new: Sequence[Shape], trained: Counter[Shape]) -> bool:
    """Whether an optimizer takes all of these gradients, and no other. What it counts steps in has no
    dimensions, like a parameter that is one number."""
    taken = Counter({shape: count for shape, count in trained.items() if shape})
    return bool(taken) and taken == Counter(filter(None, new))


def added_up(tape: Tape) -> Bool:
    """Nodes of the host tree that are gradients, and are added to what was there."""
    linked = tape.source.linked
    gradient = linked.tree.innermost(operators_named(linked, GRADIENT))
    adding = np.flatnonzero(operators_named(linked, ADDS) & (gradient >= 0))
    result = np.zeros(len(gradient), bool)
    result[gradient[adding]] = True
    return result


def _leading_to(tape: Tape, shapes: set[Shape]) -> Bool:
    """Ops of the backward pass that give gradients of weights of these shapes, cast them or add them
    up."""
    linked = tape.source.linked
    own = tape.of_launches(linked.tree.operator)
    outer = tape.of_launches(linked.tree.outer_operator)
    gradients = _nodes_where(linked, GRADIENT, lambda one: one.first in shapes)
    casts = _nodes_where(linked, CAST, lambda one: one.first in shapes)
    convolutions = _nodes_where(linked, CONVOLUTION, lambda one: _weights_of(one) in shapes)
    products = _nodes_where(linked, PRODUCT, lambda one: _gives(one) in shapes)
    sums = operators_named(linked, BIAS)
    known = (own >= 0) & tape.in_backward
    adds_up = tape.of_launches(linked.tree.innermost(gradients) >= 0)
    of_weights = convolutions[own] & kernels_named(tape, OF_WEIGHTS)
    of_weights |= products[own]
    learned = np.zeros(len(linked.tree.start), bool)
    learned[outer[known & of_weights]] = True
    of_bias = sums[own] & learned[outer]
    return known & (adds_up | casts[own] | of_weights | of_bias)


def _nodes_where(
    linked: Linked, named: re.Pattern[str], is_one: Callable[[Operator], bool]
) -> Bool:
    """Which nodes of the host tree are operators with such a name of which this is true."""
    result = operators_named(linked, named)
    nodes = np.flatnonzero(result)
    result[nodes] = np.array(operators(linked).tell(nodes, is_one), bool)
    return result


def _weights_of(convolution: Operator) -> Shape:
    return next(iter(convolution.shapes[WEIGHTS:]), ())


def _gives(product: Operator) -> Shape:
    """The shape of the weights of which a product gives the gradient, turned: a row for each output."""
    if [len(shape) for shape in product.shapes] != [2, 2]:
        return ()
    return product.shapes[1][1], product.shapes[0][0]
