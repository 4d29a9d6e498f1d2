"""Attention kernels in 16 bits, where fp32 was recorded: they are others, which work on tiles of
scores on the tensor cores.

What they take goes with their tiles: each block has rows of its own, goes over the others tile by
tile, and begins and ends in the time of another tile or two. Fitted to what ten kernels of seven
programs took on an H200 (32 to 4,096 tokens, 24 to 160 features, with and without dropout): 0.7 to
1.7 times as long as this says."""

import math
from typing import NamedTuple

import numpy as np

from traceanalyzer.base import NS_PER_S, regex
from traceanalyzer.replay.patterns.operators import Operator, operators
from traceanalyzer.replay.tape import Tape
from traceanalyzer.trace import F64

OF_HEADS = regex(r"^aten::_scaled_dot_product_\w*attention(_backward)?$")
"""Operators whose tensors are [batch, heads, tokens, features]."""
BACKWARD = regex(r"_backward$")
SHARE = regex(r"^0?\.0*[1-9]")
TILE = 64
"""Tokens, and features, that sizes are rounded up to."""
BEGUN = 128
"""Tokens that each block takes as long for as its beginning and end take."""
SLOTS = 18
BACKWARD_SLOTS = 48
"""Issue slots of a score."""
DROPOUT_SLOTS = 28
BACKWARD_DROPOUT_SLOTS = 18
"""What a random number for each score adds."""
ROW_TENSORS = 8
"""Tensors of the queries' size that the backward pass moves beside its main kernel."""
NARROW_BYTES = 2
START_NS = 3_000
EFFICIENCY = 0.75
BACKWARD_EFFICIENCY = 0.5
"""Shares of the tensor cores' peak that products forward and backward reach at most."""
HEADS = 4
FORWARD_DROPOUT = 5
BACKWARD_DROPOUT = 9
"""Place of the share that is dropped among the values."""


class _Attention(NamedTuple):
    """What an attention's sizes tell; NaN where they are not known."""

    operations: float = math.nan
    """Of a score, as they are counted."""
    tiled: float = math.nan
    """Times as many scores with those that fill tiles, and those that a block begins and ends in
    the time of."""
    padded: float = math.nan
    """Times as many operations with those that fill tiles."""
    slots: float = math.nan
    """Issue slots of a score."""
    peak_share: float = EFFICIENCY
    row_bytes: float = 0.0
    """What is moved for a score beside the main kernel."""

    def time_ns(self, flops: F64, peak: F64, issue_rate: F64, bandwidth: F64) -> F64:
        """What kernels with so many operations take at these limits of the GPU, ns."""
        scores = flops / self.operations
        arithmetic = flops * self.padded / (self.peak_share * peak)
        issued = scores * self.tiled * self.slots / issue_rate
        moved = scores * self.row_bytes / bandwidth
        return START_NS + (np.maximum(arithmetic, issued) + moved) * NS_PER_S


def narrow_attention_ns(tape: Tape, flops: F64) -> F64:
    """What each attention kernel takes in 16 bits with so many operations, ns; NaN for all other
    ops, and where sizes or GPU are not known."""
    result = np.full(len(tape.row), np.nan)
    places = np.flatnonzero(tape.of_classes("attention"))
    if not len(places):
        return result
    linked = tape.source.linked
    peak = linked.of_gpus(lambda gpu: gpu.tensor.get("bf16"))
    issue_rate = linked.limit("issue_rate")
    bandwidth = linked.limit("bandwidth")
    known = operators(linked).of_rows(tape.source.roofline.row[tape.row[places]])
    numbers = {operator: number for number, operator in enumerate(dict.fromkeys(known))}
    kind = np.array([numbers[operator] for operator in known])
    for operator, number in numbers.items():
        ops = places[kind == number]
        row = tape.row[ops]
        limits = (peak[row], issue_rate[row], bandwidth[row])
        result[ops] = _told_by(operator).time_ns(flops[ops], *limits)
    return result


def _told_by(operator: Operator) -> _Attention:
    backward = operator.named(BACKWARD)
    shapes = operator.shapes[backward:][:3]
    known = len(shapes) == 3 and all(len(one) == HEADS and 0 not in one for one in shapes)
    if not known or not operator.named(OF_HEADS):
        return _Attention()
    queries, d = shapes[0][-2:]
    keys, dv = shapes[1][-2], shapes[2][-1]
    filled = _filled(queries) * _filled(keys) / (queries * keys)
    begun = 1.0 + BEGUN / _filled(queries if backward else keys)
    padded = filled * _filled(d) / d
    dropout = _is_dropped(operator, BACKWARD_DROPOUT if backward else FORWARD_DROPOUT)
    if not backward:
        slots = SLOTS + DROPOUT_SLOTS * dropout
        return _Attention(2.0 * (d + dv), filled * begun, padded, slots)
    slots = BACKWARD_SLOTS + BACKWARD_DROPOUT_SLOTS * dropout
    row_bytes = ROW_TENSORS * NARROW_BYTES * d / keys
    operations = 2.0 * (3 * d + 2 * dv)
    return _Attention(operations, filled * begun, padded, slots, BACKWARD_EFFICIENCY, row_bytes)


def _is_dropped(operator: Operator, place: int) -> bool:
    """Whether a share above zero stands in this place among an operator's values."""
    values = operator.values
    return len(values) > place and SHARE.match(values[place]) is not None


def _filled(size: int) -> int:
    """The size, rounded up to whole tiles."""
    return math.ceil(size / TILE) * TILE
