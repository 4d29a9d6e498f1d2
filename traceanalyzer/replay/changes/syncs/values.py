"""Values that the host waits for one by one: those picked by a boolean mask, as a pass over all of
them (`torch.where`); those that a loop reads, as one read (`tolist()`); and those that the GPU gets
back as numbers, kept there.

In Python the arithmetic of the last costs next to nothing. Kept on the GPU each is a tensor, which
takes a launch or more; and what leads to it is still calculated."""

from collections import Counter

import numpy as np

from traceanalyzer.analysis.algebra import where_changed
from traceanalyzer.analysis.joined.backward import made_by
from traceanalyzer.analysis.roofline.op_models.tensors import Tensor
from traceanalyzer.base import NS_PER_S, regex
from traceanalyzer.replay.patterns.named import are_named, nodes_named
from traceanalyzer.replay.patterns.operators import Operator, operators
from traceanalyzer.replay.patterns.repeats import after_each, split_where
from traceanalyzer.replay.tape import Tape
from traceanalyzer.trace import I32, I64, Bool, CopyKind, distinct

PICKS = regex(r"^aten::(index|masked_select)$")
WRITES = regex(r"^aten::(index_put_?|_index_put_impl_)$")
COUNTS = regex(r"^aten::(nonzero|masked_select)$")
"""What a pick by a mask, or a write, calls to learn how many values there are."""
PRODUCT = regex(r"^aten::(linear|addmm|mm|bmm|matmul|baddbmm|conv\dd|convolution)$")
"""What is expensive for values that nobody wants."""
PRODUCT_WITHIN = 4  # so many after a pick are searched for such a product


LOOKS = regex(
    r"^aten::(select|index|index_select|gather|take|slice|to|_to_copy|copy_|float|squeeze|eq|ne|gt|lt|ge|le|logical_\w+"
    r"|bitwise_\w+|__\w+__|any|all|isnan|isfinite|item|is_nonzero|_local_scalar_dense)$"
)
"""Operators that pick or test a value for the host."""
LONGEST_LOOK_NS = 5_000  # a kernel that picks or tests a few values takes no longer
MOST_VALUE_BYTES = 4096  # a read of more brings data, not an item's values
FEWEST_READS_OF_LOOP = 16  # with fewer reads in a row a loop over items is not what makes them
OPERATORS_AFTER = 4  # so many after a read are searched for the first that launches anything
FEWEST_READS = 4  # with fewer reads a step it is not told whether their numbers come back
MOST_OF_READS = 0.5
"""Share of a step's reads whose numbers come back: then all are taken to, in one form or
another."""
NUMBER = regex(r"\d\.\d")  # a number with decimals among the values of an operator's arguments


def masks_spread(tape: Tape) -> Tape | None:
    """Each pick or write by a mask, and its backward pass, is one kernel over all values; None without any,
    or where a product follows, for which fewer values are the point."""
    outer = tape.source.linked.tree.outer_operator
    picks = _picks(tape, outer)
    if not len(picks):
        return None
    forward = np.isin(outer, picks)
    of_picks = (forward | made_by(tape.source.linked, forward))[tape.nodes]
    passes = np.maximum(tape.duration, _pass_ns(tape, picks))
    longer = tape.retimed(np.where(of_picks[tape.event], passes, tape.duration))
    group = np.where(of_picks, outer[tape.nodes], -1)
    return last_launches(longer, group.astype(np.int64))


def last_launches(tape: Tape, group: I64) -> Tape:
    """The last launch of each group of events (its number, -1 for none) is left, as soon as the
    first was."""
    if not (group >= 0).any():
        return tape
    of_op = group[tape.event]
    last = (of_op >= 0) & where_changed(of_op[::-1])[::-1]
    grouped = group >= 0
    kept = tape.events_of(last)
    left = tape.without_launches((of_op >= 0) & ~last)
    left = left.without_dispatch(grouped & ~kept)
    found, first, index = np.unique(group, return_index=True, return_inverse=True)
    begins = np.where(found >= 0, tape.dispatch[first], 0)[index]
    dispatch = tape.dispatch + np.where(np.arange(len(group)) == first[index], 0, begins)
    return left.with_dispatch(np.where(kept & grouped, dispatch, left.dispatch))


def _picks(tape: Tape, outer: I32) -> I64:
    """The operators of the forward pass, nodes of the host tree, that pick by a mask and that no
    product follows, and those that write by one: but for rows that such a product worked on."""
    source = tape.source
    all_outer = tape.source.linked.tree.outermost_operators
    searching = distinct(
        outer[nodes_named(source.linked, COUNTS) & (outer >= 0) & ~source.joined.in_backward]
    )
    found = searching[are_named(source.linked, searching, PICKS)]
    products = np.flatnonzero(are_named(source.linked, all_outer, PRODUCT))
    place = np.searchsorted(all_outer, found)
    next_product = np.append(products, len(all_outer) + PRODUCT_WITHIN)[
        np.searchsorted(products, place, side="right")
    ]
    spread = next_product - place > PRODUCT_WITHIN
    writes = searching[are_named(source.linked, searching, WRITES)]
    after_spread = np.append(True, spread)[np.searchsorted(found, writes)]
    return distinct(np.append(found[spread], writes[after_spread])).astype(np.int64)


