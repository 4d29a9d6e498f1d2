"""Copies that bring the same data in every step: tables, weights and masks, told by how the step uses them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from traceanalyzer.analysis.replay.changes.edits import nodes
from traceanalyzer.analysis.roofline.op_models.tensors import Tensor, parse_inputs

if TYPE_CHECKING:
    from traceanalyzer.analysis.replay.tape import Tape
    from traceanalyzer.trace import I64, Bool

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
PASSES_ON = re.compile(r"^aten::(unsqueeze|squeeze|view|reshape|expand|contiguous|detach|alias|type_as|half|float)$")
"""Operators that give the same data, as they are or in another format."""
MOVES = re.compile(r"^aten::(to|_to_copy|copy_|cuda)$")
USES = 8
"""Operators after a copy among which its use is looked for."""


Shape = tuple[int, ...]


def constants(tape: Tape, copies: Bool) -> Bool:
    """Which of these copies bring a table, a weight or a mask: data that the program has, not input."""
    result = np.zeros(len(tape.row), bool)
    if not copies.any():
        return result
    tree = tape.source.tree
    operator = tree.outer_operator
    outer = np.flatnonzero(operator == np.arange(len(operator)))
    mine = operator[nodes(tape)][tape.event]
    for i in np.flatnonzero(copies & (mine >= 0)).tolist():
        position = int(np.searchsorted(outer, mine[i]))
        result[i] = _is_constant(tape, outer[position : position + 1 + USES])
    return result


def _is_constant(tape: Tape, operators: I64) -> bool:
    """Whether what the first of these operators moves is used by the next one that takes it as something that stays."""
    trace, row = tape.source.trace, tape.source.tree.row[operators].tolist()
    names = [trace.text(int(trace.host_ranges.name[one])) or "" for one in row]
    shapes = [_shapes(tape, one) for one in row]
    if not MOVES.match(names[0]) or not shapes[0]:
        return False
    moved = _without_ones(shapes[0][0])
    for name, inputs in zip(names[1:], shapes[1:], strict=True):
        alike = [_without_ones(one) == moved for one in inputs]
        if any(alike) and not (alike[0] and (MOVES.match(name) or PASSES_ON.match(name))):
            return _stays(name, inputs, alike)
    return False


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


def _shapes(tape: Tape, row: int) -> list[Shape]:
    """The shapes of an operator's tensors."""
    ranges = tape.source.trace.host_ranges
    inputs = parse_inputs(tape.source.trace.text(int(ranges.shapes[row])) or "", None, None)
    return [one.shape for one in inputs or () if isinstance(one, Tensor)]
