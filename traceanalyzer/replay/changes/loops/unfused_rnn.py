"""Recurrent layers that are called, or written out, one time step after the other, as a library's
layer.

A cell that is written out is known by its parts: an LSTM has sigmoids, two hyperbolic tangents and
three products of gates, a GRU sigmoids, one and three, a plain one a product each of what comes in
and of what it kept; nothing else may be in the loop. Its input has to be there before, a part of a
sequence for each time step: a decoder that goes on from its own output cannot be one call."""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from traceanalyzer.analysis.algebra import where_changed
from traceanalyzer.analysis.joined.backward import made_by
from traceanalyzer.analysis.roofline.op_models.tensors import Shape, Tensor
from traceanalyzer.base import regex
from traceanalyzer.replay.changes.loops.cell_kernels import cell_kernels
from traceanalyzer.replay.changes.loops.cell_outputs import (
    FEWEST_TIME_STEPS,
    LONGEST_CELL_OPERATORS,
    outputs_joined,
    takes_parts,
    with_smaller_graph,
)
from traceanalyzer.replay.changes.optimizer import by_lists, updating
from traceanalyzer.replay.patterns.named import operators_named
from traceanalyzer.replay.patterns.operators import JOIN, Operator, count, operators
from traceanalyzer.replay.patterns.repeats import Loop, codes, every, launching, split_where
from traceanalyzer.replay.tape import Tape
from traceanalyzer.trace import I32, I64, Bool, CopyKind, distinct

# Loops over weights or gradients: the same few elementwise operators on one tensor after the other,
# as lists. What such a loop does to one tensor cannot need what it did to another of another size,
# so sizes tell it from a chain of operators on the same data: in a loop each operator has tensors
# of one size, and the next tensor's is another.
FEWEST_OPERATORS = 24
"""Operators of a loop at least: fewer launches are not worth another way to write it."""
FEWEST_SIZE_CHANGES = 8
"""Times that the next tensor must have another size than the one before: fewer may be a chain that
reduces."""
LONGEST_BODY_OPERATORS = 24
"""Operators on one tensor at most: a LAMB that is written out has 17."""
ALIKE_SHARE = 0.9
"""Share of the operators that are the same as so many before: weights without a decay, say, may
have one fewer."""
ELEMENTWISE = regex(
    r"^aten::(_foreach_\w+|mul_?|add_?|sub_?|div_?|copy_|clone|to|lerp_?|addcmul_?|addcdiv_?|r?sqrt_?|neg_?|abs_?|sign_?"
    r"|pow_?|square_?|exp_?|clamp_?|clamp_m(in|ax)_?|reciprocal_?|maximum|minimum|zero_|norm|linalg_norm|linalg_vector_norm"
    r"|sum|isfinite|isnan|isinf|all|any)$"
)
"""Operators that PyTorch also has for lists of tensors, or that a norm of each says as much as."""


class Loops(NamedTuple):
    """Loops over tensors on a tape."""

    number: I64  # for each op the loop that launches it, -1 without
    names: tuple[str, ...]  # what their operators are called, in order


CELL = regex(
    r"^aten::((_thnn_fused_)?(lstm|gru)_cell|rnn_(tanh|relu)_cell)$"
)  # one time step of a recurrent layer
LAYER = regex(r"^aten::(lstm|gru|rnn_tanh|rnn_relu)$")
"""A recurrent layer on a sequence, which may have one time step only."""
NUMBER_OF_LAYERS = 4  # places of these among its operands
BIDIRECTIONAL = 7
YES = "True"
FEWEST_CELLS = 4  # a layer of fewer time steps is not worth a library's
SEQUENCES = 3  # dimensions of a batch of sequences
CELL_LAUNCH_NS = 12_000
"""What a library takes to launch a time step of a layer: three kernels, 4 us each (cuDNN's LSTM and
GRU, forward and backward, recorded on an H100 and an H200, without the profiler's share)."""
CELL_SHARE = 0.5
"""What is left in cuDNN's layer of the time of a cell's kernels: its input products are one, its
pointwise part is fused."""
PRODUCT = regex(r"^aten::(linear|mm|addmm|matmul)$")
SIGMOID = regex(r"^aten::sigmoid_?$")
TANH = regex(r"^aten::tanh_?$")
GATED = {"aten::mul": 1, "aten::mul_": 1, "aten::addcmul": 1, "aten::addcmul_": 1, "aten::lerp": 2}
"""How many products with a gate an operator has."""
FEWEST_GATED = 3
OTHERS = regex(r"^aten::(add_?|sub_?|rsub|cat|concat|copy_|clone|contiguous|dropout|neg)$")


