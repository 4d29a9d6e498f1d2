"""The gradient of an embedding's table for the rows that were looked up alone: a dense one is filled
with zeros for all rows, and the optimizer goes through all of them."""

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from traceanalyzer.analysis.names.pytorch import AUTOGRAD_PREFIX
from traceanalyzer.analysis.roofline.op_models.tensors import Shape
from traceanalyzer.base import regex
from traceanalyzer.replay.changes.attention import MATRIX
from traceanalyzer.replay.changes.compiling import ATOMIC_BYTES
from traceanalyzer.replay.changes.fusion import Reading
from traceanalyzer.replay.changes.gradients.unread_gradients import GRADIENT, shapes_of
from traceanalyzer.replay.changes.unsorted_gradients import added_as_they_come
from traceanalyzer.replay.patterns.named import operators_named
from traceanalyzer.replay.patterns.operators import Operator, operators
from traceanalyzer.replay.tape import Tape, within_optimizer
from traceanalyzer.trace import F64, RangeKind

LOOKUP = regex(r"^aten::(embedding|_embedding_bag)$")
DENSE = regex(r"^aten::(embedding|_embedding_bag)_dense_backward$")
FILL = regex(r"^aten::(fill_|zero_)$")
EVALUATES = regex(rf"^{AUTOGRAD_PREFIX}")
ADDS = regex(r"^aten::add_?$")
OF_LOOKUP = regex(rf"^{AUTOGRAD_PREFIX} Embedding(Bag)?Backward")
LEAST_ROWS_AN_ID = 4
"""Rows that the table has for each id that is looked up, at least: with fewer most rows are touched, or
what sorting the ids takes is as much."""
PLAIN = regex(r"^aten::(_foreach_)?add_$")
"""What plain SGD updates by: rows of sparse gradients are added as they come, without sorting."""
LEAST_ROWS_UNSORTED = 2
"""The same of plain SGD. A number that is added takes as long as moving 32 bytes (`ATOMIC_BYTES`), what
the dense gradient takes for each number of the table is four passes of 4: to fill it with zeros, to
read both, to write one."""


class Touched(NamedTuple):
    """What is left to do for the tables of one shape, as shares."""

    rows: float
    """Of their rows that an optimizer goes through."""
    filled: float
    """Of their gradients that are filled with zeros: those that stay dense."""
    unsorted: frozenset[int] = frozenset()
    """Of gradients whose rows are added to the table as they come, how many numbers each has."""


ALL = Touched(1.0, 1.0)  # of other tensors


def touched_rows(tape: Tape) -> dict[Shape, Touched]:
    """Tables of which few rows are looked up in a step, by their shape; empty where no gradient of a
    table is dense. Of as many tables as lookups each has one lookup; else each has as much of all as
    the others."""
    linked = tape.source.linked
    if not operators_named(linked, DENSE).any():
        return {}
    steps = len(tape.source.timed.steps.duration)
    updated = _updated_tables(tape)
    added = _only_added_to(tape)
    intermediate = _tables_made(tape)
    joined = _gradients_joined(tape)
    result = {}
    for table, ids in _ids_of_lookups(tape).items():
        tables = max(updated[table], 1)
        is_read_elsewhere = joined[table] > max(len(ids) - tables * steps, 0)
        if table in intermediate or is_read_elsewhere:
            continue
        each_alone = tables == len(ids) / steps
        of_tables = ids if each_alone else [sum(ids) / steps / tables]
        touched = _touched(table, of_tables, ids, is_plain=table in added)
        if touched is not None:
            result[table] = touched
    return result


def _touched(
    table: Shape, of_tables: Sequence[float], ids: Sequence[int], *, is_plain: bool
) -> Touched | None:
    """What is left to do for tables of one shape, of which so many ids each are looked up; None
    where that is all. `ids`: of each lookup."""
    shares = np.array(of_tables) / table[0]
    is_sparse = shares * (LEAST_ROWS_UNSORTED if is_plain else LEAST_ROWS_AN_ID) <= 1.0
    if not is_sparse.any():
        return None
    filled = float((~is_sparse).mean())
    if not is_plain:
        return Touched(float(np.where(is_sparse, shares, 1.0).mean()), filled)
    of_sparse = ids if is_sparse.all() else np.array(ids)[is_sparse].tolist()
    return Touched(filled, filled, frozenset(table[1] * one for one in of_sparse))


def _ids_of_lookups(tape: Tape) -> dict[Shape, list[int]]:
    """For each shape of a table how many ids each lookup of all steps has."""
    linked = tape.source.linked
    called = np.flatnonzero(operators_named(linked, LOOKUP))
    ids = defaultdict[Shape, list[int]](list)
    for lookup in operators(linked).of_nodes(called):
        if len(lookup.shapes) > 1 and len(lookup.first) == MATRIX:
            ids[lookup.first].append(math.prod(lookup.shapes[1]))
    return ids


