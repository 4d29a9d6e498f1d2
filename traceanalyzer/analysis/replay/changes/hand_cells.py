"""Recurrent layers that are written out: a loop over time steps of products, gates and what they let through.

A cell is told by its parts: an LSTM has sigmoids, two hyperbolic tangents and three products of gates, a GRU sigmoids,
one and three, a plain one a product each of what comes in and of what it kept; nothing else may be in the loop. Its
input has to be there before: a part of a sequence for each time step. A decoder that goes on from its own output cannot
be one call.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from traceanalyzer.analysis.replay.changes.sequences import codes, launching, repeats
from traceanalyzer.analysis.replay.on_tape import forward_operators

if TYPE_CHECKING:
    from traceanalyzer.analysis.replay.changes.sequences import Launching
    from traceanalyzer.analysis.replay.tape import Tape
    from traceanalyzer.trace import I32, I64

FEWEST_TIME_STEPS = 8
"""Fewer may be layers with gates."""
LONGEST_CELL = 40
"""Launching operators of a cell at most: one product and one function for each gate of an LSTM are 25."""
PRODUCT = re.compile(r"^aten::(linear|mm|addmm|matmul)$")
SIGMOID = re.compile(r"^aten::sigmoid_?$")
TANH = re.compile(r"^aten::tanh_?$")
GATED = {"aten::mul": 1, "aten::mul_": 1, "aten::addcmul": 1, "aten::addcmul_": 1, "aten::lerp": 2}
"""How many products with a gate an operator has."""
FEWEST_GATED = 3
OTHERS = re.compile(r"^aten::(add_?|sub_?|rsub|cat|concat|copy_|clone|contiguous|dropout|neg)$")
PARTS = re.compile(r"^aten::(select|slice|narrow)$")
"""Takes a time step out of a sequence..."""
APART = re.compile(r"^aten::(unbind|chunk|split|unsafe_split|unsafe_chunk|tensor_split)$")
"""... or all of them."""


def cells_by_hand(tape: Tape) -> I32:
    """For each node of the host tree the cell that it is part of, by the number of a node, -1: none. What does not
    launch anything, as taking parts of tensors, belongs to the cell after it."""
    tree = tape.source.tree
    outer = forward_operators(tape)
    of_outer = np.full(len(tree.start) + 1, -1, np.int32)
    calls = launching(tape)
    rows = np.flatnonzero(~calls.backward & (calls.node >= 0))
    code = codes(calls.name[rows], calls.shapes[rows], calls.step[rows])
    found = repeats(code, LONGEST_CELL, FEWEST_TIME_STEPS, lambda a, b: _is_cell(tape, calls, rows[a:b]))
    for first, period, count in found:
        ends = calls.node[rows[first + period - 1 : first + period * count : period]]
        begin = calls.node[rows[first]]
        inside = outer[(outer >= begin) & (outer <= ends[-1])]
        if _takes_parts(tape, inside, count):
            of_outer[inside] = ends[np.searchsorted(ends, inside)]
    result: I32 = of_outer[tree.outer_operator]
    return result


def _is_cell(tape: Tape, calls: Launching, rows: I64) -> bool:
    """Whether these operators are a cell's."""
    names = [tape.source.trace.text(one) or "" for one in calls.name[rows].tolist()]
    gated = sum(GATED.get(name, 0) for name in names)
    kinds = [sum(bool(pattern.match(name)) for name in names) for pattern in (PRODUCT, SIGMOID, TANH, OTHERS)]
    known = sum(kinds) + sum(name in GATED for name in names)
    both = kinds[0] > 1 or any(name.startswith("aten::cat") for name in names)
    plain = both and not kinds[1] and not gated and kinds[2] == 1
    return known == len(names) and (plain or (min(kinds[:3]) > 0 and gated >= FEWEST_GATED))


def _takes_parts(tape: Tape, operators: I64, count: int) -> bool:
    """Whether these outermost operators take a part of something for each of so many time steps, or follow one that
    takes it apart into as many."""
    tree, trace = tape.source.tree, tape.source.trace
    names = [trace.text(one) or "" for one in trace.host_ranges.name[tree.row[operators]].tolist()]
    if sum(bool(PARTS.match(name)) for name in names) >= count - 1:
        return True
    before = tree.outermost_operators
    before = before[(before < operators[0]) & (tree.thread[before] == tree.thread[operators[0]])][-LONGEST_CELL:]
    rows = tree.row[before]
    texts = [
        (trace.text(name) or "", trace.text(shapes) or "")
        for name, shapes in zip(
            trace.host_ranges.name[rows].tolist(), trace.host_ranges.shapes[rows].tolist(), strict=True
        )
    ]
    return any(APART.match(name) and re.search(rf"\b{count}\b", shapes) for name, shapes in texts)
