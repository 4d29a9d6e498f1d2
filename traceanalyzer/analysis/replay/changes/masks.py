"""Values picked by a boolean mask, whose number the host waits for, as a pass over all of them (`torch.where`)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from traceanalyzer.analysis.algebra.texts import texts_where
from traceanalyzer.analysis.joined.backward import made_by
from traceanalyzer.analysis.replay.changes.edits import retimed, with_dispatch, without_dispatch, without_launches
from traceanalyzer.analysis.replay.on_tape import events_of, nodes
from traceanalyzer.analysis.roofline.op_models.tensors import Tensor, parse_inputs
from traceanalyzer.figures import NS_PER_S
from traceanalyzer.trace.distinct import distinct

if TYPE_CHECKING:
    from traceanalyzer.analysis.replay.tape import Tape
    from traceanalyzer.trace import I32, I64

PICKS = re.compile(r"^aten::(index|masked_select)$")
COUNTS = re.compile(r"^aten::(nonzero|masked_select)$")
"""What a pick by a mask calls to learn how many values there are."""
PRODUCT = re.compile(r"^aten::(linear|addmm|mm|bmm|matmul|baddbmm|conv\dd|convolution)$")
"""What is dear for values that nobody wants."""
FOLLOWING = 4
"""Operators after a pick among which such a product is looked for."""


def masks_spread(tape: Tape) -> Tape | None:
    """Each pick by a mask, and its backward pass, is one kernel over all values; None without any, or where a product
    follows, for which fewer values are the point."""
    outer = tape.source.tree.outer_operator
    picks = _picks(tape, outer)
    if not len(picks):
        return None
    forward = np.isin(outer, picks)
    mine = (forward | made_by(tape.source, forward))[nodes(tape)]
    group = np.where(mine, outer[nodes(tape)], -1)
    of_op = group[tape.event]
    last = (of_op >= 0) & np.append(of_op[1:] != of_op[:-1], True)[: len(of_op)]
    passes = np.maximum(tape.duration, _pass_ns(tape, picks))
    gone = (of_op >= 0) & ~last
    left = without_launches(retimed(tape, np.where(last, passes, tape.duration)), gone)
    kept = events_of(tape, last)
    left = without_dispatch(left, mine & ~kept)
    dispatch = np.where(kept & mine, tape.dispatch + _before_first(tape, group), left.dispatch)
    return with_dispatch(left, dispatch)


def _picks(tape: Tape, outer: I32) -> I32:
    """The operators of the forward pass, nodes of the host tree, that pick by a mask."""
    tree, trace = tape.source.tree, tape.source.trace
    name = trace.host_ranges.name
    counting = tree.named(texts_where(trace.strings, COUNTS.match)) & (outer >= 0)
    found = distinct(outer[counting & ~tape.source.in_backward])
    found = found[texts_where(trace.strings, PICKS.match)[name[tree.row[found]]]]
    all_outer = np.flatnonzero(outer == np.arange(len(outer)))
    product = np.append(texts_where(trace.strings, PRODUCT.match)[name[tree.row[all_outer]]], np.zeros(FOLLOWING, bool))
    position = np.searchsorted(all_outer, found)
    followed = np.any([product[position + i + 1] for i in range(FOLLOWING)], axis=0) if len(found) else found
    picks: I32 = found[~followed] if len(found) else found
    return picks


def _pass_ns(tape: Tape, picks: I32) -> float:
    """What reading and writing the values that are picked from takes, the mean of all picks, ns."""
    ranges, rows = tape.source.trace.host_ranges, tape.source.tree.row[picks]
    bandwidth = tape.source.limit("bandwidth")[tape.row]
    known = bandwidth[np.isfinite(bandwidth)]
    if not len(known):
        return 0.0
    kinds, count = np.unique(np.stack((ranges.shapes[rows], ranges.dtypes[rows])), axis=1, return_counts=True)
    size = [_bytes(tape, *kind) for kind in kinds.T.tolist()]
    return 2.0 * float(np.average(size, weights=count)) / float(known.max()) * NS_PER_S


def _bytes(tape: Tape, shapes: int, dtypes: int) -> float:
    text = tape.source.trace.text
    inputs = parse_inputs(text(shapes) or "", text(dtypes), None)
    first = inputs[0] if inputs else None
    if not isinstance(first, Tensor):
        return 0.0
    return float(np.nan_to_num(np.prod(first.shape, dtype=np.float64) * first.dtype.bytes))


def _before_first(tape: Tape, group: I64) -> I64:
    """For each event the dispatch before the first event of its group, ns; 0 for that event itself and without one."""
    found, first, index = np.unique(group, return_index=True, return_inverse=True)
    begins = np.where(found >= 0, tape.dispatch[first], 0)
    result: I64 = np.where(np.arange(len(group)) == first[index], 0, begins[index])
    return result
