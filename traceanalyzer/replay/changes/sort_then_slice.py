"""Sorts of which only the first few are taken: `topk` finds these without putting the others in
order."""

import math
from itertools import takewhile
from typing import NamedTuple

import numpy as np

from traceanalyzer.analysis.algebra import where_changed
from traceanalyzer.analysis.joined.joined import Joined
from traceanalyzer.analysis.roofline.op_models.tensors import Tensor
from traceanalyzer.base import NS_PER_S, regex
from traceanalyzer.replay.patterns.named import are_named, texts
from traceanalyzer.replay.patterns.operators import Operator, operators
from traceanalyzer.replay.tape import Tape
from traceanalyzer.trace import F64, Bool, constant_column

SORTS = regex(r"^aten::(sort|argsort|msort)$")
TAKES = regex(r"^aten::(slice|narrow)$")
"""Operators that take some of a dimension: its number, from where and up to where, or how many."""
OPERATORS_AFTER = 8  # so many after a sort are searched for what takes its result
LEAST_SORTED_PER_TAKEN = 16
"""Numbers that are sorted for each that is taken: with fewer, `topk` has much to put in order
itself."""
PASSES = 12.0
"""Times that `topk` reads its input at the memory's rate, for each digit of a number again (11 and
12 times on an H100, of 67 and 537 million numbers)."""
LEAST_NS = 30_000  # what it takes of little (18 to 40 us), and how often it launches (16 and 22)
LAUNCHES = 20


class TopFew(NamedTuple):
    """Sorts that `topk` can replace, by nodes of the host tree, and the bytes of what they sort."""

    sorts: Bool
    bytes: F64
    examples: list[str]  # what is sorted, and how much of it is taken


def sorts_of_few(joined: Joined) -> TopFew:
    """Sorts after which operators take the first few along the sorted dimension, and none the
    whole."""
    tree = joined.linked.tree
    known = operators(joined.linked)
    count = len(tree.start) + 1
    examples = set[str]()
    if not texts(joined.linked, SORTS).any():
        return TopFew(
            constant_column(0, count, np.bool_), constant_column(0, count, np.float64), []
        )
    outer = tree.outermost_operators
    sorts = np.zeros(count, bool)
    size = np.zeros(count)
    for place in np.flatnonzero(are_named(joined.linked, outer, SORTS)).tolist():
        sort, *following = known.of_nodes(outer[place : place + 1 + OPERATORS_AFTER])
        tensor = _first(sort)
        along = next((int(value) for value in sort.values if _is_number(value)), None)
        if tensor is None or along is None or not tensor.shape:
            continue
        taken = _taken(following, tensor, along % len(tensor.shape))
        if taken is not None and 0 < taken * LEAST_SORTED_PER_TAKEN <= tensor.shape[along]:
            sorts[outer[place]] = True
            size[outer[place]] = tensor.bytes
            examples.add(f"{list(tensor.shape)}: the first {taken:,} of {tensor.shape[along]:,}")
    return TopFew(sorts, np.where(np.isfinite(size), size, 0.0), sorted(examples))


def _first(operator: Operator) -> Tensor | None:
    return operator.typed[0] if operator.typed and isinstance(operator.typed[0], Tensor) else None


def _is_number(value: str) -> bool:
    return value.lstrip("-").isdecimal()


def _takes_all(operator: Operator, sorted_tensor: Tensor) -> bool:
    """Whether an operator's first operand has the shape of what was sorted."""
    found = _first(operator)
    return found is not None and found.shape == sorted_tensor.shape


def _taken(following: list[Operator], sorted_tensor: Tensor, along: int) -> int | None:
    """How many these operators, up to the next sort, take from the begin of a dimension; None if
    one takes else."""
    of_whole = (one for one in following if _takes_all(one, sorted_tensor))
    taken = list[int]()
    for operator in takewhile(lambda one: not one.named(SORTS), of_whole):
        numbers = list(map(int, filter(_is_number, operator.values[1:4])))
        if (
            len(numbers) != 3
            or not operator.named(TAKES)
            or numbers[0] % len(sorted_tensor.shape) != along
            or numbers[1] != 0
        ):
            return None
        taken.append(numbers[2])
    return max(taken, default=None)


def topk_ns(bytes_: F64, bandwidth: F64) -> F64:
    """What `topk` of so many bytes takes, ns, by the memory's bytes a second (NaN where that is not
    known)."""
    return np.maximum(bytes_ * PASSES / np.nan_to_num(bandwidth, nan=math.inf) * NS_PER_S, LEAST_NS)


def taken_by_topk(tape: Tape) -> Tape | None:
    """`topk` in place of such sorts; None without any."""
    found = tape.source.joined.memo(sorts_of_few)
    of_op = tape.of_launches(tape.source.linked.tree.outer_operator)
    in_sort = found.sorts[of_op]
    if not in_sort.any():
        return None
    first = in_sort & where_changed(of_op)
    needs = topk_ns(found.bytes[of_op], tape.source.linked.limit("bandwidth")[tape.row])
    number = np.cumsum(first)
    spent = np.bincount(number[in_sort], tape.duration[in_sort])[number]
    left = tape.retimed(np.where(first, np.minimum(needs, spent), tape.duration)).without_launches(
        in_sort & ~first
    )
    first_events = tape.events_of(first)
    calling = tape.events_of(in_sort)
    number = np.cumsum(first_events)
    calls = np.bincount(number[calling], tape.dispatch[calling])[number]
    most = np.minimum(int(tape.usual_dispatch_ns(tape.compute)) * LAUNCHES, calls).astype(np.int64)
    return left.with_dispatch(np.where(first_events, most, left.dispatch))
