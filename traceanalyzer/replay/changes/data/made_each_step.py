"""What the host makes of numbers alone in every step (masks, positions) and copies to the device: it can
be made once.

A recording has no values of tensors. It shows a stretch of operators that begins with the likes of
`arange` and `full`, takes no tensor that it did not make, and is the same in every step, with the
same numbers."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import dropwhile, takewhile, zip_longest
from typing import NamedTuple

import numpy as np

from traceanalyzer.analysis.algebra import union
from traceanalyzer.analysis.roofline.op_models.tensors import Shape
from traceanalyzer.base import regex
from traceanalyzer.replay.changes.data.loading import MOVES, large_copies, waiting_for
from traceanalyzer.replay.patterns.named import OperatorPlace, Outermost, movers
from traceanalyzer.replay.patterns.operators import JOINING, Operator
from traceanalyzer.replay.tape import Tape
from traceanalyzer.trace import I64, Bool, CopyKind

OF_NUMBERS = regex(r"^aten::(arange|linspace|logspace|full|ones|zeros|eye|(tril|triu)_indices)$")
"""Operators that take numbers alone, and whose result's size a recording need not have."""
RESIZES = regex(r"^aten::(expand|repeat|tile|outer|slice|select|narrow)$")
"""Operators whose result's size their tensors do not tell."""
CALCULATES = regex(
    r"^aten::(add|r?sub|mul|div|pow|exp|log|r?sqrt|sin|cos|tanh|sigmoid|abs|neg|floor|floor_divide|remainder"
    r"|reciprocal|square|minimum|maximum|clamp|clamp_min|clamp_max|eq|ne|lt|le|gt|ge|(logical|bitwise)_(and|or|not)"
    r"|where|masked_fill|triu|tril|cumsum|to|float|half|bfloat16|bool|clone|contiguous|detach"
    r"|(un)?squeeze|view|reshape|flatten|unflatten|t|numpy_T|permute|transpose|movedim)_?$"
)
"""Operators whose result has the size that their tensors have together."""
LONGEST = 64  # operators of a stretch
LEAST_STEPS = 2  # what is the same in one step says nothing


class MadeAlike(NamedTuple):
    """Copies of what is made of numbers alone."""

    copies: Bool
    start: I64
    end: I64  # when the host makes each of them, copies it and frees what it made, ns


def made_of_numbers(tape: Tape) -> MadeAlike:
    """The copies to the device of what every step makes alike."""
    outermost = Outermost(tape)
    start = tape.source.linked.tree.start
    stretches = dict[int, Sequence[Operator]]()
    begins, ends = np.zeros((2, len(tape.row)), np.int64)
    for i, place in movers(tape, large_copies(tape, CopyKind.HOST_TO_DEVICE)):
        mover = outermost.at(place, place + 1)[0].operator
        stretch = _stretch(outermost.at(place - LONGEST, place))
        operators = [one.operator for one in stretch]
        moved = mover.first_tensor if mover.named(MOVES) else ()
        if stretch and moved and _is_of_numbers(operators, moved):
            stretches[i] = operators
            begins[i] = start[stretch[0].node]
            ends[i] = start[outermost.nodes[min(place + 1, len(outermost.nodes) - 1)]]
    chosen = _alike_in_every_step(stretches, tape.steps)
    copies = np.zeros(len(tape.row), bool)
    copies[chosen] = True
    return MadeAlike(copies, begins[copies], ends[copies])


def _stretch(before: Sequence[OperatorPlace]) -> list[OperatorPlace]:
    """The operators right before a copy that may make what it brings, from the first that takes
    numbers alone."""
    makes = (OF_NUMBERS, RESIZES, CALCULATES, JOINING)
    nearest = takewhile(
        lambda one: not one.launches and one.operator.named(*makes), reversed(before)
    )
    return list(dropwhile(lambda one: not one.operator.named(OF_NUMBERS), reversed([*nearest])))


def _is_of_numbers(stretch: Sequence[Operator], moved: Shape) -> bool:
    """Whether a tensor of this shape was made of numbers alone: each size that an operator takes is
    that of such a result before it, or stands for one whose size was not recorded."""
    known = {1: True}  # by the size, whether the last result of that size was made so
    unsized = 0
    for operator in stretch:
        sizes = {math.prod(shape) for shape in _taken(operator)}
        new = sizes.difference(known)
        so_made = len(new) <= unsized and all(known[size] for size in sizes - new)
        unsized = unsized - len(new) if so_made else 0
        known |= dict.fromkeys(new, so_made)
        if operator.named(OF_NUMBERS, RESIZES):
            unsized += so_made
        else:
            known[_size_of_result(operator)] = so_made
    return known.get(math.prod(moved), unsized > 0)


def _taken(operator: Operator) -> list[Shape]:
    return [*operator.shapes, *(shape for one in operator.lists for shape in one)]


def _size_of_result(operator: Operator) -> int:
    """How many numbers an operator gives: all of a list that it joins, else what its tensors have,
    one spread over the other."""
    if operator.named(JOINING):
        return sum(map(math.prod, operator.listed))
    sides = zip_longest(*(shape[::-1] for shape in operator.shapes), fillvalue=1)
    return math.prod(max(side) for side in sides)


def _alike_in_every_step(stretches: dict[int, Sequence[Operator]], steps: int) -> list[int]:
    """The copies whose stretches, numbers included, come as often as there are steps."""
    kinds = {
        i: tuple((one.name, *one.texts) for one in stretch) for i, stretch in stretches.items()
    }
    count = Counter(kinds.values())
    return [i for i, kind in kinds.items() if count[kind] >= max(steps, LEAST_STEPS)]


def made_once(tape: Tape) -> Tape | None:
    """The tape without these copies, waits for them, and what the host does to make them; None
    without any."""
    alike = tape.memo(made_of_numbers)
    if not alike.copies.any():
        return None
    making = union(alike.start, alike.end)
    making_ns = tape.before_events(making)
    from_loading = np.minimum(making_ns, tape.loading)
    left = tape.without_launches(alike.copies)
    left = replace(
        left,
        loading=left.loading - from_loading,
        work=left.work - np.minimum(making_ns - from_loading, left.work),
        waits=left.waits & ~waiting_for(tape, alike.copies),
    )
    return left.with_dispatch(left.dispatch * (1.0 - tape.share_within(making)))
