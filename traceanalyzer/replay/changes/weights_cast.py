"""Weights of a model that is not trained, cast to 16 bits once and not in each call: an autocast keeps
its casts until it ends, and of weights that need no gradient it keeps none."""

import numpy as np

from traceanalyzer.analysis.roofline.op_models.tensors import FLOAT, Shape, Tensor
from traceanalyzer.base import regex
from traceanalyzer.replay.patterns.named import operators_named
from traceanalyzer.replay.patterns.operators import PRODUCTS, Operator, operators
from traceanalyzer.replay.tape import Tape
from traceanalyzer.trace import Bool

CAST = regex(r"^aten::copy_$")
CONVOLUTION = regex(r"^aten::conv(olution|\dd)$")


def fp32_weights_of(operator: Operator) -> frozenset[Shape]:
    """Shapes of a product's weights and bias in fp32; empty where its data has one of these, which then
    tells nothing, and of other operators."""
    tensors = [operand for operand in operator.typed if isinstance(operand, Tensor)]
    place = _place_of_data(operator)
    if place is None or place >= len(tensors):
        return frozenset()
    data = tensors.pop(place)
    weights = frozenset(tensor.shape for tensor in tensors if tensor.dtype is FLOAT)
    return frozenset() if data.shape in weights else weights


def _place_of_data(operator: Operator) -> int | None:
    """Which of a product's tensors is its data; None of other operators."""
    if operator.named(CONVOLUTION):
        return 0
    return next((place for named, place, *_ in PRODUCTS if operator.named(named)), None)


def weights_cast_once(tape: Tape) -> Tape | None:
    """The tape without casts of weights; None where there are none, or where gradients are calculated,
    which change the weights in each step."""
    if tape.in_backward.any():
        return None
    gone = casts_of_weights(tape)
    return tape.without_launches(gone) if gone.any() else None


def casts_of_weights(tape: Tape) -> Bool:
    """Ops that cast the weights of the product that they are launched in."""
    linked = tape.source.linked
    known = operators(linked)
    own = tape.of_launches(linked.tree.operator)
    outer = tape.of_launches(linked.tree.outer_operator)
    result = tape.compute & (own >= 0) & operators_named(linked, CAST)[own]
    places = np.flatnonzero(result)
    cast = known.tell(own[places], lambda one: one.first)
    weights = known.tell(outer[places], fp32_weights_of)
    result[places] = [shape in of for shape, of in zip(cast, weights, strict=True)]
    return result