def _pass_ns(tape: Tape, picks: I64) -> float:
    """What reading and writing the values that are picked from takes, the mean of all picks, ns."""

    def bytes_of(pick: Operator) -> float:
        first = pick.typed[0] if pick.typed else None
        return (
            float(np.nan_to_num(first.numel * first.dtype.bytes))
            if isinstance(first, Tensor)
            else 0.0
        )

    bandwidth = tape.source.linked.limit("bandwidth")[tape.row]
    known = bandwidth[np.isfinite(bandwidth)]
    size = float(np.mean(operators(tape.source.linked).tell(picks, bytes_of)))
    return 2.0 * size / float(known.max()) * NS_PER_S if len(known) else 0.0


def _reading(tape: Tape, small: Bool) -> Bool:
    """Events that only copy small values to the host, wait right after that, or read."""
    copying = tape.events_of_only(small)
    waiting = tape.waits & ~tape.launching_events & after_each(copying)
    return copying | waiting | (tape.reads & ~tape.events_of(~small))


def after_first_read(tape: Tape) -> Bool:
    """Events of loops that read item by item, with nothing between but what picks or tests the next
    values: those that come after the first read. One read of all items would take their place."""
    bytes_ = tape.source.trace.device_ops.bytes[tape.row]
    small = tape.copies_of(CopyKind.DEVICE_TO_HOST) & (bytes_ <= MOST_VALUE_BYTES)
    reading = _reading(tape, small)
    # Events that launch only short kernels of operators that pick or test values.
    named = are_named(tape.source.linked, tape.source.linked.tree.outer_operator[tape.nodes], LOOKS)
    copies = tape.copy & ~tape.copies_of(CopyKind.DEVICE_TO_DEVICE)
    long = (tape.duration > LONGEST_LOOK_NS) | tape.communication | copies
    other = ~(reading | (named & ~tape.events_of(long) & ~tape.waits))
    run = np.cumsum(other | (np.diff(tape.step_of_event, prepend=-1) != 0))
    operator = tape.source.linked.tree.outer_operator[tape.nodes]
    at = np.flatnonzero(reading & ~other)
    begins = at[where_changed(operator[at]) | where_changed(run[at])]
    result = np.zeros(len(tape.dispatch), bool)
    for own in split_where(begins, np.diff(run[begins]) != 0):
        if len(own) >= FEWEST_READS_OF_LOOP:
            last = at[run[at] == run[own[0]]][-1]
            result[own[1] : last + 1] = True
    return result


def read_at_the_end(tape: Tape) -> Tape | None:
    """Each such loop reads all its values at once; None without any."""
    gone = tape.memo(after_first_read)
    return tape.without_launches(gone[tape.event]).without_dispatch(gone) if gone.any() else None


def scalars_reuploaded(tape: Tape) -> Bool:
    """Which events read a value that the next operator takes as a number; none where most reads are
    only looked at."""
    tree = tape.source.linked.tree
    result = np.zeros(len(tape.dispatch), bool)
    outer = tree.outermost_operators
    operator = tree.outer_operator[tape.nodes]
    first = np.flatnonzero(
        tape.reads & (operator >= 0) & where_changed(operator)
    )  # event of each read
    if len(first) < FEWEST_READS * tape.steps:
        return result
    # The operator that launches something next, -1 where that is not near.
    computing = tape.events_of(tape.compute) & (operator >= 0)
    launching = np.append(distinct(operator[computing]), -1)
    after = launching[np.searchsorted(launching[:-1], operator[first], side="right")]
    apart = np.searchsorted(outer, after) - np.searchsorted(outer, operator[first])
    after = np.where(apart <= OPERATORS_AFTER, after, -1)
    uses = operators(tape.source.linked).of_nodes(after)
    result[first] = np.mean(_take_numbers(uses)) >= MOST_OF_READS
    return result


def _take_numbers(uses: list[Operator]) -> list[bool]:
    """Which of these operators take a value as a number: most of their kind take another one each,
    or it stands beside a tensor."""
    often = Counter(one.name for one in uses)
    with_number = (one for one in uses if NUMBER.search(one.texts[2] or ""))
    values = {(one.name, one.texts[2]) for one in with_number}
    decimals = Counter(name for name, _ in values)
    return [2 * decimals[one.name] > often[one.name] or _plain(one) for one in uses]


def kept_as_tensors(tape: Tape, events: Bool, launches: float) -> Tape:
    """For each of these reads the host launches so many kernels more, each as costly as usual."""
    more = round(launches * tape.usual_dispatch_ns(tape.compute))
    return tape.with_dispatch(np.where(events, tape.dispatch + more, tape.dispatch))


def _plain(operator: Operator) -> bool:
    """Whether an operator takes a number of Python's beside a tensor: without a size, and of
    another format."""
    tensors = [found for found in operator.typed if isinstance(found, Tensor)]
    formats = {found.dtype for found in tensors}
    if len(tensors) != 2 or len(formats) == 1:
        return False
    tensor, number = tensors
    return tensor.shape != () and number.shape == ()
