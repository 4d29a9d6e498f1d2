"""Operators as a recording describes them: what they are called, the tensors they take, the values
of the rest; what they take from the one before and give to the next, by shapes, and which runs of
them are a chain."""

import math
import re
from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import pairwise
from operator import ne
from typing import NamedTuple, TypeVar

from traceanalyzer.analysis.algebra import at
from traceanalyzer.analysis.joined.linked import Linked
from traceanalyzer.analysis.roofline.op_models.call import Call
from traceanalyzer.analysis.roofline.op_models.convolution import result_shape
from traceanalyzer.analysis.roofline.op_models.tensors import (
    Input,
    Shape,
    Tensor,
    inputs_of,
    parse_values,
)
from traceanalyzer.base import dataclass, regex
from traceanalyzer.trace import I32, I64

Told = TypeVar("Told")


@dataclass(frozen=True, eq=False)
class Operator:
    """One operator, or all that were recorded alike; what was not recorded is empty."""

    name: str
    texts: tuple[str | None, str | None, str | None] = (None, None, None)
    """Its shapes, element types and values, as recorded."""

    def named(self, *patterns: re.Pattern[str]) -> bool:
        """Whether it is called like one of these."""
        return any(pattern.search(self.name) is not None for pattern in patterns)

    @cached_property
    def inputs(self) -> tuple[Input, ...]:
        """What it takes, told by shapes alone: an element type that is missing or damaged takes
        nothing away."""
        return inputs_of(self.texts[0])

    @cached_property
    def typed(self) -> tuple[Input, ...]:
        """What it takes, with element types."""
        return inputs_of(self.texts[0], self.texts[1])

    @cached_property
    def values(self) -> tuple[str, ...]:
        """Texts of its arguments, empty ones for tensors."""
        return parse_values(self.texts[2])

    @cached_property
    def shapes(self) -> list[Shape]:
        """Of its tensors, without those in lists."""
        return [one.shape for one in self.inputs if isinstance(one, Tensor)]

    @cached_property
    def first(self) -> Shape:
        """The shape of its first argument, () where that is no tensor."""
        return self.inputs[0].shape if self.inputs and isinstance(self.inputs[0], Tensor) else ()

    @property
    def first_tensor(self) -> Shape:
        """The shape of the first of these, () without any."""
        return self.shapes[0] if self.shapes else ()

    @cached_property
    def lists(self) -> list[list[Shape]]:
        """The shapes of the tensors in each of its lists."""
        return [[tensor.shape for tensor in one] for one in self.inputs if isinstance(one, tuple)]

    @property
    def listed(self) -> list[Shape]:
        """The shapes of the tensors in its first argument, where that is a list."""
        return self.lists[0] if self.inputs and isinstance(self.inputs[0], tuple) else []


PRODUCTS = (
    (regex(r"^aten::linear$"), 0, 1, 0),
    (regex(r"^aten::(mm|matmul)$"), 0, 1, 1),
    (regex(r"^aten::addmm$"), 1, 2, 1),
)
"""Places of an operator's data and weights among its tensors, and of its results' size among those
of weights."""
SAME_SIZE = regex(
    r"^aten::(relu_?|leaky_relu_?|elu_?|gelu|silu_?|mish|tanh_?|sigmoid_?|softplus|hardtanh_?|hardswish_?|selu_?"
    r"|dropout|(layer|group|instance|batch|rms)_norm|(log_)?softmax|square|abs|exp_?|clamp_?|detach|contiguous|to)$"
)
"""Operators that give as many elements as they take, and take one tensor that is no weight."""
LOSSES = (
    (regex(r"^aten::(mse_loss|l1_loss|smooth_l1_loss|huber_loss)$"), 2),
    (regex(r"^aten::(cross_entropy_loss|nll_loss|nll_loss_nd|binary_cross_entropy)$"), 3),
    (regex(r"^aten::binary_cross_entropy_with_logits$"), 4),
)
"""Losses of what a network says, their first tensor, and the place of the reduction among their
values."""
NO_REDUCTION = "0"
NUMBERS = regex(r"^aten::(add|sub|mul|div)_?$")  # of numbers alone gives a number
MEAN = regex(r"^aten::(mean|sum)$")  # of all of a tensor, where it has no second value
BROADCAST = regex(r"^aten::broadcast_tensors$")  # launches nothing, and gives what it takes
PART = regex(r"^aten::(select|slice|narrow)$")
COPY = regex(r"^aten::copy_$")  # writes its second tensor into the first
WRITES = regex(
    r"^aten::(copy_|add_|sub_)$"
)  # writes its second tensor into the first, or adds it there
JOIN = regex(r"^aten::(cat|concat)$")  # makes one tensor of several, along one of their dimensions
JOINING = regex(r"^aten::(stack|cat|concat)$")  # the same, or along a new dimension
LARGER = regex(
    r"^aten::(add|sub|mul|div)_?$"
)  # gives as many elements as the larger of its tensors has


def count(run: Sequence[Operator], pattern: re.Pattern[str]) -> int:
    """How many of these operators are called like this."""
    return sum(one.named(pattern) for one in run)