def tensors_listed(tape: Tape) -> Tape | None:
    """Each operator of such a loop takes a few dozen tensors in one launch; None without one
    outside the optimizer."""
    found = tape.memo(tensor_loops)
    return None if found is None else by_lists(tape, found.number)


def tensor_loops(tape: Tape) -> Loops | None:
    """Loops over tensors outside the optimizer; None without any."""
    calls = tape.memo(launching)
    known = operators(tape.source.linked)
    sizes = known.tell(calls.node, _size)
    usable = np.array([size is not None for size in sizes], bool) & ~calls.backward
    # Only kernels and copies within the device, outside an optimizer's step.
    away = (
        tape.copies_of(CopyKind.HOST_TO_DEVICE)
        | tape.copies_of(CopyKind.DEVICE_TO_HOST)
        | updating(tape)
    )
    usable &= ~np.logical_or.reduceat(away, calls.first)
    number = np.full(len(sizes), -1, np.int64)
    names = set[str]()
    changes = where_changed(np.where(usable, calls.step, -1))
    for run in split_where(np.arange(len(sizes)), changes[1:]):
        own_sizes = sizes[run[0] : run[-1] + 1]
        if usable[run[0]] and _is_loop(calls.name[run], own_sizes):
            number[run] = number.max() + 1
            names |= {one.name for one in known.of_nodes(calls.node[run])}
    return Loops(calls.of_ops(number, len(tape.row)), tuple(sorted(names))) if names else None


def _size(operator: Operator) -> Shape | None:
    """The one size of the tensors that an operator for lists works on, () for a number; None for
    other operators."""
    if (
        not operator.inputs
        or any(len(listed) != 1 for listed in operator.lists)
        or not operator.named(ELEMENTWISE)
    ):
        return None
    sizes = {
        shape
        for shape in (*operator.shapes, *(listed[0] for listed in operator.lists))
        if math.prod(shape) > 1
    }
    return None if len(sizes) > 1 else next(iter(sizes), ())


def _is_loop(names: I32, sizes: list[Shape | None]) -> bool:
    """Whether the same few operators come again and again, and sizes change often."""
    if len(names) < FEWEST_OPERATORS:
        return False
    changes = sum(a != b for a, b in pairwise([size for size in sizes if size]))
    alike = max(
        float((names[body:] == names[:-body]).mean())
        for body in range(1, LONGEST_BODY_OPERATORS + 1)
    )
    return changes >= FEWEST_SIZE_CHANGES and alike >= ALIKE_SHARE


def is_cell(turn: Sequence[Operator]) -> bool:
    """Whether these operators are a cell's."""
    products, sigmoids, tanhs, others, joins = (
        count(turn, one) for one in (PRODUCT, SIGMOID, TANH, OTHERS, JOIN)
    )
    gates = [GATED[one.name] for one in turn if one.name in GATED]
    if products + sigmoids + tanhs + others + len(gates) < len(turn):
        return False
    if not sigmoids and not gates:
        return tanhs == 1 and (products > 1 or joins > 0)
    return min(products, sigmoids, tanhs) > 0 and sum(gates) >= FEWEST_GATED


def recurrent_fused(tape: Tape) -> Tape | None:
    """Cells of a recurrent layer, called one time step after the other, and what they give rise to
    in the backward pass, as a library's layer: one launch a time step, without dispatch; None where
    there are only a few."""
    if tape.source.linked.tree.has_operators:
        cell, backward = _cells(tape)
        layers = operators(tape.source.linked).tell(distinct(cell[cell >= 0]), _layers_of)
        of_op = cell[tape.event]
        layer = _as_layer(tape, of_op, backward[tape.event], layers)
        if layer is None:
            return None
        return with_smaller_graph(tape, outputs_joined(tape, layer, of_op >= 0))
    by_kernel = cell_kernels(tape)
    return _as_layer(tape, by_kernel.cell, by_kernel.backward, [1])