def _tables_made(tape: Tape) -> set[Shape]:
    """Shapes of tables that the program makes of its parameters before it looks them up: gradients of
    parameters are accumulated right after what gives them, and no such one after a lookup's."""
    linked = tape.source.linked
    evaluated = np.flatnonzero(operators_named(linked, EVALUATES))
    if not len(evaluated):
        return set()
    evaluated = evaluated[np.argsort(linked.tree.start[evaluated], kind="stable")]
    accumulated = np.flatnonzero(operators_named(linked, GRADIENT))
    start = linked.tree.start
    last = np.searchsorted(start[evaluated], start[accumulated], side="right") - 1
    gave_it = evaluated[np.maximum(last - 1, 0)]  # the last one is its own
    of_lookup = operators_named(linked, OF_LOOKUP)[gave_it]
    shapes = shapes_of(tape, accumulated)
    looked_up = {shape for shape, is_so in zip(shapes, of_lookup, strict=True) if is_so}
    return set(shapes) - looked_up


def _gradients_joined(tape: Tape) -> Counter[Shape]:
    """How often two gradients of one tensor are added, by its shape. Gradients of a table are one fewer
    than its lookups, else it is read by something else (the output layer of a language model), whose
    gradient is dense."""
    linked = tape.source.linked
    tree = linked.tree
    in_backward = tree.innermost(operators_named(linked, EVALUATES)) >= 0
    accumulates = tree.innermost(operators_named(linked, GRADIENT)) >= 0
    adds = np.flatnonzero(operators_named(linked, ADDS) & in_backward & ~accumulates)
    shapes = (tuple(one.shapes[:2]) for one in operators(linked).of_nodes(adds))
    return Counter(both[0] for both in shapes if len(both) > 1 and both[0] == both[1])


def _updated_tables(tape: Tape) -> Counter[Shape]:
    """How many tensors of each shape the largest list of an optimizer's operators has."""
    linked = tape.source.linked
    are_operators = linked.tree.kind == RangeKind.OP
    nodes = np.flatnonzero(linked.memo(within_optimizer) & are_operators)
    lists = (Counter(one.listed) for one in operators(linked).of_nodes(nodes))
    most = Counter[Shape]()
    for listed in lists:
        most |= listed
    return most


def _only_added_to(tape: Tape) -> set[Shape]:
    """Tables that optimizers do nothing with but add to them."""
    linked = tape.source.linked
    nodes = np.flatnonzero(linked.memo(within_optimizer) & (linked.tree.kind == RangeKind.OP))
    taking = operators(linked).of_nodes(nodes)
    known = [(one.named(PLAIN), one.listed or one.shapes[:1]) for one in taking]
    added = {shape for is_plain, shapes in known for shape in shapes if is_plain}
    return added - {shape for is_plain, shapes in known for shape in shapes if not is_plain}


def with_sparse_gradients(tape: Tape) -> Tape | None:
    """The tape where an optimizer goes through the rows of such tables that were looked up, and none of
    their gradients is filled with zeros; None without any table that an optimizer is seen to update.
    What sorts the ids and adds up their gradients stays, but for plain SGD, which adds them to the
    table as they come."""
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
    filled = _filled(tape, touched)
    unsorted = frozenset[int]().union(*(one.unsorted for one in touched.values()))
    left = added_as_they_come(tape, ATOMIC_BYTES[Reading.TYPICAL], unsorted)
    return left.retimed(left.duration * shares * filled).without_launches(filled == 0.0)


def _share_left(operator: Operator, touched: dict[Shape, Touched]) -> float:
    """What is left of an optimizer's operator that takes tables among its tensors, by their
    elements."""
    taken = operator.listed or operator.shapes[:1]
    elements = sum(map(math.prod, taken))
    left = sum(math.prod(shape) * touched.get(shape, ALL).rows for shape in taken)
    return left / elements if elements else 1.0


def _filled(tape: Tape, touched: dict[Shape, Touched]) -> F64:
    """For each op that fills a table's gradient with zeros the share of such gradients that are; 1 for
    others."""
    linked = tape.source.linked
    operator = tape.of_launches(linked.tree.operator)
    filling = operators_named(linked, FILL)[operator] & (operator >= 0) & tape.in_backward
    result: F64 = np.ones(len(operator))
    firsts = operators(linked).tell(operator[filling], lambda one: one.first)
    result[filling] = [touched.get(shape, ALL).filled for shape in firsts]
    return result
