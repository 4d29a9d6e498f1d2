"""Small networks of one shape that are called one after the other, as one network with batched products.

Layers repeat alike, too, but each needs what the one before it found. An ensemble is told by its shapes: what a member
begins with is not what one ends with, and within a member each operator takes what the one before it gives. And where
each member works on a part of its own number alone, no shapes are needed.
"""

from __future__ import annotations

import math
import re
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from traceanalyzer.analysis.algebra.texts import texts_where
from traceanalyzer.analysis.replay.changes.edits import with_dispatch
from traceanalyzer.analysis.replay.changes.kernels import JOINING
from traceanalyzer.analysis.replay.changes.repetition import FEWEST_CALLS, joined, mostly_small
from traceanalyzer.analysis.replay.changes.sequences import codes, repeats
from traceanalyzer.analysis.replay.on_tape import (
    backward_of,
    events_of,
    forward_operators,
    in_optimizer,
    launched_within,
    of_launches,
)
from traceanalyzer.analysis.roofline.op_models.tensors import tensor_shapes
from traceanalyzer.trace.distinct import distinct

if TYPE_CHECKING:
    from traceanalyzer.analysis.replay.tape import Tape
    from traceanalyzer.analysis.roofline.op_models.tensors import Shape
    from traceanalyzer.trace import I64, Bool

LONGEST_MEMBER = 64
"""Operators of a member at most: longer ones are models of their own."""
MOST_RUNS = 64
"""Ensembles in a step at most: those of an agent are a handful."""
LINEAR = re.compile(r"^aten::linear$")
PRODUCT = re.compile(r"^aten::(mm|matmul)$")
BIASED = re.compile(r"^aten::addmm$")
EACH = re.compile(
    r"^aten::(relu_?|leaky_relu_?|elu_?|gelu|silu_?|mish|tanh_?|sigmoid_?|softplus|hardtanh_?|dropout|layer_norm|square"
    r"|abs|exp_?|clamp_?|detach|contiguous)$"
)
"""Operators that give as many elements as they take, and take one tensor that is no weight."""
PART = re.compile(r"^aten::(select|slice|narrow)$")
INTO = re.compile(r"^aten::copy_$")
"""Writes its second tensor into the first."""
ADDS_TO = re.compile(r"^aten::(add|sub)_$")
"""Adds its second tensor to the first."""
BOTH = re.compile(r"^aten::(add|sub|mul|div)_?$")
"""Gives as many elements as the larger of its tensors has."""


class Members(NamedTuple):
    """Ensembles of the steps of a tape."""

    first: Bool
    """Nodes of the host tree that are operators of the first member of each."""
    others: Bool
    """Those of the others."""
    number: float
    """Members of each, in the mean."""


def ensembles_joined(tape: Tape) -> Tape | None:
    """Each ensemble is one network with batched products, forward and backward; None without any."""
    found = members(tape)
    if found is None:
        return None
    kept, gone = (_with_backward(tape, operators) for operators in (found.first, found.others))
    if not mostly_small(tape, gone):
        return None
    joining = launched_within(tape, texts_where(tape.source.trace.strings, JOINING.match))
    gone |= np.append(False, gone[:-1]) & joining
    return _fewer_tensors(joined(tape, kept & ~gone, gone, found.number), kept | gone, found.number)


def _fewer_tensors(tape: Tape, ensemble: Bool, count: float) -> Tape:
    """The optimizer goes through the weights of one member instead of all, as far as these are the model's."""
    matrix = tape.source.is_matrix[tape.row]
    share = float((matrix & ensemble).sum() / max(matrix.sum(), 1)) * (1.0 - 1.0 / count)
    updating = events_of(tape, in_optimizer(tape))
    left = np.where(updating, 1.0 - share, 1.0)
    return with_dispatch(replace(tape, work=np.rint(tape.work * left).astype(np.int64)), tape.dispatch * left)


def _with_backward(tape: Tape, operators: Bool) -> Bool:
    """The ops of these operators, and those that they give rise to in the backward pass."""
    inside = np.append(operators, False)[tape.source.tree.outer_operator]
    return of_launches(tape, inside) | backward_of(tape, inside)


