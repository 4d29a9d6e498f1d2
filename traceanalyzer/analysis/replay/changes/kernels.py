"""Kernels that better operators replace: layouts, sizes, batched products, recurrent layers."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from traceanalyzer.analysis.algebra.ordering import where_changed
from traceanalyzer.analysis.algebra.texts import texts_where
from traceanalyzer.analysis.groups import layout, products
from traceanalyzer.analysis.joined.backward import made_by
from traceanalyzer.analysis.replay.changes.edits import retimed, with_dispatch, without_calls, without_launches
from traceanalyzer.analysis.replay.changes.hand_cells import cells_by_hand
from traceanalyzer.analysis.replay.changes.items import first_shape
from traceanalyzer.analysis.replay.on_tape import (
    backward_of,
    events_of,
    in_backward,
    launched_within,
    nodes,
    of_launches,
    of_operators,
    usual_dispatch_ns,
)
from traceanalyzer.analysis.roofline.op_models.tensors import parse_values
from traceanalyzer.figures import NS_PER_S
from traceanalyzer.trace import RangeKind
from traceanalyzer.trace.distinct import distinct

if TYPE_CHECKING:
    from traceanalyzer.analysis.groups.ops import Group
    from traceanalyzer.analysis.replay.tape import Tape
    from traceanalyzer.analysis.time.timed import Timed
    from traceanalyzer.trace import I32, I64, Bool

CHANNELS_APART = re.compile(r"batch_norm_(backward|collect_statistics|transform_input)\w*_kernel")
"""PyTorch's batch norm: with channels apart it has a block a channel."""
LAST = "channels_last"
LINE, PLANE, SPACE = 1, 2, 3
"""Dimensions that a convolution goes along. PyTorch has channels-last for planes and space only."""
NORM_EFFICIENCY = 0.4
"""Share of the memory's bandwidth that its kernels for channels-last tensors reach (0.13 to 0.62, 0.37 of all on an
H200)."""
CELL = re.compile(
    r"^aten::(lstm_cell|gru_cell|rnn_tanh_cell|rnn_relu_cell|_thnn_fused_lstm_cell|_thnn_fused_gru_cell)$"
)
"""One time step of a recurrent layer."""
LAYER = re.compile(r"^aten::(lstm|gru|rnn_tanh|rnn_relu)$")
"""A recurrent layer on a sequence, which may have one time step only."""
NUMBER_OF_LAYERS, BIDIRECTIONAL = 4, 7
"""Places of these among its operands."""
YES = "True"
JOINING = re.compile(r"^aten::(stack|cat|concat)$")
"""Operators that make one tensor of several."""
SPLIT = re.compile(r"splitK", re.IGNORECASE)
"""Kernels that add up the parts of a product that was calculated in parts."""
FEWEST_CELLS = 4
"""A layer of fewer time steps is not worth a library's."""
SEQUENCES = 3
"""Dimensions of a batch of sequences."""
CELL_LAUNCH_NS = 12_000
"""What a library takes to launch a time step of a layer: three kernels, 4 us each (cuDNN's LSTM and GRU, forward
and backward, recorded on an H100 and an H200, without the profiler's share)."""
CELL_SHARE = 0.5
"""Of the time of a cell's kernels that is left in cuDNN's layer: its input products are one, its pointwise part is
fused."""


def _all(tape: Tape) -> Bool:
    return np.ones(len(tape.source.trace.device_ops), bool)


def channels_last(tape: Tape) -> Tape | None:
    """Convolutions without the kernels that change the layout around them, and norms over channels that lie next to
    each other; None without the former."""
    changing = changes_layout(tape) & (dimensions(tape) != LINE)
    if not changing.any():
        return None
    rated, row = tape.source, tape.row
    apart = texts_where(rated.trace.strings, lambda text: bool(CHANNELS_APART.search(text)) and LAST not in text)
    moved = rated.roofline.expected[row] / (rated.limit("bandwidth")[row] * NORM_EFFICIENCY) * NS_PER_S
    faster = apart[rated.trace.device_ops.name[row]] & (moved < tape.duration)
    return without_calls(retimed(tape, np.where(faster, moved, tape.duration)), changing)


