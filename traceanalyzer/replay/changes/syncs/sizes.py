"""Numbers that are counted only because Python needs a size: `int(mask.sum())` before `torch.randn` of so
many rows."""

import numpy as np

from traceanalyzer.analysis.roofline.op_models.tensors import ElementKind, Input, Tensor
from traceanalyzer.base import regex
from traceanalyzer.replay.patterns.named import Outermost
from traceanalyzer.replay.patterns.operators import Operator
from traceanalyzer.replay.tape import Tape
from traceanalyzer.trace import Bool, distinct

READS = regex(r"^aten::(item|_local_scalar_dense)$")
COUNTS = regex(r"^aten::(sum|count_nonzero|max|min|amax|amin)$")
"""What gives a number of rows, or the largest of several sizes."""
SIZED = regex(r"^aten::(new_)?(rand\w*|zeros|ones|full|arange)$")
"""Operators that make a tensor of a size that Python gives them."""
COUNTED_WITHIN = 4
"""So many operators before a read are searched for what counts, views among them."""
SIZED_WITHIN = 8
"""So many operators after a read are searched for the first that launches anything."""


def sizes_read(tape: Tape) -> Bool:
    """Which events count what the host reads as the size of the tensor that it makes next, and read
    it."""
    return tape.memo(_sizes_read)


def _sizes_read(tape: Tape) -> Bool:
    outermost = Outermost(tape)
    outer = tape.source.linked.tree.outer_operator[tape.nodes]
    gone = list[int]()
    reads = distinct(outer[tape.reads & (outer >= 0)])
    for place in np.searchsorted(outermost.nodes, reads).tolist():
        before = [one for one in outermost.at(place - COUNTED_WITHIN, place) if one.launches]
        read, *after = outermost.at(place, place + 1 + SIZED_WITHIN)
        following = next((one.operator for one in after if one.launches), None)
        sized = following is not None and following.named(SIZED)
        if sized and before and _is_counted(before[-1].operator, read.operator):
            gone += [before[-1].node, read.node]
    return (outer >= 0) & np.isin(outer, np.array(gone, np.int64))


def _is_counted(counting: Operator, read: Operator) -> bool:
    """Whether one operator counts the number that the next reads."""
    taken = (*counting.typed[:1], *read.typed[:1])
    integers = len(taken) == 2 and all(map(is_whole, taken))
    return integers and counting.named(COUNTS) and read.named(READS)


def is_whole(taken: Input) -> bool:
    """Whether it is a tensor of integers or truth values."""
    return isinstance(taken, Tensor) and taken.dtype.kind <= ElementKind.INTEGER
