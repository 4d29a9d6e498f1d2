"""Input that is sent to the device in fp32 although fewer bytes would do: what the device casts to
16 bits at once; pictures, whose numbers were bytes before the host scaled them; and masks of classes
(one-hot), which are compared with what a network holds for likely.

The recording shows the format that is sent, the shape of pictures, the cast and the comparison;
that pictures come from bytes, and that a mask holds zeros and ones, it does not show."""

import enum
import math
from collections.abc import Iterator, Sequence
from itertools import islice

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
from traceanalyzer.base import regex
from traceanalyzer.replay.changes.data.host_memory import narrower_before
from traceanalyzer.replay.changes.data.loading import LEAST_COPY_NS, MOVES, input_copies
from traceanalyzer.replay.patterns.named import Outermost, movers
from traceanalyzer.replay.patterns.operators import Operator
from traceanalyzer.replay.tape import Tape, parametric
from traceanalyzer.trace import I64

COLOURS = 3
LEAST_SIDE = 16  # pixels: what is smaller is hardly a picture
PICTURES = (4, 5)  # dimensions of a batch of pictures, and of films
OPERATORS_AFTER = 2  # so many after a copy are searched for a cast of what it brought
CASTS = regex(r"^aten::(to|_to_copy|type_as|half|bfloat16)$")
CODES_OF_16_BITS = {str(code) for code, dtype in SCALAR_TYPES.items() if dtype in (HALF, BFLOAT16)}
"""How a recording writes `torch.float16` and `torch.bfloat16` among an operator's values."""
PROBABILITIES = regex(r"^aten::((log_)?softmax|sigmoid)$")
COMPARES = regex(r"^aten::(mul|sub|binary_cross_entropy)$")
LIKELIHOOD = regex(r"^aten::binary_cross_entropy_with_logits$")
COMPARED_WITHIN = 4
"""So many operators after probabilities are searched for their comparison with a mask."""
LONGEST_FORWARD_OPERATORS = 2048
"""So many operators after a copy are searched for the first that takes as many numbers."""
SCALING_PASSES = 5.25
"""What the device moves, in units of the fp32 numbers, to make them of bytes: it reads a quarter
and writes them, and goes over them twice to shift and scale them, operator by operator."""


class Sent(enum.IntEnum):
    """What a copy of input brings, by what fewer bytes would do."""

    AS_NEEDED = 0  # in as few bytes as are needed, or not known
    HALVES = 1
    PICTURES = 2
    MASKS = 3


_OF_BYTES = BYTE.bytes / FLOAT.bytes
SHARES = np.array([1.0, BFLOAT16.bytes / FLOAT.bytes, _OF_BYTES, _OF_BYTES])
"""The share of its bytes that each of them needs."""


def sent_wide(tape: Tape) -> I64:
    """For each op what it brings (`Sent`), as far as it is a copy of input to the device."""
    outermost = Outermost(tape)
    bytes_ = tape.source.trace.device_ops.bytes[tape.row]
    found = np.full(len(tape.row), int(Sent.AS_NEEDED))
    for i, place in movers(tape, input_copies(tape)):
        mover, *after = outermost.follow(place, 1 + OPERATORS_AFTER)
        sent = mover.typed[0] if mover.named(MOVES) and mover.typed else None
        if isinstance(sent, Tensor) and _is_fp32(sent, int(bytes_[i])):
            following = outermost.follow(place + 1, LONGEST_FORWARD_OPERATORS)
            found[i] = _what_is_sent(sent.shape, after, following)
    # What the host widens is for `move_host_work`.
    return np.where(tape.memo(narrower_before) < 1.0, int(Sent.AS_NEEDED), found)


def _is_fp32(sent: Tensor, bytes_: int) -> bool:
    """Whether a tensor that was sent is of fp32 numbers: by its type, or by how many bytes it has
    where that was not recorded."""
    known = math.isfinite(sent.dtype.bytes)
    return sent.dtype == FLOAT if known else bytes_ == FLOAT.bytes * sent.numel


def _what_is_sent(sent: Shape, after: Sequence[Operator], following: Iterator[Operator]) -> Sent:
    if are_pictures(sent):
        return Sent.PICTURES
    if any(one.first == sent and _to_16_bits(one) for one in after):
        return Sent.HALVES
    return Sent.MASKS if _is_mask(sent, following) else Sent.AS_NEEDED


def are_pictures(shape: Shape) -> bool:
    """Whether a tensor has the shape of colour pictures, or films, with the colours first or
    last."""
    if len(shape) not in PICTURES:
        return False
    if shape[-1] == COLOURS:
        return min(shape[-3:-1]) >= LEAST_SIDE
    before_sides = shape[1:-2]
    return COLOURS in before_sides and min(shape[-2:]) >= LEAST_SIDE


def _is_mask(sent: Shape, following: Iterator[Operator]) -> bool:
    """Whether nothing takes a tensor of this shape until a network's probabilities have it, with
    which it is then compared."""
    first = next((one for one in following if _takes(one, sent)), None)
    if first is None or len(sent) < 2:
        return False
    if first.named(LIKELIHOOD):
        return first.shapes[:2] == [sent, sent]
    compared = islice(following, COMPARED_WITHIN)
    return first.named(PROBABILITIES) and any(
        one.named(COMPARES) and one.shapes[:2] == [sent, sent] for one in compared
    )


def _takes(operator: Operator, shape: Shape) -> bool:
    """Whether an operator takes a tensor of this shape that may be of fp32 numbers."""
    tensors = (one for one in operator.typed if isinstance(one, Tensor))
    return any(one.shape == shape and one.dtype.bytes not in (1, 2, 8) for one in tensors)


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
    sent = tape.memo(sent_wide)
    less = sent != Sent.AS_NEEDED
    if not less.any():
        return None
    share = SHARES[sent]
    bytes_ = tape.source.trace.device_ops.bytes[tape.row]
    scaling = np.where(sent > Sent.HALVES, tape.moving_ns(bytes_, SCALING_PASSES), 0.0)
    narrow = np.maximum(tape.duration * np.maximum(share, least_share), LEAST_COPY_NS) + scaling
    return tape.retimed(np.where(less, np.minimum(narrow, tape.duration), tape.duration))
