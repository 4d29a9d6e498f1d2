"""Input that is sent to the device in fp32 although fewer bytes would do: what the device casts to
16 bits at once, and pictures, whose numbers were bytes before the host scaled them.

The recording shows the format that is sent, the shape of pictures and the cast; that pictures come
from bytes it does not show."""

import math
import re
from collections.abc import Sequence

import numpy as np

from traceanalyzer.analysis.roofline.op_models.tensors import (
    BFLOAT16,
    BYTE,
    FLOAT,
    HALF,
    SCALAR_TYPES,
    Shape,
    Tensor,
)
from traceanalyzer.replay.changes.data.host_memory import narrower_before
from traceanalyzer.replay.changes.data.loading import LEAST_COPY_NS, MOVES, input_copies
from traceanalyzer.replay.patterns.named import Outermost, movers
from traceanalyzer.replay.patterns.operators import Operator
from traceanalyzer.replay.tape import Tape, parametric
from traceanalyzer.trace import F64

COLOURS = 3
LEAST_SIDE = 16  # pixels: what is smaller is hardly a picture
PICTURES = (4, 5)  # dimensions of a batch of pictures, and of films
OPERATORS_AFTER = 2  # so many after a copy are searched for a cast of what it brought
CASTS = re.compile(r"^aten::(to|_to_copy|type_as|half|bfloat16)$")
CODES_OF_16_BITS = {str(code) for code, dtype in SCALAR_TYPES.items() if dtype in (HALF, BFLOAT16)}
"""How a recording writes `torch.float16` and `torch.bfloat16` among an operator's values."""
SCALING_PASSES = 5.25
"""What the device moves, in units of the fp32 numbers, to make them of bytes: it reads a quarter
and writes them, and goes over them twice to shift and scale them, operator by operator."""


def sent_wide(tape: Tape) -> F64:
    """For each op the share of its bytes that a copy of input to the device needs; 1 where that is
    all, or is not known."""
    outermost = Outermost(tape)
    bytes_ = tape.source.trace.device_ops.bytes[tape.row]
    share = np.ones(len(tape.row))
    for i, place in movers(tape, input_copies(tape)):
        mover, *after = outermost.follow(place, 1 + OPERATORS_AFTER)
        sent = mover.typed[0] if mover.named(MOVES) and mover.typed else None
        if isinstance(sent, Tensor) and _is_fp32(sent, int(bytes_[i])):
            share[i] = _needed(sent.shape, after)
    # What the host widens is for `move_host_work`.
    return np.where(tape.memo(narrower_before) < 1.0, 1.0, share)


def _is_fp32(sent: Tensor, bytes_: int) -> bool:
    """Whether a tensor that was sent is of fp32 numbers: by its type, or by how many bytes it has
    where that was not recorded."""
    known = math.isfinite(sent.dtype.bytes)
    return sent.dtype == FLOAT if known else bytes_ == FLOAT.bytes * sent.numel


def _needed(sent: Shape, after: Sequence[Operator]) -> float:
    if are_pictures(sent):
        return BYTE.bytes / FLOAT.bytes
    cast = any(one.first == sent and _to_16_bits(one) for one in after)
    return BFLOAT16.bytes / FLOAT.bytes if cast else 1.0


def are_pictures(shape: Shape) -> bool:
    """Whether a tensor has the shape of colour pictures, or films, with the colours first or
    last."""
    if len(shape) not in PICTURES:
        return False
    if shape[-1] == COLOURS:
        return min(shape[-3:-1]) >= LEAST_SIDE
    before_sides = shape[1:-2]
    return COLOURS in before_sides and min(shape[-2:]) >= LEAST_SIDE


def _to_16_bits(operator: Operator) -> bool:
    if not operator.named(CASTS):
        return False
    if not CODES_OF_16_BITS.isdisjoint(operator.values[1:2]):
        return True
    like = (one.dtype for one in operator.typed[1:] if isinstance(one, Tensor))
    return any(dtype in (HALF, BFLOAT16) for dtype in like)


@parametric
def sent_narrow(tape: Tape, least_share: float) -> Tape | None:
    """Input is sent in as few bytes as are needed, but no fewer than this share, and what was bytes
    is scaled on the device; None where all bytes are needed."""
    share = tape.memo(sent_wide)
    less = share < 1.0
    if not less.any():
        return None
    bytes_ = tape.source.trace.device_ops.bytes[tape.row]
    scaled = less & (share < BFLOAT16.bytes / FLOAT.bytes)
    scaling = np.where(scaled, tape.moving_ns(bytes_, SCALING_PASSES), 0.0)
    narrow = np.maximum(tape.duration * np.maximum(share, least_share), LEAST_COPY_NS) + scaling
    return tape.retimed(np.where(less, np.minimum(narrow, tape.duration), tape.duration))