class Operators:
    """The operators of a recording, each kind of them read once."""

    def __init__(self, linked: Linked) -> None:
        self._linked = linked
        self._known = dict[tuple[int, ...], Operator]()

    def of_nodes(self, nodes: I32 | I64) -> list[Operator]:
        """Those that these nodes of the host tree are (ranges, no API calls); one without a name
        for -1."""
        return self.of_rows(at(self._linked.tree.row, nodes, -1))

    def of_rows(self, rows: I32 | I64) -> list[Operator]:
        """Those in these rows of `Trace.host_ranges`, one without a name for -1."""
        return list(map(self._known.__getitem__, self._kinds(rows)))

    def _kinds(self, rows: I32 | I64) -> list[tuple[int, ...]]:
        """The kind of the operator in each of these rows, read where it was not known."""
        ranges = self._linked.trace.host_ranges
        columns = (ranges.name, ranges.shapes, ranges.dtypes, ranges.concrete)
        of_rows = (at(column, rows, -1).tolist() for column in columns)
        kinds = list(zip(*of_rows, strict=True))
        for kind in set(kinds).difference(self._known):
            name, shapes, dtypes, values = map(self._linked.trace.text, kind)
            self._known[kind] = Operator(name or "", (shapes, dtypes, values))
        return kinds

    def tell(self, nodes: I32 | I64, of_one: Callable[[Operator], Told]) -> list[Told]:
        """What `of_one` says of each of these nodes, asked once for each kind."""
        kinds = self._kinds(at(self._linked.tree.row, nodes, -1))
        told = {kind: of_one(self._known[kind]) for kind in set(kinds)}
        return list(map(told.__getitem__, kinds))


def operators(linked: Linked) -> Operators:
    """The operators of a recording."""
    return linked.memo(Operators)


class Flow(NamedTuple):
    """The shapes of what comes from the operator before and of what an operator gives; None where
    that is not known."""

    takes: Shape | None
    gives: Shape | None


def flow(operator: Operator) -> Flow:
    """What an operator takes and gives."""
    shapes = operator.shapes
    for named, data, weights, gives in PRODUCTS:
        if len(shapes) > weights and len(shapes[weights]) == 2 and operator.named(named):
            return Flow(shapes[data], (*shapes[data][:-1], shapes[weights][gives]))
    if len(shapes) > 1 and operator.named(WRITES):
        return Flow(shapes[1], shapes[0])
    if _is_reduced(operator):
        return Flow(operator.first, ())
    return Flow(shapes[0], shapes[0]) if shapes and operator.named(SAME_SIZE) else Flow(None, None)


def convolved(operator: Operator) -> Shape | None:
    """The shape of what a convolution gives; None where its values do not tell."""
    try:
        return result_shape(Call(operator.name, operator.typed, operator.values))
    except ValueError:
        return None


def _is_reduced(operator: Operator) -> bool:
    """Whether an operator gives one number: a loss (unless it is told not to reduce), a mean of
    all, or what is counted of numbers."""
    values = operator.values
    if not operator.shapes:
        return bool(operator.inputs) and operator.named(NUMBERS)
    if operator.named(MEAN):
        return bool(values) and not any(values)
    places = (place for named, place in LOSSES if operator.named(named))
    place = next(places, None)
    return place is not None and NO_REDUCTION not in values[place : place + 1]


def output_shape(operator: Operator) -> Shape | None:
    """The shape of what an operator gives; None where that is not known."""
    if operator.shapes and operator.named(LARGER):
        return max(operator.shapes, key=math.prod)
    return flow(operator).gives


def is_shared(shape: Shape, by: Shape) -> bool:
    """Whether all items of a batch, of which there are several, share a tensor of this shape."""
    is_batch = len(by) > 0 and by[0] > 1
    return is_batch and (len(shape) < len(by) or shape[0] == 1)


def is_chain(run: Sequence[Operator]) -> bool:
    """Whether each of these operators takes what the one before it gives, one at least is a
    product, and the last does not give what the first takes. Parts of other tensors may be taken:
    to begin with, which tells that no run takes what another gives, or to write the result to."""
    steps = [one for one in run if not one.named(PART, BROADCAST)]
    if count(steps, SAME_SIZE) + count(steps, WRITES) == len(steps):
        return False
    begun = run.index(steps[0])
    flows = list(map(flow, steps))
    if count(run[begun:], PART) > count(steps, COPY) or flows[-1].gives is None:
        return False
    if not all(None is not a.gives == b.takes for a, b in pairwise(flows)):
        return False
    taken = flows[0].takes
    return taken != flows[-1].gives or _has_own_part(run, begun, taken or ())


def _has_own_part(run: Sequence[Operator], begun: int, taken: Shape) -> bool:
    """Whether a run begins with a part of a tensor, and writes its result, if so, to parts of one
    number alone."""
    before = (one.shapes for one in reversed(run[:begun]))
    source = next(filter(None, before), [()])[0]
    # A part is without one dimension, or less of it.
    parts = (source[:i] + source[i + 1 :] for i in range(len(source)))
    without = taken in parts
    less = len(taken) == len(source) and sum(map(ne, taken, source)) == 1
    numbers = {one.texts[2] for one in run if one.named(PART)}
    own = not count(run, WRITES) or (len(numbers) == 1 and all(numbers))
    return (without or less) and own
