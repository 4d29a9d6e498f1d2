"""What a loop over the cells of a recurrent layer does besides in each turn, as one call for all time
steps: a head that says something at each moment, dropout between two layers.

It has to work row by row, and the cells have to take parts of a sequence that is there before: what
looks at other rows, or is put together with what comes in, may be what the next cell needs."""

import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from traceanalyzer.base import regex
from traceanalyzer.replay.changes.loops.repetition import joined
from traceanalyzer.replay.patterns.named import are_named
from traceanalyzer.replay.patterns.operators import operators
from traceanalyzer.replay.patterns.repeats import codes, each_step, launching, split_where
from traceanalyzer.replay.tape import Tape
from traceanalyzer.trace import I32, I64, Bool, distinct

FEWEST_TIME_STEPS = 8  # fewer may be layers with gates
LONGEST_CELL_OPERATORS = 40
"""Launching ones of a cell at most: one product and one function for each gate of an LSTM are
25."""
PARTS = regex(r"^aten::(select|slice|narrow)$")  # takes a time step out of a sequence...
APART = regex(
    r"^aten::(unbind|chunk|split|unsafe_split|unsafe_chunk|tensor_split)$"
)  # ... or all of them
ROW_BY_ROW = regex(
    r"^aten::(linear|addmm|dropout|native_dropout|(native_)?layer_norm|rms_norm|relu_?|gelu|silu_?|tanh_?|sigmoid_?"
    r"|elu_?|leaky_relu_?|softplus|exp|add_?|sub_?|mul_?|div_?|(log_)?softmax|clamp_?)$"
)


def outputs_joined(tape: Tape, left: Tape, cell: Bool) -> Tape:
    """The tape that is `left` once the cells (the ops of `tape` that they launch) are a library's
    layer, with what each turn does besides once for all time steps, forward and backward."""
    calls = tape.memo(launching)
    rows = calls.forward
    node = calls.node[rows]
    is_cell = cell[calls.first[rows]]
    kind = codes(calls.name[rows], calls.shapes[rows])
    first, later = np.zeros((2, len(tape.source.linked.tree.start) + 1), bool)
    most_turns = 1
    for cells in _loops(np.flatnonzero(is_cell), calls.step[rows]):
        turns = int(np.count_nonzero(kind[cells] == kind[cells[0]]))
        # What a turn does after its last cell comes after the last cell of all, too.
        end = min(cells[-1] + np.diff(cells).max(), len(rows))
        stretch = np.arange(cells[0], end)
        besides = stretch[~is_cell[stretch]]
        repeated = _repeated(node[besides], kind[besides])
        if repeated and _needs_outputs_alone(tape, node[stretch], repeated, turns):
            most_turns = max(most_turns, turns)
            for alike in repeated:
                first[alike[0]] = True
                later[alike[1:]] = True
    return _joined(tape, left, first, later, most_turns)


def _loops(cells: I64, step: I32) -> list[I64]:
    """Cells that follow each other within a step, as places among the operators that launch
    something."""
    apart = (np.diff(cells) > LONGEST_CELL_OPERATORS) | (np.diff(step[cells]) != 0)
    return [run for run in split_where(cells, apart) if len(run) >= FEWEST_TIME_STEPS]


def _repeated(nodes: I64, kind: I64) -> list[I64]:
    """The nodes of each kind that comes in every turn."""
    each = (nodes[kind == one] for one in distinct(kind).tolist())
    return [alike for alike in each if len(alike) >= FEWEST_TIME_STEPS]


def _needs_outputs_alone(tape: Tape, stretch: I64, repeated: Sequence[I64], turns: int) -> bool:
    """Whether what is repeated in a stretch of cells (nodes of the host tree) can come after all of
    them."""
    if not are_named(tape.source.linked, np.concatenate(repeated), ROW_BY_ROW).all():
        return False
    outer = tape.forward_operators
    inside = outer[(outer >= stretch[0]) & (outer <= stretch[-1])]
    return takes_parts(tape, inside, turns)


def _joined(tape: Tape, left: Tape, first: Bool, later: Bool, turns: int) -> Tape:
    """The tape with the first operators of each kind instead of all of them (nodes of the host tree),
    and with what they give rise to in the backward pass."""
    if not later.any():
        return left
    outer = tape.source.linked.tree.outer_operator
    kept, gone = (
        tape.of_launches(nodes) | tape.backward_of(nodes) for nodes in (first[outer], later[outer])
    )
    return joined(left, kept & ~gone, gone, float(turns), first_is_usual=True)


def with_smaller_graph(tape: Tape, left: Tape) -> Tape:
    """The tape that is `left`, where less of the host's own work is for the graph of autograd: the
    backward pass begins with counting its nodes, and they are freed after it."""
    backward = tape.in_backward & (tape.duration > 0)
    if not backward.any():
        return left
    share = float((left.duration[backward] > 0).mean())
    launching_any = tape.events_of(backward)
    step = tape.step_of_event
    for_graph = np.zeros(len(step) + 1, bool)
    for events in each_step(step, launching_any):
        for_graph[events[0]] = True
        for_graph[events[-1] + 1] = True
    for_fewer = np.rint(left.work * share).astype(np.int64)
    return replace(left, work=np.where(for_graph[:-1], for_fewer, left.work))


def takes_parts(tape: Tape, inside: I64, count: int) -> bool:
    """Whether these operators take one of so many parts for each time step, or follow one that
    makes as many."""
    if are_named(tape.source.linked, inside, PARTS).sum() >= count - 1:
        return True
    tree = tape.source.linked.tree
    outer = tree.outermost_operators
    of_thread = tree.thread[outer] == tree.thread[inside[0]]
    before = outer[(outer < inside[0]) & of_thread][-LONGEST_CELL_OPERATORS:]
    into = re.compile(rf"\b{count}\b")
    known = operators(tape.source.linked)
    return any(
        one.named(APART) and into.search(one.texts[0] or "") for one in known.of_nodes(before)
    )
