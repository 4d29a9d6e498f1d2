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
SPREAD = re.compile(r"^aten::(add_?|sub_?|mul_?|where|masked_fill_?)$")
"""Operators that spread a smaller operand over a larger one: positions, masks, scales."""
MOVES = re.compile(r"^aten::(to|_to_copy|copy_|cuda)$")
USES = 8
"""Operators after a copy among which its use is looked for."""


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
    moved = shapes[0][0]
    for name, inputs in zip(names[1:], shapes[1:], strict=True):
        if moved in inputs:
            return _stays(name, inputs, moved)
    return False


def _stays(name: str, inputs: list[tuple[int, ...]], moved: tuple[int, ...]) -> bool:
    if TABLE.match(name):
        return inputs[0] == moved and len(moved) > 1
    if PRODUCT.match(name):
        return len(inputs) > 1 and inputs[1] == moved and inputs[0] != moved and len(moved) == 2
    larger = [one for one in inputs if np.prod(one, dtype=np.float64) > np.prod(moved, dtype=np.float64)]
    return bool(SPREAD.match(name)) and bool(larger) and inputs[0] != moved


def _shapes(tape: Tape, row: int) -> list[tuple[int, ...]]:
    """The shapes of an operator's tensors."""
    ranges = tape.source.trace.host_ranges
    inputs = parse_inputs(tape.source.trace.text(int(ranges.shapes[row])) or "", None, None)
    return [one.shape for one in inputs or () if isinstance(one, Tensor)]
