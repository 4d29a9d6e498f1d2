"""Turns of a loop that each take an item of their own, as one call for all items.

What all turns take alike (the vectors that are searched, a layer's weights) is then read once:
where a product of a turn waits for memory to bring it, the product for all items hardly takes
longer."""

from dataclasses import replace

import numpy as np

from traceanalyzer.base import NS_PER_S
from traceanalyzer.replay.changes.loops.repetition import REACHED, between, joined
from traceanalyzer.replay.patterns.counted_turns import counted_turns
from traceanalyzer.replay.patterns.item_turns import item_turns
from traceanalyzer.replay.patterns.named import launched_within
from traceanalyzer.replay.patterns.operators import JOINING
from traceanalyzer.replay.patterns.repeats import after_each
from traceanalyzer.replay.tape import Tape
from traceanalyzer.trace import F64, Bool


def turns_joined(tape: Tape) -> Tape | None:
    """Turns over items of one model are one call; None without any."""
    return _joined(tape, own_weights=False)


def turns_of_weights_joined(tape: Tape) -> Tape | None:
    """Turns that each take an item and weights of their own are one call with batched products;
    None without any."""
    return _joined(tape, own_weights=True)


def _joined(tape: Tape, *, own_weights: bool) -> Tape | None:
    every = tape.memo(item_turns) or tape.memo(counted_turns)
    alike = [one for one in every if one.own_weights == own_weights]
    if not alike:
        return None
    first = ops_of_operators(tape, [node for one in alike for node in one.first])
    others = ops_of_operators(tape, [node for one in alike for node in one.others])
    gone = others | (after_each(others) & launched_within(tape, JOINING))
    count = np.ones(len(tape.row))
    for turns in alike:
        count[ops_of_operators(tape, list(turns.first))] = turns.count
    waits = between(tape, gone)
    left = joined(tape, first & ~gone, gone, count).without_dispatch(waits).without_work(waits)
    duration = left.duration
    for turns in alike:
        for shared in turns.shared:
            ops = ops_of_operators(tape, [shared.operator]) & tape.source.linked.is_matrix[tape.row]
            once = np.rint(tape.duration * _growth_read_once(tape, turns.count, shared.share))
            duration = np.where(ops, np.minimum(duration, once.astype(np.int64)), duration)
    return replace(left, duration=duration)


def ops_of_operators(tape: Tape, nodes: list[int]) -> Bool:
    """The ops of these operators, forward and backward."""
    chosen = np.zeros(len(tape.source.linked.tree.start) + 1, bool)
    chosen[nodes] = True
    within_them = chosen[tape.source.linked.tree.outer_operator]
    return tape.of_launches(within_them) | tape.backward_of(within_them)


def _growth_read_once(tape: Tape, count: int, share: float) -> F64:
    """How much longer a product takes for so many items if this share of what it moves is read once
    for all: as long as the rest of the traffic takes, or the arithmetic on ordinary cores."""
    roofline = tape.source.roofline
    linked = tape.source.linked
    row = tape.row
    rate = linked.of_gpus(lambda gpu: gpu.vector.get("fp32"))[row]
    arithmetic = roofline.flops[row] * count / rate
    moved = roofline.bytes[row] * (share + (1.0 - share) * count)
    moving = moved / linked.limit("bandwidth")[row]
    needed_ns = np.maximum(arithmetic, moving) / REACHED * NS_PER_S
    longer = needed_ns / np.maximum(tape.duration, 1)
    return np.where(np.isfinite(longer), np.maximum(longer, 1.0), count)
