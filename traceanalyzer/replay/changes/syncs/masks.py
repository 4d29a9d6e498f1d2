"""Values picked by a boolean mask, whose number the host waits for, as a pass over all of them (`torch.where`)."""

from __future__ import annotations

import re

import numpy as np

from traceanalyzer.analysis.joined.backward import made_by
from traceanalyzer.analysis.roofline.op_models.tensors import Tensor
from traceanalyzer.base.figures import NS_PER_S
from traceanalyzer.replay.changes.edits import retimed, with_dispatch, without_dispatch, without_launches
from traceanalyzer.replay.on_tape import events_of, nodes
from traceanalyzer.replay.patterns.named import are_named, nodes_named
from traceanalyzer.replay.patterns.operators import Operator, operators
from traceanalyzer.replay.tape import Tape
from traceanalyzer.trace import I32, I64
from traceanalyzer.trace.distinct import distinct

PICKS = re.compile(r"^aten::(index|masked_select)$")
COUNTS = re.compile(r"^aten::(nonzero|masked_select)$")
"""What a pick by a mask calls to learn how many values there are."""
PRODUCT = re.compile(r"^aten::(linear|addmm|mm|bmm|matmul|baddbmm|conv\dd|convolution)$")
"""What is expensive for values that nobody wants."""
OPERATORS_AFTER = 4
"""So many after a pick are searched for such a product."""


def masks_spread(tape: Tape) -> Tape | None:
    """Each pick by a mask, and its backward pass, is one kernel over all values; None without any, or where a product
    follows, for which fewer values are the point."""
    outer = tape.source.linked.tree.outer_operator
    picks = _picks(tape, outer)
    if not len(picks):
        return None
    forward = np.isin(outer, picks)
    mine = (forward | made_by(tape.source.linked, forward))[nodes(tape)]
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


def _picks(tape: Tape, outer: I32) -> I64:
    """The operators of the forward pass, nodes of the host tree, that pick by a mask and that no product follows."""
    source, all_outer = tape.source, tape.source.linked.tree.outermost_operators
    counting = nodes_named(source.linked, COUNTS) & (outer >= 0) & ~source.joined.in_backward
    found = distinct(outer[counting])
    found = found[are_named(source.linked, found, PICKS)]
    products = np.flatnonzero(are_named(source.linked, all_outer, PRODUCT))
    place = np.searchsorted(all_outer, found)
    next_product = np.append(products, len(all_outer) + OPERATORS_AFTER)[np.searchsorted(products, place, side="right")]
    return found[next_product - place > OPERATORS_AFTER].astype(np.int64)


def _pass_ns(tape: Tape, picks: I64) -> float:
    """What reading and writing the values that are picked from takes, the mean of all picks, ns."""
    bandwidth = tape.source.linked.limit("bandwidth")[tape.row]
    known = bandwidth[np.isfinite(bandwidth)]
    if not len(known):
        return 0.0
    size = operators(tape.source.linked).tell(picks, _bytes)
    return 2.0 * float(np.mean(size)) / float(known.max()) * NS_PER_S


def _bytes(pick: Operator) -> float:
    first = pick.typed[0] if pick.typed else None
    return float(np.nan_to_num(first.numel * first.dtype.bytes)) if isinstance(first, Tensor) else 0.0


def _before_first(tape: Tape, group: I64) -> I64:
    """For each event the dispatch before the first event of its group, ns; 0 for that event itself and without one."""
    found, first, index = np.unique(group, return_index=True, return_inverse=True)
    begins = np.where(found >= 0, tape.dispatch[first], 0)
    return np.where(np.arange(len(group)) == first[index], 0, begins[index])
