"""What autocast would cast in a program that was recorded in fp32, operator by operator.

Parameters are cast once, however often they are taken; what is calculated is cast each time. The
gradient of each cast is cast back, and so is that of an operand whose format is not the result's.
Which tensor an operator takes is told by its shape: the latest of those that are still needed. A
tensor is needed after an operator where that operator's gradient of it was added to another's."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from traceanalyzer.analysis.algebra import at, texts_where
from traceanalyzer.analysis.joined.backward import forward_makers, is_autograd
from traceanalyzer.analysis.joined.joined import Joined
from traceanalyzer.analysis.joined.linked import Linked
from traceanalyzer.analysis.roofline.op_models.optimizer import ACCUMULATE
from traceanalyzer.analysis.roofline.op_models.tensors import Shape
from traceanalyzer.analysis.roofline.rated import Rated
from traceanalyzer.base import dataclass
from traceanalyzer.replay.patterns.autocast_rules import CastRule, Kind, kind_of, rule_of
from traceanalyzer.replay.patterns.held_tensors import HeldTensor, HeldTensors
from traceanalyzer.replay.patterns.operators import operators
from traceanalyzer.replay.patterns.parameters import Parameters, parameters_of
from traceanalyzer.replay.tape import within_optimizer
from traceanalyzer.trace import F64, I64, Bool

CROSS_ENTROPY = "aten::cross_entropy_loss"
SOFTMAX = "aten::log_softmax"
"""Inside of it this asks for the format that it is given, which autocast leaves."""
ADDS = ("aten::add", "aten::add_")


@dataclass(frozen=True, eq=False)
class AutocastCasts:
    """Launches that autocast adds for each operator that has any."""

    nodes: I64
    """The operators, as nodes of the host tree, in order."""
    forward: F64
    """Before an operator of the forward pass."""
    backward: F64
    """After the gradient of that operator."""


def autocasts(source: Rated) -> AutocastCasts:
    """What autocast would cast in this recording."""
    joined = source.joined
    nodes = np.array(list(_called(joined)), np.int64)
    if not len(nodes):
        return AutocastCasts(nodes, np.empty(0), np.empty(0))
    forward = dict[int, float]()
    backward = dict[int, float]()
    gradients = _gradients(joined)
    walk = _Walk(joined.memo(parameters_of), trains=bool(gradients))
    again = _is_needed_again(joined, nodes)
    kinds = operators(joined.linked).tell(nodes, kind_of)
    last = -1
    called = zip(nodes.tolist(), kinds, again, _passes(source, nodes), strict=True)
    for node, kind, needed, number in called:
        if number != last:
            walk.held.clear()
            last = number
        forward[node], backward[node] = walk.passes(node, kind, needed=needed)
    _add_parameters(forward, backward, walk.weights, gradients)
    cast = sorted(node for node in forward if forward[node] or backward[node])
    return AutocastCasts(
        np.array(cast, np.int64),
        np.array([forward[node] for node in cast], np.float64),
        np.array([backward[node] for node in cast], np.float64),
    )


def _add_parameters(
    forward: dict[int, float],
    backward: dict[int, float],
    weights: Sequence[tuple[int, Shape]],
    gradients: Counter[Shape],
) -> None:
    """The casts of parameters: one for each gradient that is accumulated. Where there are gradients,
    but none of this shape, it is frozen, and cast wherever it is taken."""
    taken = Counter(shape for _, shape in weights)
    for node, shape in weights:
        trained = gradients[shape]
        once = min(trained / taken[shape], 1.0)
        forward[node] += once if trained else 1.0
        backward[node] += once


def _gradients(joined: Joined) -> Counter[Shape]:
    """How many gradients of parameters of each shape are accumulated."""
    linked = joined.linked
    nodes = np.flatnonzero(_named(linked, ACCUMULATE.__eq__))
    return Counter(one.first_tensor for one in operators(linked).of_nodes(nodes))


def _called(joined: Joined) -> Iterator[int]:
    """The forward operators that autocast sees, as nodes of the host tree: the outermost, or those
    in them that its lists have, where an outermost one is in none."""
    tree = joined.linked.tree
    listed = _is_listed(joined)
    outer = tree.outermost_operators
    outer = outer[~joined.in_backward[outer] & ~joined.linked.memo(within_optimizer)[outer]]
    inside = tree.subtree_sum(listed, outer) > listed[outer]
    simple = listed[outer] | ~inside
    for node, is_seen in zip(outer.tolist(), simple.tolist(), strict=True):
        yield from [node] if is_seen else _listed_within(joined, node, listed)


def _listed_within(joined: Joined, node: int, listed: Bool) -> Iterator[int]:
    """Those in an operator that autocast's lists have, and that lie in no other such."""
    end = int(joined.linked.tree.subtree_end[node])
    after = node
    for inner in (node + 1 + np.flatnonzero(listed[node + 1 : end])).tolist():
        if inner >= after:
            yield inner
            after = int(joined.linked.tree.subtree_end[inner])


