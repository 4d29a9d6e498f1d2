"""A language model that reads a text from its beginning for each word that it adds to it: with keys and
values kept, it reads each new word alone.

Seen is that ids are looked up in a table again and again, one more each time. All that works on so
many rows then works on one; weights, and the keys and values so far, are read as before."""

import math
from functools import partial
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from traceanalyzer.analysis.roofline.op_models.tensors import Shape, Tensor
from traceanalyzer.base import dataclass, regex
from traceanalyzer.replay.changes.fusion import LEAST_KERNEL_NS
from traceanalyzer.replay.patterns.named import operators_named
from traceanalyzer.replay.patterns.operators import Operator, operators
from traceanalyzer.replay.tape import Tape, parametric
from traceanalyzer.trace import F64, I32, I64, CopyKind

LOOKUP = regex(r"^aten::embedding$")
IDS = 1
"""Place of the ids among a lookup's tensors."""
ATTENDS = regex(r"^aten::(scaled_dot_product_attention|_scaled_dot_product_\w+|_?softmax)$")
READS_ALL = regex(
    r"^aten::(scaled_dot_product_attention|_scaled_dot_product_\w+|linear|addmm|b?mm|matmul)$"
)
"""Operators whose other operands (weights, keys, values) are read whole for one row, too."""
ID_BYTES = (4, 8)
LEAST_AGAIN = 3
"""Texts that are one word longer than the one before: fewer may be so by chance."""
LEAST_WORDS = 16
"""Of the longest text: reading so few again costs little."""


@dataclass(frozen=True)
class Turn:
    """A text that is read again, with one more word."""

    start: int
    end: int  # ns
    items: int
    words: int


class _Left(NamedTuple):
    """What is left of an operator for one word alone."""

    share: float
    read_bytes: float


ALL = _Left(1.0, 0.0)


def turns_again(tape: Tape) -> list[Turn]:
    """The texts that are read again; none where there are few, or a backward pass needs them."""
    if tape.in_backward.any():
        return []
    copied = _copies_from_host(tape)
    again = [
        turn
        for before, turn in pairwise(_turns(tape))
        if turn.items == before.items
        and turn.words == before.words + 1
        and not copied.has(before.start, turn)
    ]
    longest = max((turn.words for turn in again), default=0)
    return again if len(again) >= LEAST_AGAIN and longest >= LEAST_WORDS else []


def _turns(tape: Tape) -> list[Turn]:
    """The stretches of time between lookups of texts of different lengths."""
    linked = tape.source.linked
    nodes = linked.tree.outermost_operators
    nodes = nodes[operators_named(linked, LOOKUP)[nodes]]
    lookups = operators(linked).of_nodes(nodes)
    begun = list[tuple[int, Shape]]()
    for time, lookup in zip(linked.tree.start[nodes].tolist(), lookups, strict=True):
        ids = lookup.shapes[IDS] if len(lookup.shapes) > IDS else ()
        if ids and (not begun or ids[-1] != begun[-1][1][-1]):
            begun.append((time, ids))
    until = int(tape.source.timed.steps.host_end[-1])
    ends = [*(time for time, _ in begun[1:]), until]
    return [
        Turn(time, end, math.prod(ids[:-1]), ids[-1])
        for (time, ids), end in zip(begun, ends, strict=False)
    ]


class _Copies(NamedTuple):
    """Copies from the host."""

    launched: I64
    sizes: I64  # bytes

    def has(self, after: int, turn: Turn) -> bool:
        """Whether the ids of a text were copied after the one before was looked up: data that are
        sorted by their length may be one longer, too."""
        ids = turn.items * turn.words
        sizes = self.sizes[(self.launched >= after) & (self.launched < turn.start)]
        return bool(np.isin(sizes, [ids * one for one in ID_BYTES]).any())


def _copies_from_host(tape: Tape) -> _Copies:
    rows = tape.row[tape.copies_of(CopyKind.HOST_TO_DEVICE)]
    return _Copies(tape.source.linked.launch_time[rows], tape.source.trace.device_ops.bytes[rows])


@parametric
def with_cache(tape: Tape, launches: float) -> Tape | None:
    """The tape where such a text's last word alone is read, and each attention takes so many launches
    more to keep its key and value; None where nothing is read again."""
    turns = tape.memo(turns_again)
    if not turns:
        return None
    outer = tape.of_launches(tape.source.linked.tree.outer_operator)
    share, read_bytes = _left_of_ops(tape, turns, outer)
    least = np.maximum(tape.moving_ns(read_bytes), LEAST_KERNEL_NS)
    time = np.where(share < 1.0, np.maximum(tape.duration * share, least), tape.duration)
    left = tape.retimed(np.minimum(time, tape.duration))
    keeps = np.zeros(len(tape.dispatch))
    keeps[tape.event[_attending(tape, outer, share)]] = launches * tape.median_dispatch_ns
    return left.with_dispatch(left.dispatch + keeps)


def _left_of_ops(tape: Tape, turns: list[Turn], outer: I32 | I64) -> tuple[F64, F64]:
    """For each op the share of its time that is left, and what it reads whole, bytes."""
    linked = tape.source.linked
    launched = linked.launch_time[tape.row]
    in_order = np.argsort(launched, kind="stable")
    share: F64 = np.ones(len(outer))
    read_bytes: F64 = np.zeros(len(outer))
    for turn in turns:
        first, last = np.searchsorted(launched, (turn.start, turn.end), sorter=in_order).tolist()
        within = in_order[first:last]
        ops = within[outer[within] >= 0]
        told = operators(linked).tell(outer[ops], partial(_left, turn=turn))
        share[ops] = [one.share for one in told]
        read_bytes[ops] = [one.read_bytes for one in told]
    return share, read_bytes


def _left(operator: Operator, turn: Turn) -> _Left:
    """What is left of an operator that works on all words of a text."""
    tensors = [one for one in operator.typed if isinstance(one, Tensor)]
    of_words = [_has_words(one.shape, turn) for one in tensors]
    if not any(of_words):
        return ALL
    if not operator.named(READS_ALL):
        return _Left(1.0 / turn.words, 0.0)
    data = of_words.index(True)
    others = (one.bytes for i, one in enumerate(tensors) if i != data)
    return _Left(1.0 / turn.words, sum(filter(math.isfinite, others)))


def _has_words(shape: Shape, turn: Turn) -> bool:
    """Whether a tensor has something of each word of each item."""
    rows = turn.items * turn.words
    return (
        bool(shape) and (turn.words in shape or shape[0] == rows) and math.prod(shape) % rows == 0
    )


def _attending(tape: Tape, outer: I32 | I64, share: F64) -> I64:
    """The first op of each attention that works on one word now."""
    attends = np.zeros(len(outer), bool)
    found = operators_named(tape.source.linked, ATTENDS)
    shorter = np.flatnonzero((share < 1.0) & (outer >= 0))
    attends[shorter] = found[outer[shorter]]
    rows = np.flatnonzero(attends)
    return rows[np.unique(outer[rows], return_index=True)[1]]


def longest_again(tape: Tape) -> int:
    """Words of the longest text that is read again, 0 without any."""
    return max((turn.words for turn in tape.memo(turns_again)), default=0)
