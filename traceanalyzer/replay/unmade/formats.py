"""The ops of a tape in another number format: products on the units that calculate in it, and
tensors of half or twice the bytes.

To 16 bits it is what autocast does (`changes.precision`, as the advice `low_precision` has it):
products are cast, what lies between them stays in 16 bits until a parameter in fp32 widens it,
optimizers stay as they are. From fp32 to TF32 it is the advice `tf32`. Back from 16 bits products and
the tensors between them are wide, and nothing is cast."""

import numpy as np

from traceanalyzer.analysis.algebra import isin_few
from traceanalyzer.analysis.roofline.op_models import Precision
from traceanalyzer.base import NS_PER_S, dataclass
from traceanalyzer.replay.changes.casts import NARROW, without_casts
from traceanalyzer.replay.changes.precision import (
    DEPTHWISE,
    LAYOUTS,
    OF_BANDWIDTH,
    OPTIMISTIC,
    PESSIMISTIC,
    USUAL,
    WIDE,
    KernelWork,
    batch_norms_of_bf16,
    fp32_products,
    in_16_bits,
    in_half_width,
    in_tf32,
    moves_narrower,
    norms_in_bf16,
    products_in_tf32,
    recorded_work,
    wide_products,
)
from traceanalyzer.replay.patterns.named import kernels_named
from traceanalyzer.replay.scenario import Scenario
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

TWICE = 2.0
"""Bytes of fp32 over those of 16 bits."""
WIDE_ATTENTION = 0.28
"""Share of the ordinary cores' rate in fp32 that attention reaches in fp32 and TF32: flash kernels
know 16 bits alone (18 to 20 TFLOP/s forward and backward on an H200, in two models)."""
CODES = {"bf16": Precision.BF16, "fp32": Precision.FP32, "tf32": Precision.TF32}
AS_ADVISED = {
    "bf16": Scenario(
        "low_precision",
        in_16_bits(USUAL),
        "",
        optimistic=in_16_bits(OPTIMISTIC),
        pessimistic=in_16_bits(PESSIMISTIC),
    ),
    "tf32": Scenario("tf32", in_tf32, ""),
}
"""Changes of the number format that advice makes, too: the same step, in the same range."""
ALREADY = "the products are in {precision} already: nothing changes with --precision {precision}"
IN_16_BITS = "the products are in 16 bits already: nothing changes with --precision bf16"
NO_RATE = "this GPU's rate of products in bf16 is not known: it may have none"
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
    known = matrix & isin_few(recorded, (*WIDE, *NARROW))
    chosen = (known & (recorded != target)) | _chosen_by_name(tape, target)
    products = known | chosen
    if not products.any():
        raise QuestionError(NO_PRODUCTS)
    chosen_ns = float(tape.duration[chosen].sum())
    if chosen_ns < float(tape.duration[products].sum()) / 2:
        raise QuestionError(ALREADY.format(precision=precision))
    formats = np.where(chosen, np.int8(target), recorded).astype(np.int8)
    if target not in NARROW:
        formats[tape.of_classes("attention")] = Precision.FP32
    limits_then = limits_on(tape, source.linked.gpus, formats)
    if target in NARROW:
        return _narrowed(tape, load, limits_then)
    return _widened(tape, load, limits, limits_then, target, chosen)


def _chosen_by_name(tape: Tape, target: Precision) -> Bool:
    """Products whose format only names tell, and that would be in another one."""
    if target in NARROW:
        return wide_products(tape)
    if target == Precision.TF32:
        return fp32_products(tape)
    return np.zeros(len(tape.row), bool)


def _narrowed(tape: Tape, load: OpLoad, limits_then: GpuLimits) -> Formatted:
    """As the advice `low_precision` has it."""
    chosen = wide_products(tape)
    found = in_half_width(tape, _work(tape, load), USUAL)
    if found is None:
        raise QuestionError(NO_RATE if chosen.any() else IN_16_BITS)
    shorter = chosen | moves_narrower(tape)
    bytes_ = load.bytes / np.where(shorter, TWICE, 1.0)
    return Formatted(found, OpLoad(load.flops, bytes_, load.elements), limits_then, shorter)


def _work(tape: Tape, load: OpLoad) -> KernelWork:
    """What each op has to do with this load, in the terms of a change of the number format."""
    recorded = recorded_work(tape)
    more = load.bytes / np.where(recorded.bytes > 0, recorded.bytes, np.nan)
    expected = recorded.expected_bytes * np.nan_to_num(more, nan=1.0)
    return KernelWork(load.flops, load.bytes, expected)


def _widened(
    tape: Tape,
    load: OpLoad,
    limits_now: GpuLimits,
    limits_then: GpuLimits,
    target: Precision,
    chosen: Bool,
) -> Formatted:
    """In fp32 or TF32; what was in fp32 goes to TF32 as the advice `tf32` has it."""
    narrow = isin_few(tape.source.roofline.precision[tape.row], NARROW)
    moving = narrow & _between(tape) & ~kernels_named(tape, LAYOUTS)
    more = np.where((chosen | moving) & narrow, TWICE, 1.0)
    moved = OpLoad(load.flops, load.bytes * more, load.elements)
    time = _products(tape, load, moved, limits_now, limits_then, chosen)
    on_tensor_cores = (
        products_in_tf32(tape, _work(tape, load)) if target == Precision.TF32 else None
    )
    if on_tensor_cores is not None:
        time = np.where(fp32_products(tape), on_tensor_cores.duration, time)
    attended_ns = load.flops / (WIDE_ATTENTION * limits_then.peak) * NS_PER_S
    attention = chosen & narrow & tape.of_classes("attention") & np.isfinite(attended_ns)
    time = np.where(attention, start_ns(tape) + attended_ns, time)
    longer = time * (1.0 + (TWICE - 1.0) * _limited(tape, load, limits_now))
    longer = np.where(moving, longer, time)
    longer = np.where(batch_norms_of_bf16(tape), time / norms_in_bf16(tape), longer)
    widened = without_casts(tape.retimed(longer))
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
    usable = chosen & np.isfinite(grows) & ~kernels_named(tape, DEPTHWISE)
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
