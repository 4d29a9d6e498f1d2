"""Sorts of which only the first few are taken: `topk` finds these without putting the others in order."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from traceanalyzer.analysis.algebra.ordering import where_changed
from traceanalyzer.analysis.replay.changes.edits import retimed, with_dispatch, without_launches
from traceanalyzer.analysis.replay.on_tape import events_of, nodes, usual_dispatch_ns
from traceanalyzer.analysis.roofline.op_models.tensors import Tensor, parse_inputs, parse_values
from traceanalyzer.figures import NS_PER_S
from traceanalyzer.trace import alike

if TYPE_CHECKING:
    from traceanalyzer.analysis.joined.joined import Joined
    from traceanalyzer.analysis.replay.tape import Tape
    from traceanalyzer.trace import F64, Bool

SORTS = re.compile(r"^aten::(sort|argsort|msort)$")
TAKES = re.compile(r"^aten::(slice|narrow)$")
"""Operators that take some of a dimension: its number, from where and up to where, or how many."""
NEAR = 8
"""Operators after a sort among which its result is looked for."""
FEW = 16
"""One in so many, or fewer, are few: of more, `topk` has much to put in order itself."""
PASSES = 12.0
"""Times that `topk` reads its input at the memory's rate, for each digit of a number again (11 and 12 times on an H100,
of 67 and 537 million numbers)."""
LEAST_NS, LAUNCHES = 30_000, 20
"""What it takes of little (18 to 40 us), and how often it launches (16 and 22)."""


class TopFew(NamedTuple):
    """Sorts that `topk` can replace, by nodes of the host tree, and the bytes of what they sort."""

    sorts: Bool
    bytes: F64
    examples: list[str]
    """What is sorted, and how much of it is taken."""


def sorts_of_few(joined: Joined) -> TopFew:
    """Sorts after which operators take the first few along the sorted dimension, and none the whole."""
    tree, ranges = joined.tree, joined.trace.host_ranges
    outer = tree.outermost_operators
    rows = tree.row[outer].tolist()
    named = {code for code, text in enumerate(joined.trace.strings) if SORTS.match(text)}
    if not named:
        return TopFew(alike(0, len(tree.start) + 1, np.bool_), alike(0, len(tree.start) + 1, np.float64), [])
    sorts, size, examples = np.zeros(len(tree.start) + 1, bool), np.zeros(len(tree.start) + 1), set()
    for place in np.flatnonzero(np.isin(ranges.name[tree.row[outer]], list(named))).tolist():
        tensor, values = _operands(joined, rows[place])
        along = next((int(one) for one in values if one.lstrip("-").isdigit()), None)
        if tensor is None or along is None or not tensor.shape:
            continue
        taken = _taken(joined, rows[place + 1 : place + 1 + NEAR], tensor, along % len(tensor.shape))
        if taken is not None and 0 < taken * FEW <= tensor.shape[along]:
            sorts[outer[place]], size[outer[place]] = True, tensor.bytes
            examples.add(f"{list(tensor.shape)}: the first {taken:,} of {tensor.shape[along]:,}")
    return TopFew(sorts, np.where(np.isfinite(size), size, 0.0), sorted(examples))


def _operands(joined: Joined, row: int) -> tuple[Tensor | None, tuple[str, ...]]:
    """The first tensor of an operator, and the values of its others."""
    ranges, trace = joined.trace.host_ranges, joined.trace
    shapes = trace.text(int(ranges.shapes[row]))
    inputs = parse_inputs(shapes, trace.text(int(ranges.dtypes[row])), None) if shapes else None
    first = inputs[0] if inputs else None
    return first if isinstance(first, Tensor) else None, parse_values(trace.text(int(ranges.concrete[row])))


def _taken(joined: Joined, rows: list[int], whole: Tensor, along: int) -> int | None:
    """How many of a dimension these operators, up to the next sort, take from its beginning; None where one takes
    all, or something else of a tensor of this shape."""
    most = None
    for row in rows:
        tensor, values = _operands(joined, row)
        if tensor is None or tensor.shape != whole.shape:
            continue
        name = joined.trace.text(int(joined.trace.host_ranges.name[row])) or ""
        if SORTS.match(name):
            break
        numbers = [int(one) for one in values[1:4] if one.lstrip("-").isdigit()]
        if not TAKES.match(name) or len(numbers) < 3 or numbers[0] % len(whole.shape) != along or numbers[1]:
            return None
        most = max(most or 0, numbers[2])
    return most


def topk_ns(bytes_: F64, bandwidth: F64) -> F64:
    """What `topk` of so many bytes takes, ns, by the memory's bytes a second (NaN where that is not known)."""
    result: F64 = np.maximum(bytes_ * PASSES / np.nan_to_num(bandwidth, nan=math.inf) * NS_PER_S, LEAST_NS)
    return result


def taken_by_topk(tape: Tape) -> Tape | None:
    """`topk` in place of such sorts; None without any."""
    found = tape.source.once(sorts_of_few)
    operator = tape.source.tree.outer_operator[nodes(tape)]
    of_op = operator[tape.event]
    mine = found.sorts[of_op]
    if not mine.any():
        return None
    first = mine & where_changed(of_op)
    needs = topk_ns(found.bytes[of_op], tape.source.limit("bandwidth")[tape.row])
    spent = np.bincount(np.cumsum(first)[mine], tape.duration[mine])[np.cumsum(first)]
    left = retimed(tape, np.where(first, np.minimum(needs, spent), tape.duration))
    left = without_launches(left, mine & ~first)
    there = events_of(tape, first)
    calls = np.bincount(np.cumsum(there)[events_of(tape, mine)], tape.dispatch[events_of(tape, mine)])[np.cumsum(there)]
    usual = int(usual_dispatch_ns(tape, tape.compute))
    dispatch = np.where(there, np.minimum(usual * LAUNCHES, calls).astype(np.int64), left.dispatch)
    return with_dispatch(left, dispatch)
