"""Copies that bring the same data in every step: tables, weights and masks, told by how the step uses them."""

import math
import re
from collections.abc import Callable

import numpy as np

from traceanalyzer.analysis.roofline.op_models.tensors import Shape
from traceanalyzer.replay.patterns.flow import is_shared
from traceanalyzer.replay.patterns.named import Outermost, movers
from traceanalyzer.replay.patterns.operators import Operator
from traceanalyzer.replay.tape import Tape
from traceanalyzer.trace import Bool

TABLE = re.compile(r"^aten::(index|embedding|index_select|gather|take)$")
"""Operators whose first operand is looked up in."""
PRODUCT = re.compile(r"^aten::(linear|matmul|mm)$")
"""Operators whose second operand is a weight where it has two dimensions."""
SPREAD = re.compile(r"^aten::(add_?|sub_?|mul_?|div_?|where|masked_fill_?)$")
"""Operators that spread a smaller operand over a larger one: positions, masks, scales."""
ATTENTION, MASK = re.compile(r"^aten::(scaled_dot_product_attention|_scaled_dot_product_\w+)$"), 3
"""Attention, and the place of its mask or bias among its operands."""
CONVOLUTION = re.compile(r"^aten::conv(\dd|olution)$")  # operators whose second operand is a weight
PARAMETERS = re.compile(r"^aten::(linear|addmm|conv(\dd|olution)|(layer|batch|group|instance|rms)_norm)$")
"""Operators that take parameters of a layer, of whatever size, after what they work on."""
TURNS = re.compile(r"^aten::(t|numpy_T|transpose|permute|movedim)$")
"""Operators that give the same data with its dimensions in another order."""
PASSES_ON = re.compile(r"^aten::(unsqueeze|squeeze|view|reshape|expand|contiguous|detach|alias|type_as|half|float)$")
"""Operators that give the same data, as they are or in another format."""
MOVES = re.compile(r"^aten::(to|_to_copy|copy_|cuda)$")
GIVES_THE_SAME = re.compile(f"{MOVES.pattern}|{PASSES_ON.pattern}")
TURNS_OR_PASSES_ON = re.compile(f"{TURNS.pattern}|{GIVES_THE_SAME.pattern}")
USE_OPERATORS = 8  # those after a copy, other copies left out, among which its use is looked for
USE_OPERATORS_OF_BLOCK = 32  # the same for what comes together with a weight: the other parameters of a block of layers
FARTHEST_OPERATORS = 256  # so many operators are looked at at most, copies included


def constants(tape: Tape, copies: Bool, smaller: Bool | None = None) -> Bool:
    """Which of these copies bring a table, a weight or a mask: data that the program has, not input. And which of them,
    and of `smaller` ones, bring the other parameters of the layers that a weight came for: together, with no kernel
    between."""
    result, weights = np.zeros((2, len(tape.row)), bool)
    if not copies.any():
        return result
    kernels, step = np.cumsum(tape.compute), tape.step_of_op
    begun = kernels > np.maximum.accumulate(np.where(np.diff(step, prepend=-2) != 0, kernels - tape.compute, 0))
    outermost = Outermost(tape)
    for i, place in movers(tape, copies):
        result[i], parameter = _first_use(outermost, place, USE_OPERATORS, turned=bool(begun[i]))
        weights[i] = result[i] and parameter
    together = np.isin(kernels, kernels[weights]) & ~result & (copies if smaller is None else copies | smaller)
    for i, place in movers(tape, together):
        result[i] = _first_use(outermost, place, USE_OPERATORS_OF_BLOCK, turned=True)[1]
    return result


def _first_use(outermost: Outermost, place: int, uses: int, *, turned: bool) -> tuple[bool, bool]:
    """Whether the first of so many operators that calculate takes what the one at this place moves (`turned`: with its
    dimensions in another order, too) as something that stays, and whether as a parameter of a layer."""
    order: Callable[[Shape], object] = tuple
    following = outermost.follow(place, FARTHEST_OPERATORS)
    mover = next(following)
    moved = _without_ones(mover.first_tensor) if mover.named(MOVES) else ()
    passes = TURNS_OR_PASSES_ON if turned else GIVES_THE_SAME
    for one in following if moved else ():
        sizes = [order(_without_ones(shape)) for shape in one.shapes]
        taken = sizes.index(order(moved)) if order(moved) in sizes else -1
        if taken > 0 or (taken == 0 and not one.named(passes)):
            return _stays(one, taken), taken > 0 and one.named(PARAMETERS)
        order = sorted if taken == 0 and one.named(TURNS) else order
        uses -= not one.named(MOVES)
        if not uses:
            break
    return False, False


def _without_ones(shape: Shape) -> Shape:
    """The sizes of a shape that say something of the data."""
    return tuple(size for size in shape if size != 1)


def _stays(one: Operator, place: int) -> bool:
    """Whether an operator takes the operand at this place as something that stays."""
    shapes, moved = one.shapes, one.shapes[place]
    if one.named(TABLE):
        return place == 0 and len(_without_ones(moved)) > 1
    if one.named(PRODUCT):
        return place == 1 and len(moved) == 2
    if one.named(ATTENTION):
        return place == MASK and is_shared(moved, shapes[0])
    if one.named(CONVOLUTION):
        return place == 1
    return place > 0 and one.named(SPREAD) and max(map(math.prod, shapes)) > math.prod(moved)