def changes_layout(tape: Tape) -> Bool:
    """Ops that change the layout around a library's convolutions."""
    result: Bool = tape.source.once(_channel_kernels)[tape.row]
    return result


def _channel_kernels(timed: Timed) -> Bool:
    every = np.ones(len(timed.trace.device_ops), bool)
    found = layout.channel_kernels(timed, every)
    return ~every if found is None else found.rows


def dimensions(tape: Tape) -> I64:
    """For each op how many dimensions of space the operator that launches it works on, by its first operand; -1 where
    that was not recorded."""
    operator = of_launches(tape, tape.source.tree.operator)
    code = of_operators(tape, operator, tape.source.trace.host_ranges.shapes)
    known, index = np.unique(code, return_inverse=True)
    result: I64 = np.array([_dimensions(first_shape(tape, one)) for one in known.tolist()], np.int64)[index]
    return result


def _dimensions(shape: tuple[int, ...]) -> int:
    """A line comes as one row of a plane to cuDNN."""
    flat = len(shape) == PLANE + 2 and shape[2] == 1
    return LINE if flat else max(len(shape) - 2, -1)


def padded(tape: Tape) -> Tape | None:
    """Products of odd sizes as fast as aligned ones, and no mostly empty last wave; None without either."""
    waves = products.last_waves(tape.source, _all(tape))
    return _without_losses(tape, [*_odd(tape), *([(waves.kernels, waves.lost_ms)] if waves is not None else [])])


def odd_padded(tape: Tape) -> Tape | None:
    """Products of odd sizes as fast as aligned ones; None without any."""
    return _without_losses(tape, _odd(tape))


def _odd(tape: Tape) -> list[tuple[Group, float]]:
    """Products of odd sizes, and what they lose a step, ms."""
    odd = products.odd_products(tape.source, _all(tape))
    return [] if odd is None else [(odd.kernels, odd.saved_ms)]


def _without_losses(tape: Tape, groups: list[tuple[Group, float]]) -> Tape | None:
    duration = tape.duration.astype(np.float64)
    for kernels, saved_ms in groups:
        left = max(1.0 - saved_ms / kernels.total_ms, 0.0)
        duration = np.where(kernels.rows[tape.row], duration * left, duration)
    return retimed(tape, duration) if groups else None


def products_batched(tape: Tape) -> Tape | None:
    """Runs of small products of one shape as one batched product each, whose operands nobody takes apart and whose
    results nobody puts together, and what they give rise to in the backward pass; None without any."""
    found = products.small_products(tape.source, _all(tape))
    if found is None:
        return None
    every = found.kernels.rows[tape.row]
    back = _backward_of(tape, every)
    rows = every & ~back
    first = rows & _every(rows, max(round(found.in_a_row), 1))
    kept = first | (back & _backward_of(tape, first))
    times = np.where(kept, tape.duration * found.in_a_row * found.batched_ms / found.kernels.total_ms, tape.duration)
    joining = _follows(rows, launched_within(tape, texts_where(tape.source.trace.strings, JOINING.match)))
    splitting = _between_products(tape, rows)
    gone = (rows | joining | splitting | back) & ~kept
    left = without_launches(retimed(tape, times), gone)
    left = replace(left, work=np.where(events_of(tape, back & gone) & ~events_of(tape, ~gone), 0, left.work))
    usual = int(usual_dispatch_ns(tape, rows))
    dispatch = np.where(events_of(tape, first), np.minimum(left.dispatch, usual), left.dispatch)
    ends_step = bool((rows | joining)[-1:].any())
    tail = left.tail._replace(dispatch=min(left.tail.dispatch, usual)) if ends_step else left.tail
    return with_dispatch(replace(left, tail=tail), dispatch)


def _backward_of(tape: Tape, ops: Bool) -> Bool:
    """The ops that the operators of these give rise to in the backward pass."""
    outer = tape.source.tree.outer_operator
    operators = np.zeros(len(outer) + 1, bool)
    operators[of_launches(tape, outer)[ops & ~in_backward(tape)]] = True
    operators[-1] = False
    return backward_of(tape, operators[outer])


def _follows(rows: Bool, others: Bool) -> Bool:
    """Which of the others come right after one of these ops."""
    result: Bool = others & ~rows & np.append(False, rows[:-1])
    return result


