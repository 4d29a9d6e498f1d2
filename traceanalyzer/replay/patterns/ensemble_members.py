"""Turns of a loop that are members of an ensemble: a small network, and what its loss or its result
is made of.

No member needs another where no layer of the network takes a tensor of a size that the turn ends with:
what follows the network gives no more numbers than it takes, and takes none of that size. Whether members
have weights of their own is told by gradients: a weight has one a backward pass, however often it was
used."""

import math
from collections import Counter
from collections.abc import Sequence
from itertools import zip_longest

import numpy as np

from traceanalyzer.analysis.roofline.op_models.optimizer import ACCUMULATE
from traceanalyzer.analysis.roofline.op_models.tensors import Shape
from traceanalyzer.base import regex
from traceanalyzer.replay.patterns.independent import data_and_weights, has_weights
from traceanalyzer.replay.patterns.named import operators_named
from traceanalyzer.replay.patterns.operators import (
    BROADCAST,
    PART,
    Operator,
    flow,
    is_chain,
    operators,
)
from traceanalyzer.replay.tape import Tape
from traceanalyzer.trace import distinct

GRADIENT = regex(f"^{ACCUMULATE}$")
GIVES_NO_MORE = regex(
    r"^aten::(add|sub|rsub|mul|div|pow|square|sqrt|rsqrt|neg|abs|exp|log|log1p|relu|gelu|silu|tanh|sigmoid|softplus|"
    r"clamp|clamp_min|clamp_max|maximum|minimum|lerp|log_softmax|softmax|mean|sum|amax|amin|max|min|logsumexp|gather|"
    r"\w+_loss|cross_entropy\w*|binary_cross_entropy\w*|broadcast_tensors|view|reshape|flatten|squeeze|unsqueeze|t|"
    r"transpose|permute|detach|select|slice|narrow|unbind|split|chunk)$"
)
"""Gives no more numbers than its operands have together, broadcast. None writes into a tensor."""


def is_member(turn: Sequence[Operator]) -> bool:
    """Whether a turn is a network and what follows it, and takes nothing of another turn."""
    products = [place for place, one in enumerate(turn) if has_weights(one)]
    if not products:
        return False
    network = turn[: products[-1] + 1]
    rest = turn[products[-1] + 1 :]
    if not rest or not is_chain(network) or not all(one.named(GIVES_NO_MORE) for one in rest):
        return False
    taken = {math.prod(one.first) for one in network if one.named(PART)}
    layers = (one for one in network if not one.named(PART, BROADCAST))
    taken |= {math.prod(flow(layer).takes or ()) for layer in layers}
    return 1 not in taken and not any(taken & _sizes(one) for one in rest)


def _sizes(operator: Operator) -> set[int]:
    """How many numbers there are in what an operator takes, and at most in what it gives."""
    shapes = [*operator.shapes, *(shape for listed in operator.lists for shape in listed)]
    return {math.prod(shape) for shape in (*shapes, _broadcast(shapes))}


def _broadcast(shapes: Sequence[Shape]) -> Shape:
    backwards = (reversed(shape) for shape in shapes)
    return tuple(map(max, zip_longest(*backwards, fillvalue=1)))


def share_weights(tape: Tape, turn: Sequence[Operator], times: int) -> bool:
    """Whether so many turns like this one use the same weights: each has fewer gradients in a step
    than it would have if every turn had its own. False where there are none, or turns have no
    weights that are told from data."""
    weights = Counter(shape for one in turn for shape in data_and_weights(one)[1] if shape)
    gradients = tape.memo(_gradients)
    known = [shape for shape in weights if gradients[shape]]
    return bool(known) and all(gradients[shape] < times * weights[shape] for shape in known)


def _gradients(tape: Tape) -> Counter[Shape]:
    """How many gradients of each shape are taken in a step, at most."""
    linked = tape.source.linked
    nodes = np.flatnonzero(operators_named(linked, GRADIENT))
    start = linked.tree.start[nodes]
    steps = tape.source.timed.steps
    most = Counter[Shape]()
    for step in distinct(tape.step_of_op).tolist():
        inside = (start >= steps.host_start[step]) & (start < steps.host_end[step])
        most |= Counter(operators(linked).tell(nodes[inside], lambda one: one.first))
    return most
