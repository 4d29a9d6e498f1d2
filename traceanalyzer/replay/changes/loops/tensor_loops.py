"""Loops over weights or gradients: the same few elementwise operators on one tensor after the other, as lists.

What such a loop does to one tensor cannot need what it did to another of another size, so sizes tell it from a chain of
operators on the same data: in a loop each operator has tensors of one size, and the next tensor's is another.
"""

import math
import re
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from traceanalyzer.analysis.algebra.ordering import where_changed
from traceanalyzer.analysis.roofline.op_models.tensors import Shape
from traceanalyzer.replay.changes.optimizer import by_lists, updating
from traceanalyzer.replay.on_tape import copies_of
from traceanalyzer.replay.patterns.operators import Operator, operators
from traceanalyzer.replay.patterns.repeats import Launching, launching, split_where
from traceanalyzer.replay.tape import Tape
from traceanalyzer.trace import I32, I64, Bool, CopyKind

FEWEST_OPERATORS = 24
"""Operators of a loop at least: fewer launches are not worth another way to write it."""
FEWEST_SIZE_CHANGES = 8
"""Times that the next tensor must have another size than the one before: fewer may be a chain that reduces."""
LONGEST_BODY_OPERATORS = 12
"""Operators on one tensor at most: an optimizer has no more."""
ALIKE_SHARE = 0.9
"""Share of the operators that are the same as so many before: weights without a decay, say, may have one fewer."""
ELEMENTWISE = re.compile(
    r"^aten::(_foreach_\w+|mul_?|add_?|sub_?|div_?|copy_|clone|to|lerp_?|addcmul_?|addcdiv_?|r?sqrt_?|neg_?|abs_?|sign_?"
    r"|pow_?|square_?|exp_?|clamp_?|clamp_m(in|ax)_?|reciprocal_?|maximum|minimum|zero_|norm|linalg_norm|linalg_vector_norm"
    r"|sum|isfinite|isnan|isinf|all|any)$"
)
"""Operators that PyTorch also has for lists of tensors, or that a norm of each says as much as."""


class Loops(NamedTuple):
    """Loops over tensors on a tape."""

    number: I64
    """For each op the loop that launches it, -1 without."""
    names: tuple[str, ...]
    """What their operators are called, in order."""


def tensors_listed(tape: Tape) -> Tape | None:
    """Each operator of such a loop takes a few dozen tensors in one launch; None without one outside the optimizer."""
    found = tape.memo(tensor_loops)
    return None if found is None else by_lists(tape, found.number)


def tensor_loops(tape: Tape) -> Loops | None:
    """Loops over tensors outside the optimizer; None without any."""
    calls, known = tape.memo(launching), operators(tape.source.linked)
    sizes = known.tell(calls.node, _size)
    usable = np.array([size is not None for size in sizes], bool)
    usable &= ~calls.backward & _on_device(tape, calls)
    number, names = np.full(len(sizes), -1, np.int64), set[str]()
    new = where_changed(np.where(usable, calls.step, -1))
    for mine in split_where(np.arange(len(sizes)), new[1:]):
        if usable[mine[0]] and _is_loop(calls.name[mine], sizes[mine[0] : mine[-1] + 1]):
            number[mine] = number.max() + 1
            names |= {one.name for one in known.of_nodes(calls.node[mine])}
    return Loops(calls.of_ops(number, len(tape.row)), tuple(sorted(names))) if names else None


def _size(one: Operator) -> Shape | None:
    """The size of the one tensor, or of the tensors of one size, that an operator for lists works on, () for a number;
    None for other operators."""
    if not one.inputs or any(len(listed) != 1 for listed in one.lists) or not one.named(ELEMENTWISE):
        return None
    sizes = {shape for shape in (*one.shapes, *(listed[0] for listed in one.lists)) if math.prod(shape) > 1}
    return None if len(sizes) > 1 else next(iter(sizes), ())


def _on_device(tape: Tape, calls: Launching) -> Bool:
    """Which of these operators launch nothing but kernels and copies within the device, outside an optimizer's step."""
    away = copies_of(tape, CopyKind.HOST_TO_DEVICE) | copies_of(tape, CopyKind.DEVICE_TO_HOST) | updating(tape)
    return ~np.logical_or.reduceat(away, calls.first) if len(away) else np.zeros(0, bool)


def _is_loop(names: I32, sizes: list[Shape | None]) -> bool:
    """Whether the same few operators come again and again, and sizes change often."""
    if len(names) < FEWEST_OPERATORS:
        return False
    tensors = [size for size in sizes if size]
    changes = sum(a != b for a, b in pairwise(tensors))
    alike = max(float((names[body:] == names[:-body]).mean()) for body in range(1, LONGEST_BODY_OPERATORS + 1))
    return changes >= FEWEST_SIZE_CHANGES and alike >= ALIKE_SHARE
