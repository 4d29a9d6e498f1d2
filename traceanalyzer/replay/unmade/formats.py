"""The ops of a tape in another number format: products on the units that calculate in it, and
tensors of half or twice the bytes.

To 16 bits it is what autocast does (`changes.precision`): products are cast, what lies between them
stays in 16 bits until a parameter in fp32 widens it, optimizers stay as they are. Back from 16 bits
products and the tensors between them are wide, and nothing is cast."""

import numpy as np

from traceanalyzer.analysis.algebra import isin_few
from traceanalyzer.analysis.roofline.op_models import Precision
from traceanalyzer.base import NS_PER_S, dataclass
from traceanalyzer.replay.changes.casts import NARROW, with_casts, without_casts
from traceanalyzer.replay.changes.precision import (
    CAST_SHARE,
    INDEXING,
    LONGEST_SMALL_NS,
    OF_BANDWIDTH,
    WIDE,
    kept_in_fp32,
)
from traceanalyzer.replay.patterns.named import kernels_named
from traceanalyzer.replay.tape import Tape
from traceanalyzer.replay.unmade.curve import (
    GpuLimits,
    ideal_ns,
    limits_on,
    product_growth,
    start_ns,
)
from traceanalyzer.replay.unmade.question import QuestionError
from traceanalyzer.replay.unmade.work import OpLoad
from traceanalyzer.trace import F64, Bool

TRAFFIC_LEFT = 0.6
"""Share of its time that a kernel of fp32 tensors takes in 16 bits, where the memory limits it."""
INDEXED_LEFT = 0.85
"""Share left of one that finds each number by its index (`changes.precision.INDEXING`)."""
TWICE = 2.0
"""Bytes of fp32 over those of 16 bits."""
WIDE_ATTENTION = 0.28
"""Share of the ordinary cores' rate in fp32 that attention reaches in fp32 and TF32: flash kernels
know 16 bits alone (18 to 20 TFLOP/s forward and backward on an H200, in two models)."""
CODES = {"bf16": Precision.BF16, "fp32": Precision.FP32, "tf32": Precision.TF32}
ALREADY = "the products are in {precision} already: nothing changes with --precision {precision}"
NO_PRODUCTS = "no matmuls with known number formats were recorded"


@dataclass(frozen=True, eq=False)
class Formatted:
    """A tape in another number format, what its ops then have to do, and which changed."""

    tape: Tape
    load: OpLoad
    limits: GpuLimits
    changed: Bool


def in_format(tape: Tape, load: OpLoad, limits: GpuLimits, precision: str) -> Formatted:
    """The tape, whose ops have this work, in a number format. Raises QuestionError where there is
    nothing to change."""
    target = CODES[precision]
    source = tape.source
    recorded = source.roofline.precision[tape.row]
    matrix = source.linked.is_matrix[tape.row] & tape.compute
    products = matrix & isin_few(recorded, (*WIDE, *NARROW))
    if not products.any():
        raise QuestionError(NO_PRODUCTS)
    chosen = products & (recorded != target)
    chosen_ns = float(tape.duration[chosen].sum())
    if chosen_ns < float(tape.duration[products].sum()) / 2:
        raise QuestionError(ALREADY.format(precision=precision))
    formats = np.where(chosen, np.int8(target), recorded).astype(np.int8)
    if target not in NARROW:
        formats[tape.of_classes("attention")] = Precision.FP32
    limits_then = limits_on(tape, source.linked.gpus, formats)
    narrow = isin_few(recorded, NARROW)
    if target in NARROW:
        return _narrowed(tape, load, limits, limits_then, chosen)
    return _widened(tape, load, limits, limits_then, chosen, narrow)


def _narrowed(
    tape: Tape, load: OpLoad, limits_now: GpuLimits, limits_then: GpuLimits, chosen: Bool
) -> Formatted:
    half = OpLoad(load.flops, load.bytes / np.where(chosen, TWICE, 1.0), load.elements)
    time = _products(tape, load, half, limits_now, limits_then, chosen) * np.where(
        chosen, 1 + CAST_SHARE, 1.0
    )
    stays, cast = kept_in_fp32(tape)
    time = time + tape.moving_ns(chosen * cast)
    wide = isin_few(tape.source.roofline.precision[tape.row], WIDE)
    large = tape.duration >= LONGEST_SMALL_NS
    moving = wide & large & _between(tape) & ~stays
    left = np.where(kernels_named(tape, INDEXING), INDEXED_LEFT, TRAFFIC_LEFT)
    shorter = time * (1.0 - (1.0 - left) * _limited(tape, load, limits_now))
    time = np.where(moving, shorter, time)
    moved = OpLoad(load.flops, half.bytes / np.where(moving, TWICE, 1.0), load.elements)
    narrowed = with_casts(tape, chosen).retimed(np.minimum(time, tape.duration))
    return Formatted(narrowed, moved, limits_then, chosen | moving)


def _widened(
    tape: Tape,
    load: OpLoad,
    limits_now: GpuLimits,
    limits_then: GpuLimits,
    chosen: Bool,
    narrow: Bool,
) -> Formatted:
    moving = narrow & _between(tape)
    more = np.where((chosen | moving) & narrow, TWICE, 1.0)
    moved = OpLoad(load.flops, load.bytes * more, load.elements)
    time = _products(tape, load, moved, limits_now, limits_then, chosen)
    attended_ns = load.flops / (WIDE_ATTENTION * limits_then.peak) * NS_PER_S
    attention = chosen & narrow & tape.of_classes("attention") & np.isfinite(attended_ns)
    time = np.where(attention, start_ns(tape) + attended_ns, time)
    longer = time * (1.0 + (TWICE - 1.0) * _limited(tape, load, limits_now))
    widened = without_casts(tape.retimed(np.where(moving, longer, time)))
    return Formatted(widened, moved, limits_then, chosen | moving)


def _products(
    tape: Tape,
    now: OpLoad,
    then: OpLoad,
    limits_now: GpuLimits,
    limits_then: GpuLimits,
    chosen: Bool,
) -> F64:
    """The time of each op, of products with their other rate and traffic, ns."""
    start = start_ns(tape)
    grows = product_growth(ideal_ns(now, limits_now), ideal_ns(then, limits_then))
    usable = chosen & np.isfinite(grows)
    time: F64 = np.where(usable, start + (tape.duration - start) * grows, tape.duration)
    return time


def _between(tape: Tape) -> Bool:
    """Kernels between products, whose tensors have the products' format: not those of optimizers,
    and not what sorts or adds up by index, which stays in the widest format."""
    other = tape.source.linked.is_matrix[tape.row] | tape.in_optimizer
    return tape.compute & ~other & ~tape.of_classes("sort", "embedding")


def _limited(tape: Tape, load: OpLoad, limits: GpuLimits) -> F64:
    """How far the memory limits each op, 0..1; 1 where that is not known."""
    reached = load.bytes / limits.bandwidth * NS_PER_S / np.maximum(tape.duration, 1)
    return np.where(np.isfinite(reached), np.clip(reached / OF_BANDWIDTH, 0.0, 1.0), 1.0)