def _between_products(tape: Tape, rows: Bool) -> Bool:
    """Ops that finish one product and come before the next: sums over the parts of a split one."""
    part_of = texts_where(tape.source.trace.strings, SPLIT.search)[tape.source.trace.device_ops.name[tape.row]]
    return _follows(rows, part_of)


def _every(rows: Bool, count: int) -> Bool:
    """One of so many of these ops, from the first on."""
    number = np.cumsum(rows) - 1
    result: Bool = rows & (number % count == 0)
    return result


def recurrent_fused(tape: Tape) -> Tape | None:
    """Cells of a recurrent layer, called one time step after the other, and what they give rise to in the backward
    pass, as a library's layer: one launch a time step, without dispatch; None where there are only a few."""
    cell, backward = _cells(tape)
    forward = cell[tape.event] >= 0
    cells = len(distinct(cell[tape.event[forward]]))
    if cells < FEWEST_CELLS * tape.steps:
        return None
    again = backward[tape.event] & ~forward
    first = forward & where_changed(cell[tape.event])
    kept = first | (again & _every(again, max(int(again.sum()) // cells, 1)))
    ops = forward | again
    each = float(tape.duration[ops].sum()) * CELL_SHARE / int(kept.sum())
    left = without_launches(retimed(tape, np.where(kept, each, tape.duration)), ops & ~kept)
    dispatch = np.where(events_of(tape, kept), CELL_LAUNCH_NS * _layers(tape, cell), left.dispatch)
    called = events_of(tape, ops) & ~events_of(tape, first)
    return with_dispatch(replace(left, work=np.where(called, 0, left.work)), dispatch)


def _layers(tape: Tape, cell: I32) -> float:
    """How many layers, one after the other or in the other direction, each of these calls (nodes of the host tree, -1:
    none) has: what a library launches one by one."""
    tree, trace = tape.source.tree, tape.source.trace
    concrete = trace.host_ranges.concrete[tree.row[distinct(cell[cell >= 0])]]
    kinds, count = np.unique(concrete, return_counts=True)
    return float(np.average([_layers_said(parse_values(trace.text(one))) for one in kinds.tolist()], weights=count))


def _layers_said(values: tuple[str, ...]) -> int:
    if len(values) <= BIDIRECTIONAL or not values[NUMBER_OF_LAYERS].isdigit():
        return 1
    return max(int(values[NUMBER_OF_LAYERS]), 1) * (1 + (values[BIDIRECTIONAL] == YES))


def _cells(tape: Tape) -> tuple[I32, Bool]:
    """For each event the outermost node of the host tree that is a recurrent cell around it, else the cell written out
    that it belongs to, -1 without; and which events belong to the backward pass of such cells."""
    source = tape.source
    tree, trace = source.tree, source.trace
    cells = tree.named(texts_where(trace.strings, CELL.match))
    layers = tree.named(texts_where(trace.strings, LAYER.match))
    cells |= layers & _of_one_time_step(tape, layers)
    outer, node = tree.outermost(cells & (tree.kind == RangeKind.OP)), nodes(tape)
    if not (outer >= 0).any():
        outer = cells_by_hand(tape)
    return outer[node], made_by(source, outer >= 0)[node]


def _of_one_time_step(tape: Tape, layers: Bool) -> Bool:
    """Which of these calls of recurrent layers, nodes of the host tree, get a single time step."""
    tree, ranges, trace = tape.source.tree, tape.source.trace.host_ranges, tape.source.trace
    result = np.zeros(len(layers), bool)
    row = tree.row[layers]
    kinds, kind = np.unique(np.stack((ranges.shapes[row], ranges.concrete[row])), axis=1, return_inverse=True)
    one = [_time_steps(first_shape(tape, shapes), trace.text(concrete)) == 1 for shapes, concrete in kinds.T.tolist()]
    result[layers] = np.array(one, bool)[kind.reshape(-1)]
    return result


def _time_steps(shape: tuple[int, ...], concrete: str | None) -> int:
    """Time steps of what a recurrent layer gets: its second dimension where the last of the operator's values says that
    batches come first, else its first one; 0 where that was not recorded."""
    values = parse_values(concrete)
    if len(shape) != SEQUENCES or not values:
        return 0
    return shape[1 if values[-1] == YES else 0]
