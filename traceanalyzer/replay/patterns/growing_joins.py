"""Joins of what was joined the step before with something new: a cache that `torch.cat` makes again,
larger, in every step."""

import math

import numpy as np

from traceanalyzer.analysis.roofline.op_models.tensors import Shape
from traceanalyzer.base import dataclass, regex
from traceanalyzer.replay.patterns.named import operators_named
from traceanalyzer.replay.patterns.operators import Operator, operators
from traceanalyzer.replay.tape import Tape
from traceanalyzer.trace import F64

JOIN = regex(r"^aten::(cat|concat)$")
ByStep = dict[int, set[Shape]]


@dataclass(frozen=True)
class _Join:
    """What a join takes first, and gives."""

    first: Shape
    joined: Shape

    @property
    def new_share(self) -> float:
        """The part of what it gives that was not in its first tensor."""
        return 1.0 - math.prod(self.first) / math.prod(self.joined)


def growing_joins(tape: Tape) -> F64:
    """The share of the result that is new, for each op that copies for such a join; NaN for all
    others."""
    linked = tape.source.linked
    tree = linked.tree
    node = tree.innermost(operators_named(linked, JOIN))[tape.nodes[tape.event]]
    shares = np.full(len(node), np.nan)
    # Gradients are of what was joined: a larger tensor that is kept for them is no cache.
    if tape.in_backward.any():
        return shares
    places = np.flatnonzero(node >= 0)
    joins = operators(linked).tell(node[places], _join_of)
    steps = tape.step_of_op[places].tolist()
    taken: ByStep = {}
    given: ByStep = {}
    for step, join in zip(steps, joins, strict=True):
        if join is not None:
            taken.setdefault(step, set()).add(join.first)
            given.setdefault(step, set()).add(join.joined)
    for place, step, join in zip(places.tolist(), steps, joins, strict=True):
        if join is not None and _grows(join, step, taken, given):
            shares[place] = join.new_share
    return shares


def _grows(join: _Join, step: int, taken: ByStep, given: ByStep) -> bool:
    """Whether it takes what a join of the step before gave, or gives what one of the next takes,
    and no step has it twice."""
    before = join.first in given.get(step - 1, ())
    again = join.first in taken.get(step - 1, ())
    after = join.joined in taken.get(step + 1, ())
    given_again = join.joined in given.get(step + 1, ())
    return (before and not again) or (after and not given_again)


def _join_of(operator: Operator) -> _Join | None:
    """The join that an operator is; None of two tensors that differ in more than a dimension."""
    listed = operator.listed
    ranks = {len(shape) for shape in listed}
    if len(listed) < 2 or len(ranks) > 1:
        return None
    first = tuple(listed[0])
    dimensions = zip(*listed, strict=True)
    differing = [i for i, sizes in enumerate(dimensions) if len(set(sizes)) > 1]
    if len(differing) != 1 or not all(first):
        return None
    along = differing[0]
    joined = list(first)
    joined[along] = sum(shape[along] for shape in listed)
    return _Join(first, tuple(joined))
