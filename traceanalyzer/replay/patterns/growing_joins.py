"""Joins of what was joined before with something new: a cache that `torch.cat` makes again, larger, in
every step, or for each word that a step writes."""

import math
from collections import Counter

import numpy as np

from traceanalyzer.analysis.roofline.op_models.tensors import Shape
from traceanalyzer.base import dataclass
from traceanalyzer.replay.patterns.named import operators_named
from traceanalyzer.replay.patterns.operators import JOIN, Operator, operators
from traceanalyzer.replay.tape import Tape
from traceanalyzer.trace import F64

ByStep = dict[int, set[Shape]]
SMALL_SHARE = 0.1
"""A cache that grows within a step grows by no more than this at a time."""
LEAST_LINKS = 3
"""As often as this a cache grows within a step, by as much each time; fewer are tokens put before a
text."""
KEYS_AND_VALUES = 2
"""A cache has as many tensors of a size at least; a network that joins what its layers make has one."""


@dataclass(frozen=True)
class _Join:
    """What a join takes first, and gives."""

    first: Shape
    joined: Shape

    @property
    def new_share(self) -> float:
        """The part of what it gives that was not in its first tensor."""
        return 1.0 - math.prod(self.first) / math.prod(self.joined)

    @property
    def growth(self) -> Shape:
        """By how much each dimension grows."""
        return tuple(new - old for old, new in zip(self.first, self.joined, strict=True))


def growing_joins(tape: Tape) -> F64:
    """The share of the result that is new, for each op that copies for such a join; NaN for all
    others."""
    shares = np.full(len(tape.row), np.nan)
    # Gradients are of what was joined: a larger tensor that is kept for them is no cache.
    if tape.in_backward.any():
        return shares
    found = _joins_of_ops(tape)
    of_steps: dict[int, Counter[_Join]] = {}
    for _, step, join in found:
        of_steps.setdefault(step, Counter())[join] += 1
    taken = {step: {join.first for join in some} for step, some in of_steps.items()}
    given = {step: {join.joined for join in some} for step, some in of_steps.items()}
    within = {step: _growing_within(some) for step, some in of_steps.items()}
    for place, step, join in found:
        if join in within[step] or _grows(join, step, taken, given):
            shares[place] = join.new_share
    return shares


def _joins_of_ops(tape: Tape) -> list[tuple[int, int, _Join]]:
    """Each op that copies for a join, with its step and the join."""
    linked = tape.source.linked
    node = linked.tree.innermost(operators_named(linked, JOIN))[tape.nodes[tape.event]]
    places = np.flatnonzero(node >= 0)
    joins = operators(linked).tell(node[places], _join_of)
    steps = tape.step_of_op[places].tolist()
    every = zip(places.tolist(), steps, joins, strict=True)
    return [(place, step, join) for place, step, join in every if join is not None]


def _growing_within(joins: Counter[_Join]) -> set[_Join]:
    """The joins of a step that follow one from the other, each with as little more as the one
    before."""
    small = {
        join.first: join
        for join, count in joins.items()
        if count >= KEYS_AND_VALUES and join.new_share <= SMALL_SHARE
    }
    followers = {
        join: small[join.joined]
        for join in small.values()
        if join.joined in small and small[join.joined].growth == join.growth
    }
    growing: set[_Join] = set()
    for begin in set(small.values()) - set(followers.values()):
        chain = [begin]
        while chain[-1] in followers:
            chain.append(followers[chain[-1]])
        if len(chain) >= LEAST_LINKS:
            growing.update(chain)
    return growing


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
