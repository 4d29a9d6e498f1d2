"""What autocast would cast in a program that was recorded in fp32, operator by operator.

Parameters are cast once, however often they are taken; what is calculated is cast each time. The
gradient of each cast is cast back, and so is that of an operand whose format is not the result's.
Which tensor an operator takes is told by its shape: the latest of those that are still needed. A
tensor is needed after an operator where that operator's gradient of it was added to another's."""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from traceanalyzer.analysis.algebra import at, texts_where
from traceanalyzer.analysis.joined.backward import forward_makers, is_autograd
from traceanalyzer.analysis.joined.joined import Joined
from traceanalyzer.analysis.joined.linked import Linked
from traceanalyzer.analysis.roofline.op_models.optimizer import ACCUMULATE
from traceanalyzer.analysis.roofline.op_models.tensors import Shape
from traceanalyzer.analysis.roofline.rated import Rated
from traceanalyzer.base import dataclass
from traceanalyzer.replay.patterns.autocast_rules import NARROW, CastRule, Kind, kind_of, rule_of
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
    forward_numbers: F64
    """How many numbers those before it cast."""
    backward_numbers: F64
    """How many numbers those after its gradient cast."""
    narrows: Bool
    """Whether those before it are casts to 16 bits, and those after its gradient to fp32; else it
    is the other way."""
    wide: Bool
    """Whether the operator works on fp32 numbers under autocast, too."""


@dataclass(frozen=True)
class _Passed:
    """What autocast does to an operator: casts, the numbers that they cast, and whether it works
    on fp32 numbers."""

    forward: float = 0.0
    backward: float = 0.0
    forward_numbers: float = 0.0
    backward_numbers: float = 0.0
    narrows: bool = False
    wide: bool = False


def autocasts(source: Rated) -> AutocastCasts:
    """What autocast would cast in this recording."""
    passed = _passed(source)
    kept = {node: passed[node] for node in sorted(passed) if _tells(passed[node])}
    told = list(kept.values())
    return AutocastCasts(
        np.array(list(kept), np.int64),
        np.array([one.forward for one in told], np.float64),
        np.array([one.backward for one in told], np.float64),
        np.array([one.forward_numbers for one in told], np.float64),
        np.array([one.backward_numbers for one in told], np.float64),
        np.array([one.narrows for one in told], bool),
        np.array([one.wide for one in told], bool),
    )


def _passed(source: Rated) -> dict[int, _Passed]:
    """What autocast does to each operator that it sees, by nodes of the host tree."""
    joined = source.joined
    nodes = np.array(list(_called(joined)), np.int64)
    gradients = _gradients(joined)
    walk = _Walk(joined.memo(parameters_of), trains=bool(gradients))
    kinds = operators(joined.linked).tell(nodes, kind_of)
    numbers = _passes(source, nodes)
    last = -1
    passed = dict[int, _Passed]()
    called = zip(nodes.tolist(), kinds, _is_needed_again(joined, nodes), numbers, strict=True)
    for node, kind, needed, number in called:
        if number != last:
            walk.held.clear()
            last = number
        passed[node] = walk.passes(node, kind, needed=needed)
    _add_parameters(passed, walk.weights, gradients)
    return passed


def _tells(passed: _Passed) -> bool:
    """Whether anything is cast for an operator, or it works on fp32 numbers."""
    return bool(passed.forward or passed.backward or passed.wide)


def _add_parameters(
    passed: dict[int, _Passed],
    weights: Sequence[tuple[int, Shape]],
    gradients: Counter[Shape],
) -> None:
    """The casts of parameters: one for each gradient that is accumulated. Where there are gradients,
    but none of this shape, it is frozen, and cast wherever it is taken."""
    taken = Counter(shape for _, shape in weights)
    for node, shape in weights:
        trained = gradients[shape]
        once = min(trained / taken[shape], 1.0)
        numbers = math.prod(shape)
        before = once if trained else 1.0
        calculated = passed[node]
        passed[node] = replace(
            calculated,
            forward=calculated.forward + before,
            backward=calculated.backward + once,
            forward_numbers=calculated.forward_numbers + before * numbers,
            backward_numbers=calculated.backward_numbers + once * numbers,
        )


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

    def passes(self, node: int, kind: Kind, *, needed: bool) -> _Passed:
        """What is cast before an operator, and after its gradient, but for parameters; `needed`:
        whether what it takes is needed after it. Nothing is where all that it takes was recorded in
        16 bits."""
        if not kind.floats:
            return _Passed()
        operands = self.held.taken_by(kind, needed=needed)
        if all(tensor.dtype in NARROW for tensor in kind.floats):
            self.held.given_by(kind, operands, narrow=True)
            return _Passed()
        if kind.rule is CastRule.TO_16_BITS:
            self.weights += [(node, one.shape or ()) for one in operands if one.is_parameter]
        narrow = [operand.narrow for operand in operands]
        gives = kind.gives(narrow)
        asked = kind.asked(narrow)
        known_wide = any(not one.narrow and not one.is_unknown for one in operands)
        wide = asked is False or (not gives and known_wide)
        unknown = not gives and not wide and any(one.is_unknown for one in operands)
        self.held.given_by(kind, operands, narrow=gives, unknown=unknown)
        sizes = [tensor.numel for tensor in kind.floats]
        taken = zip(operands, sizes, strict=True)
        calculated = [one for one in taken if not one[0].is_parameter]
        wide &= kind.rule is not CastRule.ADDED_UP_IN_FP32
        return replace(_casts_of(calculated, asked, gives=gives), wide=wide)


def _casts_of(
    operands: Sequence[tuple[HeldTensor, int]], asked: bool | None, *, gives: bool
) -> _Passed:
    """How many of these, each with its size, are cast to what is asked for (None: nothing is), and
    how many gradients back."""
    taken_as = gives if asked is None else asked
    others = [one for one in operands if one[0].narrow != taken_as]
    trained = [size for operand, size in others if operand.trained]
    sizes = [] if asked is None else [size for _, size in others]
    return _Passed(len(sizes), len(trained), sum(sizes), sum(trained), narrows=taken_as)