def _as_layer(tape: Tape, of_op: I32, backward: Bool, layers: Sequence[int]) -> Tape | None:
    """The cells of these ops (a number each, -1: none) and the ops of their backward pass as a
    library's layer; `layers`: how many each call has."""
    forward = of_op >= 0
    cells = len(distinct(of_op[of_op >= 0]))
    if cells < FEWEST_CELLS * tape.steps:
        return None
    again = backward & ~forward
    first = forward & where_changed(of_op)
    kept = first | (again & every(again, max(int(again.sum()) // cells, 1)))
    ops = forward | again
    each = float(tape.duration[ops].sum()) * CELL_SHARE / int(kept.sum())
    left = tape.retimed(np.where(kept, each, tape.duration)).without_launches(ops & ~kept)
    launch_ns = CELL_LAUNCH_NS * float(np.mean(layers))
    dispatch = np.where(tape.events_of(kept), launch_ns, left.dispatch)
    return left.without_work(tape.events_of(ops) & ~tape.events_of(first)).with_dispatch(dispatch)


def _layers_of(call: Operator) -> int:
    """Layers of a call, one after the other or in the other direction: what a library launches one
    by one. Where its values were not recorded, its state says it, which has a part for each."""
    state = _state(call)
    if not call.values and len(state) == SEQUENCES:
        return max(state[0], 1)
    if len(call.values) <= BIDIRECTIONAL or not call.values[NUMBER_OF_LAYERS].isdecimal():
        return 1
    layers = max(int(call.values[NUMBER_OF_LAYERS]), 1)
    return 2 * layers if call.values[BIDIRECTIONAL] == YES else layers


def _cells(tape: Tape) -> tuple[I32, Bool]:
    """For each event the outermost node of the host tree that is a recurrent cell around it, else
    the cell written out that it belongs to, -1 without; and which events belong to the backward
    pass of such cells."""
    linked = tape.source.linked
    node = tape.nodes
    layers = np.flatnonzero(operators_named(linked, LAYER))
    cells = operators_named(linked, CELL)
    cells[layers] |= np.array(operators(linked).tell(layers, _is_one_time_step), bool)
    outer = linked.tree.outermost(cells)
    outer = outer if (outer >= 0).any() else unfused_cells(tape)
    return outer[node], made_by(linked, outer >= 0)[node]


def _is_one_time_step(layer: Operator) -> bool:
    """Whether a recurrent layer gets one time step: the second dimension of its input where the
    last of the operator's values says that batches come first, else the first one. Where values
    were not recorded, whether the input has no more rows than the state has."""
    if len(layer.first) != SEQUENCES:
        return False
    if layer.values:
        return layer.first[layer.values[-1] == YES] == 1
    state = _state(layer)
    return len(state) == SEQUENCES and layer.first[0] * layer.first[1] == state[1]


def _state(layer: Operator) -> Shape:
    """The shape of the state that a layer goes on from (layers, rows, width), the first where it has
    several, which are a list or follow each other; () where that was not recorded."""
    if len(layer.inputs) < 2:
        return ()
    state = layer.inputs[1]
    first = state[0] if isinstance(state, tuple) and state else state
    return first.shape if isinstance(first, Tensor) else ()


def unfused_cells(tape: Tape) -> I32:
    """For each node of the host tree the cell that it is part of, by the number of a node, -1:
    none. What does not launch anything, as taking parts of tensors, belongs to the cell after
    it."""
    tree = tape.source.linked.tree
    calls = tape.memo(launching)
    outer = tape.forward_operators
    rows = calls.forward
    of_outer = np.full(len(tree.start) + 1, -1, np.int32)
    node = calls.node[rows]
    written_out = Loop(fewest=FEWEST_TIME_STEPS, longest=LONGEST_CELL_OPERATORS, is_turn=is_cell)
    for run in written_out.find(
        tape, node, codes(calls.name[rows], calls.shapes[rows], calls.step[rows])
    ):
        ends = node[run.first + run.period - 1 : run.stop : run.period]
        inside = outer[(outer >= node[run.first]) & (outer <= ends[-1])]
        if takes_parts(tape, inside, run.times):
            of_outer[inside] = ends[np.searchsorted(ends, inside)]
    return of_outer[tree.outer_operator]
