"""What operators take from the one before them and give to the next, by shapes; which runs of them are a chain."""

import math
import re
from collections.abc import Sequence
from itertools import pairwise
from operator import ne
from typing import NamedTuple

from traceanalyzer.analysis.roofline.op_models.tensors import Shape
from traceanalyzer.replay.patterns.operators import Operator, count

PRODUCTS = (
    (re.compile(r"^aten::linear$"), 0, 1, 0),
    (re.compile(r"^aten::(mm|matmul)$"), 0, 1, 1),
    (re.compile(r"^aten::addmm$"), 1, 2, 1),
)
"""Places of an operator's data and weights among its tensors, and of its results' size among those of weights."""
SAME_SIZE = re.compile(
    r"^aten::(relu_?|leaky_relu_?|elu_?|gelu|silu_?|mish|tanh_?|sigmoid_?|softplus|hardtanh_?|dropout|layer_norm|square"
    r"|abs|exp_?|clamp_?|detach|contiguous)$"
)
"""Operators that give as many elements as they take, and take one tensor that is no weight."""
PART = re.compile(r"^aten::(select|slice|narrow)$")
COPY = re.compile(r"^aten::copy_$")  # writes its second tensor into the first
WRITES = re.compile(r"^aten::(copy_|add_|sub_)$")  # writes its second tensor into the first, or adds it there
JOINING = re.compile(r"^aten::(stack|cat|concat)$")  # makes one tensor of several
LARGER = re.compile(r"^aten::(add|sub|mul|div)_?$")  # gives as many elements as the larger of its tensors has


class Flow(NamedTuple):
    """The shapes of what comes from the operator before and of what an operator gives; None where that is not known."""

    takes: Shape | None
    gives: Shape | None


def flow(one: Operator) -> Flow:
    """What an operator takes and gives."""
    shapes = one.shapes
    for named, data, weights, gives in PRODUCTS:
        if len(shapes) > weights and len(shapes[weights]) == 2 and one.named(named):
            return Flow(shapes[data], (*shapes[data][:-1], shapes[weights][gives]))
    if len(shapes) > 1 and one.named(WRITES):
        return Flow(shapes[1], shapes[0])
    return Flow(shapes[0], shapes[0]) if shapes and one.named(SAME_SIZE) else Flow(None, None)


def given_by(one: Operator) -> Shape | None:
    """The shape of what an operator gives; None where that is not known."""
    return max(one.shapes, key=math.prod) if one.shapes and one.named(LARGER) else flow(one).gives


def is_shared(shape: Shape, by: Shape) -> bool:
    """Whether all items of a batch, of which there are several, share a tensor of this shape."""
    return len(by) > 0 and by[0] > 1 and (len(shape) < len(by) or shape[0] == 1)


def is_chain(run: Sequence[Operator]) -> bool:
    """Whether each of these operators takes what the one before it gives, one at least is a product, and the last does
    not give what the first takes. Parts of other tensors may be taken: to begin with, which tells that no run takes
    what another gives, or to write the result to."""
    steps = [one for one in run if not one.named(PART)]
    if all(one.named(SAME_SIZE) or one.named(WRITES) for one in steps):
        return False
    begun, flows = run.index(steps[0]), list(map(flow, steps))
    if count(run[begun:], PART) > count(steps, COPY) or flows[-1].gives is None:
        return False
    if not all(None is not a.gives == b.takes for a, b in pairwise(flows)):
        return False
    return flows[0].takes != flows[-1].gives or _has_own_part(run, begun, flows[0].takes or ())


def _has_own_part(run: Sequence[Operator], begun: int, taken: Shape) -> bool:
    """Whether a run begins with a part of a tensor, and does not write its result to where another run may read: all
    the parts that it takes are of one number."""
    source = next((one.shapes[0] for one in reversed(run[:begun]) if one.shapes), ())
    # A part is without one dimension, or less of it.
    without = any(source[:i] + source[i + 1 :] == taken for i in range(len(source)))
    less = len(taken) == len(source) and sum(map(ne, taken, source)) == 1
    numbers = {one.texts[2] for one in run if one.named(PART)}
    own = not any(one.named(WRITES) for one in run) or (len(numbers) == 1 and all(numbers))
    return (without or less) and own
