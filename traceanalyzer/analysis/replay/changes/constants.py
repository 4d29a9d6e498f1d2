"""Copies that bring the same data in every step: tables, weights and masks, told by how the step uses them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from traceanalyzer.analysis.replay.on_tape import of_launches
from traceanalyzer.analysis.roofline.op_models.tensors import Shape, tensor_shapes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traceanalyzer.analysis.replay.tape import Tape
    from traceanalyzer.trace import Bool

TABLE = re.compile(r"^aten::(index|embedding|index_select|gather|take)$")
"""Operators whose first operand is looked up in."""
PRODUCT = re.compile(r"^aten::(linear|matmul|mm)$")
"""Operators whose second operand is a weight where it has two dimensions."""
SPREAD = re.compile(r"^aten::(add_?|sub_?|mul_?|div_?|where|masked_fill_?)$")
"""Operators that spread a smaller operand over a larger one: positions, masks, scales."""
ATTENTION, MASK = re.compile(r"^aten::(scaled_dot_product_attention|_scaled_dot_product_\w+)$"), 3
"""Attention, and the place of its mask or bias among its operands."""
CONVOLUTION = re.compile(r"^aten::conv(\dd|olution)$")
"""Operators whose second operand is a weight."""
PARAMETERS = re.compile(r"^aten::(linear|addmm|conv(\dd|olution)|(layer|batch|group|instance|rms)_norm)$")
"""Operators that take parameters of a layer, of whatever size, after what they work on."""
TURNS = re.compile(r"^aten::(t|numpy_T|transpose|permute|movedim)$")
"""Operators that give the same data with its dimensions in another order."""
PASSES_ON = re.compile(r"^aten::(unsqueeze|squeeze|view|reshape|expand|contiguous|detach|alias|type_as|half|float)$")
"""Operators that give the same data, as they are or in another format."""
MOVES = re.compile(r"^aten::(to|_to_copy|copy_|cuda)$")
USES = 8
"""Operators after a copy, other copies left out, among which its use is looked for."""
USES_OF_BLOCK = 32
"""The same for what comes together with a weight: the other parameters of a block of layers."""
FARTHEST = 256
"""So many operators are looked at at most, copies included."""


class _Use(NamedTuple):
    """How a step first takes what was copied."""

    stays: bool
    """As something that stays: a table, a weight, a mask."""
    parameter: bool
    """As a parameter of a layer."""


UNUSED = _Use(stays=False, parameter=False)


def constants(tape: Tape, copies: Bool, smaller: Bool | None = None) -> Bool:
    """Which of these copies bring a table, a weight or a mask: data that the program has, not input. And which of them,
    and of `smaller` ones, bring the other parameters of the layers that a weight came for: together, with no kernel
    between."""
    result = np.zeros(len(tape.row), bool)
    if not copies.any():
        return result
    kernels, step = np.cumsum(tape.compute), tape.step_of_op
    begun = kernels > np.maximum.accumulate(np.where(np.diff(step, prepend=-2) != 0, kernels - tape.compute, 0))
    weights = np.zeros(len(tape.row), bool)
    told = Told(tape)
    for i, rows in _operators_after(tape, copies):
        result[i], parameter = _first_use(told, rows, USES, turned=bool(begun[i]))
        weights[i] = result[i] and parameter
    together = np.isin(kernels, kernels[weights]) & ~result & (copies if smaller is None else copies | smaller)
    for i, rows in _operators_after(tape, together):
        result[i] = _first_use(told, rows, USES_OF_BLOCK, turned=True).parameter
    return result


def places_of_movers(tape: Tape, copies: Bool) -> Iterator[tuple[int, int]]:
    """Each of these copies with the place of the operator that moves it among the outermost ones."""
    tree = tape.source.tree
    mover = of_launches(tape, tree.outer_operator)
    rows = np.flatnonzero(copies & (mover >= 0))
    yield from zip(rows.tolist(), np.searchsorted(tree.outermost_operators, mover[rows]).tolist(), strict=True)


def _operators_after(tape: Tape, copies: Bool) -> Iterator[tuple[int, list[int]]]:
    """Each of these copies with the operators (rows of `Trace.host_ranges`) from the one that moves it on."""
    tree = tape.source.tree
    for i, place in places_of_movers(tape, copies):
        yield i, tree.row[tree.outermost_operators[place : place + FARTHEST]].tolist()


def _first_use(of: Told, rows: list[int], uses: int, *, turned: bool) -> _Use:
    """How the first of so many operators that calculate takes what the first of these moves; `turned`: with its
    dimensions in another order, too."""
    name, inputs = of[rows[0]]
    moved, changed = _without_ones(inputs[0]) if inputs else (), False
    if not MOVES.match(name) or not moved:
        return UNUSED
    for row in rows[1:]:
        name, inputs = of[row]
        alike = [_like(one, moved, changed) for one in inputs]
        moves = bool(MOVES.match(name))
        if any(alike):
            turns = turned and bool(TURNS.match(name))
            changed |= alike[0] and turns
            if not (alike[0] and (moves or turns or PASSES_ON.match(name))):
                return _Use(_stays(name, inputs, alike), bool(PARAMETERS.match(name)) and not alike[0])
        uses -= not moves
        if not uses:
            break
    return UNUSED


class Told(dict[int, tuple[str, list[Shape]]]):
    """Name of an operator (a row of `Trace.host_ranges`) and the shapes of its tensors, read once: copies that come
    together look at the same operators."""

    def __init__(self, tape: Tape) -> None:
        super().__init__()
        self.tape = tape

    def __missing__(self, row: int) -> tuple[str, list[Shape]]:
        trace = self.tape.source.trace
        shapes = tensor_shapes(trace.text(int(trace.host_ranges.shapes[row])))
        self[row] = trace.text(int(trace.host_ranges.name[row])) or "", shapes
        return self[row]


def _like(shape: Shape, moved: Shape, changed: bool) -> bool:
    """Whether these are the dimensions that were moved, in another order where that was changed."""
    sizes = _without_ones(shape)
    return sorted(sizes) == sorted(moved) if changed else sizes == moved


def _without_ones(shape: Shape) -> Shape:
    """The sizes of a shape that say something of the data."""
    return tuple(size for size in shape if size != 1)


def _stays(name: str, inputs: list[Shape], alike: list[bool]) -> bool:
    """Whether an operator with these inputs takes the one that is alike as something that stays."""
    moved = inputs[alike.index(True)]
    if TABLE.match(name):
        return alike[0] and len(_without_ones(moved)) > 1
    if PRODUCT.match(name):
        return len(inputs) > 1 and alike[1] and not alike[0] and len(moved) == 2
    if CONVOLUTION.match(name):
        return len(inputs) > 1 and alike[1] and not alike[0]
    if ATTENTION.match(name):
        return alike.index(True) == MASK and _for_all(moved, inputs[0])
    larger = [one for one in inputs if np.prod(one, dtype=np.float64) > np.prod(moved, dtype=np.float64)]
    return bool(SPREAD.match(name)) and bool(larger) and not alike[0]


def _for_all(moved: Shape, other: Shape) -> bool:
    """Whether all items of the other's batch, of which there are several, share what was moved."""
    return len(other) > 0 and other[0] > 1 and (len(moved) < len(other) or moved[0] == 1)
