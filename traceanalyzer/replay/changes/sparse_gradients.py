"""The gradient of an embedding's table for the rows that were looked up alone: a dense one is filled
with zeros for all rows, and the optimizer goes through all of them."""

import math
import re
from collections import Counter

import numpy as np

from traceanalyzer.analysis.roofline.op_models.tensors import Shape
from traceanalyzer.replay.changes.attention import MATRIX
from traceanalyzer.replay.patterns.named import operators_named
from traceanalyzer.replay.patterns.operators import Operator, operators
from traceanalyzer.replay.tape import Tape, within_optimizer
from traceanalyzer.trace import F64, Bool

LOOKUP = re.compile(r"^aten::(embedding|_embedding_bag)$")
DENSE = re.compile(r"^aten::(embedding|_embedding_bag)_dense_backward$")
FILL = re.compile(r"^aten::(fill_|zero_)$")
LEAST_ROWS_AN_ID = 4
"""Rows that the table has for each id that is looked up, at least: with fewer most rows are touched, or
what sorting the ids takes is as much."""


def touched_rows(tape: Tape) -> dict[Shape, float]:
    """Tables of which few rows are looked up in a step, and of each the share that is, at most; empty
    where no gradient of a table is dense."""
    linked = tape.source.linked
    known = operators(linked)
    steps = tape.source.timed.steps
    if not operators_named(linked, DENSE).any():
        return {}
    called = np.flatnonzero(operators_named(linked, LOOKUP))
    ids = Counter[Shape]()
    for lookup in known.of_nodes(called):
        if len(lookup.shapes) > 1 and len(lookup.first) == MATRIX:
            ids[lookup.first] += math.prod(lookup.shapes[1])
    shares = {table: count / len(steps.duration) / table[0] for table, count in ids.items()}
    return {table: share for table, share in shares.items() if share * LEAST_ROWS_AN_ID <= 1.0}


def with_sparse_gradients(tape: Tape) -> Tape | None:
    """The tape where an optimizer goes through the rows of such tables that were looked up, and none of
    their gradients is filled with zeros; None without any table that an optimizer is seen to update.
    What sorts the ids and adds up their gradients stays."""
    linked = tape.source.linked
    known = operators(linked)
    touched = touched_rows(tape)
    if not touched:
        return None
    operator = tape.of_launches(linked.tree.operator)
    updating = linked.memo(within_optimizer)[tape.nodes][tape.event] & (operator >= 0)
    shares: F64 = np.ones(len(operator))
    shares[updating] = known.tell(operator[updating], lambda one: _share_left(one, touched))
    if not (shares < 1.0).any():
        return None
    return tape.retimed(tape.duration * shares).without_launches(_fills(tape, touched))


def _share_left(operator: Operator, touched: dict[Shape, float]) -> float:
    """What is left of an optimizer's operator that takes tables among its tensors, by their
    elements."""
    taken = operator.listed or operator.shapes[:1]
    elements = sum(map(math.prod, taken))
    left = sum(math.prod(shape) * touched.get(shape, 1.0) for shape in taken)
    return left / elements if elements else 1.0


def _fills(tape: Tape, touched: dict[Shape, float]) -> Bool:
    """Ops that fill a table's gradient with zeros."""
    linked = tape.source.linked
    operator = tape.of_launches(linked.tree.operator)
    filling = operators_named(linked, FILL)[operator] & (operator >= 0) & tape.in_backward
    result = np.zeros(len(operator), bool)
    firsts = operators(linked).tell(operator[filling], lambda one: one.first)
    result[filling] = [shape in touched for shape in firsts]
    return result