def _is_listed(joined: Joined) -> Bool:
    """Which nodes are operators of autocast's lists."""
    linked = joined.linked
    listed = _named(linked, lambda text: rule_of(text) is not CastRule.NONE)
    within = linked.tree.innermost(_named(linked, CROSS_ENTROPY.__eq__)) >= 0
    return listed & ~(within & _named(linked, SOFTMAX.__eq__))


def _named(linked: Linked, test: Callable[[str], object]) -> Bool:
    """Which nodes of the host tree have such a name."""
    return linked.tree.named(texts_where(linked.trace.strings, test))


def _passes(source: Rated, nodes: I64) -> list[int]:
    """A number for the forward pass that each of these operators is part of: another after a
    backward pass, and in another step."""
    linked = source.linked
    start = linked.tree.start
    autograd = np.flatnonzero(linked.tree.of_ranges(is_autograd(linked), False))
    begins = np.sort(np.append(start[autograd], source.timed.steps.host_start))
    return np.searchsorted(begins, start[nodes], side="right").tolist()


def _is_needed_again(joined: Joined, nodes: I64) -> list[bool]:
    """For each of these operators whether what it takes is needed after it: autograd adds its
    gradient to that of an operator that takes it later."""
    linked = joined.linked
    tree = linked.tree
    autograd = tree.of_ranges(is_autograd(linked), False)
    sums = np.flatnonzero(_named(linked, ADDS.__contains__))
    around = tree.parent[sums]
    sums = sums[at(autograd, around, False) & (tree.outermost(autograd)[sums] == around)]
    makers = forward_makers(linked)[sums]
    makes = np.zeros(len(tree.start), bool)
    makes[makers[makers >= 0]] = True
    return (tree.subtree_sum(makes, nodes) > 0).tolist()


class _Walk:
    """A forward pass under autocast, operator by operator."""

    def __init__(self, parameters: Parameters, *, trains: bool) -> None:
        self.held = HeldTensors(parameters, trains=trains)
        self.weights = list[tuple[int, Shape]]()
        """The products that take a parameter, as nodes of the host tree, and its shape."""

    def passes(self, node: int, kind: Kind, *, needed: bool) -> tuple[int, int]:
        """What is cast before an operator, and after its gradient, but for parameters; `needed`:
        whether what it takes is needed after it."""
        if not kind.floats:
            return 0, 0
        operands = self.held.taken_by(kind, needed=needed)
        if kind.rule is CastRule.TO_16_BITS:
            self.weights += [(node, one.shape or ()) for one in operands if one.is_parameter]
        narrow = [operand.narrow for operand in operands]
        gives = kind.gives(narrow)
        self.held.given_by(kind, operands, narrow=gives)
        calculated = [operand for operand in operands if not operand.is_parameter]
        return _count_casts(calculated, kind.asked(narrow), gives=gives)


def _count_casts(
    operands: Sequence[HeldTensor], asked: bool | None, *, gives: bool
) -> tuple[int, int]:
    """How many of these are cast to what is asked for (None: nothing is), and how many gradients
    back."""
    taken_as = gives if asked is None else asked
    others = [operand for operand in operands if operand.narrow != taken_as]
    trained = sum(operand.trained for operand in others)
    return 0 if asked is None else len(others), trained