def members(tape: Tape) -> Members | None:
    """The ensembles of the steps on a tape: at least a handful of members of the same operators and shapes in a row."""
    tree, steps = tape.source.tree, tape.source.steps
    outer = forward_operators(tape)
    ranges, row = tape.source.trace.host_ranges, tree.row[outer]
    code = codes(ranges.name[row], ranges.shapes[row])
    first, others = np.zeros(len(tree.start), bool), np.zeros(len(tree.start), bool)
    counts: list[int] = []
    for step in distinct(steps.of_op[tape.row]).tolist():
        begin, end = steps.host_start[step], steps.host_end[step]
        here = np.flatnonzero((tree.start[outer] >= begin) & (tree.start[outer] < end))
        runs = repeats(code[here], LONGEST_MEMBER, FEWEST_CALLS, partial(_is_member, tape, outer[here]))
        for start, period, count in runs[:MOST_RUNS]:
            first[outer[here[start : start + period]]] = True
            others[outer[here[start + period : start + period * count]]] = True
            counts.append(count)
    return Members(first, others, float(np.mean(counts))) if counts else None


def _is_member(tape: Tape, operators: I64, first: int, stop: int) -> bool:
    """Whether each of these operators, from one on to another, takes what the one before it gives, one at least is a
    product, and the last does not give what the first takes. Parts of other tensors may be taken: to begin with, which
    tells that no member takes what another gives, or to write the result to."""
    tree, trace = tape.source.tree, tape.source.trace
    products, picked, written, given, taken = 0, 0, False, None, None
    source: Shape = ()
    rows = tree.row[operators[first:stop]].tolist()
    for row in rows:
        name = trace.text(int(trace.host_ranges.name[row])) or ""
        shapes = tensor_shapes(trace.text(int(trace.host_ranges.shapes[row])))
        if PART.match(name):
            source = shapes[0] if given is None and shapes else source
            picked += given is not None
            continue
        takes, gives = _takes_and_gives(name, shapes)
        if gives is None or (given is not None and takes != given):
            return False
        into = bool(INTO.match(name) or ADDS_TO.match(name))
        written, picked = written or into, picked - bool(INTO.match(name))
        taken, given = takes if given is None else taken, gives
        products += not (EACH.match(name) or into)
    of_part = taken is not None and _is_part(taken, source)
    apart = taken != given or (of_part and (not written or _part_of_its_own(tape, rows)))
    return products > 0 and picked <= 0 and apart


def _part_of_its_own(tape: Tape, rows: list[int]) -> bool:
    """Whether operators that take parts of tensors all take that of one number: what a loop writes to one part is not
    what it reads from another."""
    ranges, trace = tape.source.trace.host_ranges, tape.source.trace
    parts = [
        trace.text(int(ranges.concrete[row])) for row in rows if PART.match(trace.text(int(ranges.name[row])) or "")
    ]
    return len(set(parts)) == 1 and bool(parts[0])


def _is_part(shape: Shape, source: Shape) -> bool:
    """Whether this may be the shape of a part of a tensor: without one dimension, or less of it."""
    if len(shape) + 1 == len(source):
        return any(source[:i] + source[i + 1 :] == shape for i in range(len(source)))
    return len(shape) == len(source) and sum(a != b for a, b in zip(shape, source, strict=True)) == 1


def given_by(name: str, shapes: list[Shape]) -> Shape | None:
    """The shape of what an operator gives; None where that is not told."""
    if BOTH.match(name) and shapes:
        return max(shapes, key=math.prod)
    return _takes_and_gives(name, shapes)[1]


def _takes_and_gives(name: str, shapes: list[Shape]) -> tuple[Shape | None, Shape | None]:
    """The shapes of what comes from the operator before and of what it gives; None where that is not told."""
    if LINEAR.match(name) and len(shapes) > 1 and len(shapes[1]) == 2:
        return shapes[0], (*shapes[0][:-1], shapes[1][0])
    if PRODUCT.match(name) and len(shapes) > 1 and len(shapes[1]) == 2:
        return shapes[0], (*shapes[0][:-1], shapes[1][1])
    if BIASED.match(name) and len(shapes) > 2 and len(shapes[2]) == 2:
        return shapes[1], (*shapes[1][:-1], shapes[2][1])
    if (INTO.match(name) or ADDS_TO.match(name)) and len(shapes) > 1:
        return shapes[1], shapes[0]
    if EACH.match(name) and shapes:
        return shapes[0], shapes[0]
    return None, None
