"""Calls of one model in a loop of which none needs another: crops, documents or molecules, one by one.

Their results are put into one tensor, as many as there are calls. Time steps are collected like that, too, but each
takes what the one before it gave: a recurrent product takes a tensor that nothing before it in the call has given. And
where the items' sizes go up and down from call to call, no state of that size goes from one to the next.
"""

from __future__ import annotations

import math
import re
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from traceanalyzer.analysis.replay.changes.kernels import JOINING
from traceanalyzer.analysis.replay.changes.loops.ensembles import given_by

if TYPE_CHECKING:
    from traceanalyzer.analysis.replay.changes.sequences import Repeat
    from traceanalyzer.analysis.roofline.op_models.tensors import Shape
    from traceanalyzer.trace import I32

FEWEST_ITEMS = 4
"""Fewer calls in a loop are told by other means."""
MOST_LISTED = 30
"""PyTorch's recorder leaves out the shapes of longer lists of tensors."""
WEIGHTS = re.compile(r"^aten::(linear|addmm|mm|matmul|bmm|baddbmm|conv\w*|embedding\w*|_scaled_mm)$")
WEIGHTS_FIRST = re.compile(r"^aten::(addmm|embedding\w*)$")
"""The second tensor of these is the data: a bias, or rows to look up, come before it."""
BOTH = re.compile(r"^aten::(matmul|bmm|baddbmm)$")
"""Either operand may be data."""
TAKES_STATE = re.compile(r"^aten::(linear|addmm|mm|matmul|conv\w*|stack|cat|concat|lstm\w*|gru\w*|rnn\w*)$")
"""Operators through which a recurrent cell takes its state."""
CELL = re.compile(r"(lstm|gru|rnn\w*)_cell")
REDUCES = re.compile(
    r"^aten::(\w*pool\w*|mean|sum|amax|amin|max|min|prod|norm|linalg_vector_norm|logsumexp|argmax|argmin)$"
)
"""Operators that give fewer elements than they take."""


class Operator(NamedTuple):
    """An operator of a call: its name, the shapes of its tensors, and those of its first list of tensors."""

    name: str
    shapes: tuple[Shape, ...]
    listed: tuple[Shape, ...] = ()

    @property
    def has_weights(self) -> bool:
        """Whether it may multiply by weights, or look rows of them up."""
        return bool(WEIGHTS.match(self.name))

    @property
    def data(self) -> tuple[Shape, ...]:
        """What it takes beside weights."""
        if not self.has_weights or BOTH.match(self.name):
            return self.listed or self.shapes
        return self.shapes[self._place : self._place + 1]

    @property
    def weights(self) -> tuple[Shape, ...]:
        """The shapes of its weights."""
        if BOTH.match(self.name):
            return ()
        return self.shapes[: self._place] + self.shapes[self._place + 1 :]

    @property
    def _place(self) -> int:
        return 1 if WEIGHTS_FIRST.match(self.name) else 0


def independent(operators: list[Operator], steps: I32, run: Repeat) -> bool:
    """Whether these calls share only their weights, and what they give is put together in the same step."""
    if run.times < FEWEST_ITEMS or not _collected(operators, steps, run):
        return False
    calls = [operators[at : at + run.period] for at in range(run.first, run.first + run.period * run.times, run.period)]
    if any(_weights(call) != _weights(calls[0]) for call in calls) or _carries(calls[0]):
        return False
    taken = [_taken(call) for call in calls]
    if len(set(taken)) > 1:
        return _up_and_down([math.prod(shape) for shape in taken])
    return _gives_other_size(calls[0], taken[0])


def _collected(operators: list[Operator], steps: I32, run: Repeat) -> bool:
    """Whether as many tensors as there are calls are made one after them."""
    stop = run.first + run.period * run.times
    for one, step in zip(operators[stop:], steps[stop:].tolist(), strict=True):
        if step != steps[run.first]:
            return False
        listed = len(one.listed) or MOST_LISTED + 1
        if JOINING.match(one.name) and min(run.times, MOST_LISTED + 1) == listed:
            return True
    return False


def _weights(call: list[Operator]) -> list[tuple[Shape, ...]]:
    return [one.weights for one in call if one.has_weights]


def _taken(call: list[Operator]) -> Shape:
    """The shape of what the first operator with weights takes."""
    first = next(one for one in call if one.has_weights)
    return next(iter(first.data), ())


def _up_and_down(sizes: list[int]) -> bool:
    """Whether sizes rise and fall, as those of items do; a text that is written, or a pyramid, has them in order."""
    return any(a < b for a, b in pairwise(sizes)) and any(a > b for a, b in pairwise(sizes))


def _gives_other_size(call: list[Operator], taken: Shape) -> bool:
    """Whether a call gives nothing of the size that it takes."""
    last = call[-1]
    given = given_by(last.name, list(last.shapes))
    if given is None and not REDUCES.match(last.name):
        return False
    return not met_again(call, taken) and (given is None or math.prod(given) != math.prod(taken))


def met_again(call: list[Operator], taken: Shape) -> bool:
    """Whether an operator after the first with weights takes a tensor of this shape."""
    begun = next(i for i, one in enumerate(call) if one.has_weights)
    return any(taken in one.shapes for one in call[begun + 1 :])


def _carries(call: list[Operator]) -> bool:
    """Whether a product or a joint of tensors takes one, of as many rows as the call's input, that nothing before it in
    the call can have given: a state. What an operator gives is known of some; one of others may have given anything."""
    known: set[int] = set()
    rows, pending = None, True
    for one in call:
        if CELL.search(one.name):
            return True
        for shape in one.data:
            size = math.prod(shape)
            rows = shape[0] if rows is None and len(shape) > 1 else rows
            if size in known or len(shape) < 2:
                continue
            if not pending and shape[0] == rows and TAKES_STATE.match(one.name):
                return True
            known.add(size)
            pending = False
        given = given_by(one.name, list(one.shapes))
        if given is None:
            pending = True
        else:
            known.add(math.prod(given))
    return False
