"""Kernels in another number format: TF32 for products, or 16 bits for products and the traffic
between them.

Autocast gives 16 bits to products, fp32 to norms, softmaxes, powers and losses, and leaves other
operators to PyTorch's rule, by which the wider format wins (`patterns/autocast.py`). What works on
fp32 takes as long as in fp32, and each cast takes a pass over what it casts."""

import math

import numpy as np

from traceanalyzer.analysis.algebra import isin_few
from traceanalyzer.analysis.groups.bounds import which_undersized
from traceanalyzer.analysis.roofline.bounds import NO
from traceanalyzer.analysis.roofline.op_models import Precision
from traceanalyzer.analysis.roofline.rated import Rated
from traceanalyzer.base import NS_PER_S, dataclass, regex
from traceanalyzer.replay.changes.casts import NARROW, added_casts, with_casts, works_in_fp32
from traceanalyzer.replay.changes.narrow_attention import narrow_attention_ns
from traceanalyzer.replay.patterns.named import kernels_named
from traceanalyzer.replay.patterns.operators import Operator, operators
from traceanalyzer.replay.tape import Tape, parametric
from traceanalyzer.trace import F64, I64, Bool

TENSOR_EFFICIENCY = 0.75
"""Share of the tensor cores' dense peak that large products reach (0.71 to 0.79 on an H200 for TF32
and bf16)."""
TF32_PASSES = 2.0
"""Times as long as at the memory's peak rate thin products take for their traffic in TF32 (1.9 and
2.4 in two programs on an H200)."""
HALF = 0.5  # what is left of the traffic of fp32 tensors in 16 bits
CAST_SHARE = 0.1
"""What autocast's casts of weights and activations add to the products they are for."""
OF_BANDWIDTH = 0.6
"""Share of the memory's bandwidth from which on a kernel is limited by it. One that reaches less
waits for something else, and moves half the bytes hardly faster."""
INDEXING = regex(r"\bat::native::(elementwise_kernel<|\(anonymous namespace\)::roll_cuda_kernel)")
"""Operands are spread (broadcast), or lie in another order. In fp32 these reach 0.72 of the
memory's bandwidth (1,300 kernels on H100s and H200s), in 16 bits 0.41 (1,400), in both formats
mixed 0.49; where operands lie alike it is 0.90 in either format."""
DEPTHWISE = regex(r"\bconv_depthwise[23]d_")
"""PyTorch's own kernels of convolutions with a weight for each channel: they multiply on the
ordinary cores in each format, and took 0.97 to 1.04 times as long in 16 bits in two programs."""
LAYOUTS = regex(r"\bcudnn::.*nc?hw(To|2)n")
"""cuDNN's kernels that change the layout around its convolutions: 0.86 to 1.04 times as long."""
CUDNN_NORMS = regex(r"\bbn_(fw|bw)_")
BF16_NORMS = regex(
    r"\bbatch_norm_(collect_statistics|transform_input|backward)_kernel<(?!.*channels_last).*BFloat16"
)
PRODUCT_START_NS = 2_500
"""What the shortest product takes."""
ROOT_NS = 45.0
"""Products reach their rate slowly: what they take more, times the root of their ideal time in ns
(`unmade/curve.py`)."""
MOST_OF_IDEAL = 6.0
"""Products that take longer than so many times their ideal time have a poor kernel, and another one
in another format."""
TRAINING_NORM = 1.37
SERVING_NORM = 0.95
"""Times as long as cuDNN's batch norms of fp32 PyTorch's own of bf16 take: 1.34, 1.38 and 1.40 of
three programs that train, 0.94 of one that serves."""
NAMED_TF32 = regex(r"_tf32|fmha(?:(?!fmha)\w)*_f32_")
NAMED_ORDINARY = regex(r"simt_sgemm|(?<![a-z])sgemm|_f32f32_f32f32_")
"""Products of fp32 numbers on tensor cores and on the ordinary ones, by names of kernels."""
LEAST_OF_ORDINARY = 0.25
"""Share of their time that products on ordinary cores keep on tensor cores: how much of it was
traffic is not told by names."""
MOVES_DATA = regex(r"^(?>.*?\bat::native::)(?>.*?(?:elementwise|reduce)_kernel<)")
NAMED_FLOATS = regex(MOVES_DATA.pattern + r".*\bfloat\b")
NAMED_NARROW = regex(r"Half|BFloat16|bf16|_f16|fp16")
WIDE = (Precision.FP32, Precision.TF32)
LONGEST_SMALL_NS = 5_000  # a kernel under this is hardly limited by traffic


NAMED_DOUBLE = regex(r"\bdouble2?\b|dgemm|d884gemm|_f64f64_")
NAMED_SHORTER = regex(r"\bfloat\b|[Hh]alf|[Bb][Ff]loat16|bf16|_f16|_f32")
"""Kernels on doubles by their names: those on other formats take numbers in doubles as arguments,
too."""
SINGLE = "fp32"
FP32_BYTES = 4
LAYER_NORM = regex(r"^aten::native_layer_norm$")
MOMENTS = regex(r"RowwiseMoments")
FOUR_AT_A_TIME = 4
"""PyTorch's layer norm of fp32 numbers is one kernel, which takes four at a time where that divides
a row; of doubles another kernel first finds the mean of each row, number by number."""


@dataclass(frozen=True, eq=False)
class KernelWork:
    """What each op of a tape has to do; NaN where it is not known."""

    flops: F64
    bytes: F64
    """At least."""
    expected_bytes: F64
    """With the traffic that such kernels cause beyond that."""


@dataclass(frozen=True)
class HalfWidth:
    """How much a program gains from 16 bits."""

    efficiency: float
    """Share of the peak that products reach."""
    traffic: float
    """Share of their time that kernels keep that move fp32 tensors."""
    indexed: float
    """The same of kernels that index each number (`INDEXING`)."""
    product: float
    """Share of their time beyond the start that products on tensor cores keep."""
    batch_norm: float
    """Times as long as usual PyTorch's batch norms take in place of cuDNN's."""


USUAL = HalfWidth(TENSOR_EFFICIENCY, 0.6, 0.85, 0.45, 1.0)
"""Half of the bytes. Where operands do not lie alike in memory, these move at 0.6 times the rate.
Products of twelve programs that an H200 ran in both formats kept 0.31 to 0.69 of their time in
TF32, in the median 0.45."""
OPTIMISTIC = HalfWidth(0.85, 0.5, 0.7, 0.38, 0.8)
PESSIMISTIC = HalfWidth(0.5, 0.8, 1.0, 0.55, 1.2)


def recorded_work(tape: Tape) -> KernelWork:
    """What each op had to do in the recording."""
    roofline = tape.source.roofline
    return KernelWork(
        roofline.flops[tape.row], roofline.bytes[tape.row], roofline.expected[tape.row]
    )


def in_tf32(tape: Tape) -> Tape | None:
    """Products of fp32 matrices off the tensor cores run on them, as TF32; None where there are
    none, or where the GPU's rate is not known."""
    return products_in_tf32(tape, recorded_work(tape))


def products_in_tf32(tape: Tape, work: KernelWork) -> Tape | None:
    """Products of fp32 matrices run as TF32, where the ops have this work."""
    return _products(tape, fp32_products(tape), work, "tf32", TENSOR_EFFICIENCY)


@parametric
def in_16_bits(tape: Tape, reading: HalfWidth) -> Tape | None:
    """Products of fp32 matrices run in bf16, and kernels that move fp32 tensors forward and backward
    become shorter (`HalfWidth`), but what autocast gives fp32, which products then cast; None without
    such products, or where the rate is not known."""
    return in_half_width(tape, recorded_work(tape), reading)


def in_half_width(tape: Tape, work: KernelWork, reading: HalfWidth) -> Tape | None:
    """Products of fp32 matrices run in bf16, where the ops have this work."""
    chosen = wide_products(tape)
    if _named_wide(tape).any() and not _tells_formats(tape):
        return _by_names(tape, reading)
    narrowed = _products_in_16_bits(tape, chosen, work, reading)
    if narrowed is None:
        return None
    left = np.where(kernels_named(tape, INDEXING), reading.indexed, reading.traffic)
    bandwidth = tape.source.linked.limit("bandwidth")[tape.row]
    traffic_ns = work.expected_bytes / bandwidth * NS_PER_S
    reached = traffic_ns / np.maximum(tape.duration, 1)
    limited = np.where(np.isfinite(reached), np.clip(reached / OF_BANDWIDTH, 0.0, 1.0), 1.0)
    less = narrowed * (1.0 - (1.0 - left) * limited)
    duration = np.minimum(np.where(moves_narrower(tape), less, narrowed), tape.duration)
    norms = batch_norms_replaced(tape)
    longer = norms_in_bf16(tape) * reading.batch_norm
    duration = np.where(norms, tape.duration * longer, duration)
    added = tape.memo(added_casts)
    casts_ns = CAST_SHARE * narrowed * chosen if added is None else added.device_ns
    return with_casts(tape, chosen).retimed(duration + casts_ns)


def _products_in_16_bits(
    tape: Tape, chosen: Bool, work: KernelWork, reading: HalfWidth
) -> F64 | None:
    """The time of each op, of these products in 16 bits, ns: those on tensor cores stay as far from
    their peak as they are, and attention has other kernels; None without such products, or where
    the rate is not known."""
    found = _products(tape, chosen, work, "bf16", reading.efficiency)
    if found is None:
        return None
    time = tape.duration.astype(np.float64)
    start = np.minimum(PRODUCT_START_NS, time)
    off_cores = tape.source.roofline.tensor[tape.row] == NO
    share = np.where(off_cores, 0.0, reading.product)
    ideal = np.maximum(found.duration - start, 0.0)
    slow = np.minimum(share * (time - start), MOST_OF_IDEAL * ideal + ROOT_NS * np.sqrt(ideal))
    slowly = off_cores & np.isfinite(work.flops)
    least = start + np.maximum(ideal + ROOT_NS * np.sqrt(ideal) * slowly, slow)
    times = np.where(chosen, least, time)
    attention = narrow_attention_ns(tape, work.flops) * TENSOR_EFFICIENCY / reading.efficiency
    times = np.where(chosen & np.isfinite(attention), attention, times)
    return np.minimum(times, time)


def moves_narrower(tape: Tape) -> Bool:
    """Kernels between products that move fp32 tensors, and would move 16 bits of each number."""
    # Sorts are of indices, and what adds up rows by index stays in the widest format among its
    # operands.
    other = (
        tape.source.linked.is_matrix[tape.row]
        | tape.in_optimizer
        | tape.of_classes("sort", "embedding")
    )
    large = tape.duration >= LONGEST_SMALL_NS
    wide = isin_few(tape.source.roofline.precision[tape.row], WIDE)
    kept = works_in_fp32(tape) | kernels_named(tape, LAYOUTS) | batch_norms_replaced(tape)
    return wide & large & tape.compute & ~other & ~wide_products(tape) & ~kept


def batch_norms_replaced(tape: Tape) -> Bool:
    """Batch norms of cuDNN, which takes no activations in bf16 with weights in fp32: PyTorch's own
    are in their place."""
    return kernels_named(tape, CUDNN_NORMS) & ~works_in_fp32(tape)


def batch_norms_of_bf16(tape: Tape) -> Bool:
    """PyTorch's batch norms of bf16, in whose place cuDNN's are in fp32."""
    return kernels_named(tape, BF16_NORMS)


def norms_in_bf16(tape: Tape) -> float:
    """Times as long as cuDNN's batch norms of fp32 PyTorch's own of bf16 take."""
    return TRAINING_NORM if tape.in_backward.any() else SERVING_NORM


@parametric
def in_32_bits(tape: Tape, traffic: float) -> Tape | None:
    """Kernels on doubles work on fp32 numbers: they take this share of their time, products what
    the ordinary cores take at a share of their peak where that is longer; None without any."""
    chosen = of_doubles(tape)
    if not chosen.any():
        return None
    linked = tape.source.linked
    peak = linked.of_gpus(lambda gpu: gpu.vector.get(SINGLE))[tape.row]
    arithmetic = tape.source.roofline.flops[tape.row] / (peak * TENSOR_EFFICIENCY) * NS_PER_S
    products = linked.is_matrix[tape.row] & np.isfinite(arithmetic)
    least = np.where(products, arithmetic, 0.0)
    left = np.maximum(tape.duration * traffic, least)
    left = np.fmin(left, _moments_read_at_once(tape, chosen))
    return tape.retimed(np.where(chosen, np.minimum(left, tape.duration), tape.duration))


def _moments_read_at_once(tape: Tape, chosen: Bool) -> F64:
    """For each of the chosen ops that find the means of a layer norm's rows what reading these as
    fp32 takes, ns; NaN for all others."""
    linked = tape.source.linked
    finds = np.flatnonzero(chosen & kernels_named(tape, MOMENTS))
    nodes = tape.of_launches(linked.tree.operator)[finds]
    numbers = operators(linked).tell(nodes, _numbers_in_fours)
    read_ns = np.full(len(tape.row), np.nan)
    read_bytes = np.zeros(len(tape.row))
    read_bytes[finds] = np.array(numbers, float) * FP32_BYTES
    known = read_bytes > 0
    read_ns[known] = tape.moving_ns(read_bytes)[known] / OF_BANDWIDTH
    return np.where(read_ns > 0, read_ns, np.nan)


def _numbers_in_fours(operator: Operator) -> int:
    """How many numbers a layer norm takes, four at a time; 0 where it cannot, or is none."""
    shape = operator.first_tensor if operator.named(LAYER_NORM) else ()
    return math.prod(shape) if shape and shape[-1] % FOUR_AT_A_TIME == 0 else 0


def of_doubles(tape: Tape) -> Bool:
    """Kernels that calculate with doubles, fill the GPU and take long enough to become shorter, by
    what their operators take; by their names where that is not known."""
    precision = tape.source.roofline.precision[tape.row]
    named = kernels_named(tape, NAMED_DOUBLE) & ~kernels_named(tape, NAMED_SHORTER)
    doubles = (precision == Precision.FP64) | ((precision == Precision.UNKNOWN) & named)
    fills = ~which_undersized(tape.source)[tape.row]
    return doubles & fills & tape.compute & (tape.duration >= LONGEST_SMALL_NS)


def _by_names(tape: Tape, reading: HalfWidth) -> Tape | None:
    """A step in 16 bits where operators were not recorded (Nsight Systems), as far as names tell
    formats: products in TF32 take as much less as the peak is higher, those on ordinary cores no
    less than a share that their traffic may need; None where operators were recorded, or the peaks
    are not known."""
    products = _named_wide(tape)
    left = _left_by_names(tape)
    if np.isnan(left).all():
        return None
    less = TENSOR_EFFICIENCY / reading.efficiency * (1.0 + CAST_SHARE)
    share = np.where(products, left * less, 1.0)
    narrow = kernels_named(tape, NAMED_NARROW)
    # Names of some (copies) say no format: where nothing in the recording has a narrow one they
    # move fp32, too.
    floats = kernels_named(tape, NAMED_FLOATS if narrow.any() else MOVES_DATA) & ~narrow
    moving = floats & (tape.duration >= LONGEST_SMALL_NS)
    of_traffic = np.where(kernels_named(tape, INDEXING), reading.indexed, reading.traffic)
    share = np.where(moving, of_traffic, share)
    return with_casts(tape, products).retimed(tape.duration * np.minimum(share, 1.0))


def _left_by_names(tape: Tape) -> F64:
    """Share of its time that each op keeps in bf16 if it is a product of fp32 numbers, by its name;
    NaN where the peaks of a GPU are not known."""
    peaks = [gpu.tensor for gpu in tape.source.linked.gpus.values() if gpu is not None]
    if not peaks or not all({"tf32", "bf16"} <= peak.keys() for peak in peaks):
        return np.full(len(tape.row), np.nan)
    ratio = max(peak["tf32"] / peak["bf16"] for peak in peaks)
    return np.where(kernels_named(tape, NAMED_ORDINARY), LEAST_OF_ORDINARY, ratio)


def _tells_formats(tape: Tape) -> bool:
    """Whether the format of any op is known otherwise than by its name."""
    return bool((tape.source.roofline.precision[tape.row] != Precision.UNKNOWN).any())


def _named_wide(tape: Tape) -> Bool:
    """Products of fp32 numbers by their names, where nothing else tells what they multiply."""
    named = kernels_named(tape, NAMED_TF32) | kernels_named(tape, NAMED_ORDINARY)
    unknown = tape.source.roofline.precision[tape.row] == Precision.UNKNOWN
    return named & unknown & tape.compute


def fp32_products(tape: Tape) -> Bool:
    """Matrix kernels that multiply fp32 numbers on the ordinary cores; by their names where the
    format was not recorded."""
    roofline = tape.source.roofline
    known = (
        tape.source.linked.is_matrix
        & (roofline.tensor == NO)
        & (roofline.precision == Precision.FP32)
    )[tape.row]
    return known | (_named_wide(tape) & kernels_named(tape, NAMED_ORDINARY))


def wide_products(tape: Tape) -> Bool:
    """Matrix kernels of a tape whose operands are fp32, whatever cores they use; by their names
    where operators were not recorded."""
    return wide_matrices(tape.source, tape.row) | _named_wide(tape)


def wide_matrices(rated: Rated, rows: I64 | slice = slice(None)) -> Bool:
    """Which of these device ops (all) are matrix kernels whose operands are fp32."""
    return rated.linked.is_matrix[rows] & isin_few(rated.roofline.precision[rows], WIDE)


def in_16_bits_already(tape: Tape) -> bool:
    """Whether most of the time in products goes to those of matrices in 16 bits."""
    matrix = tape.source.linked.is_matrix[tape.row]
    narrow = matrix & isin_few(tape.source.roofline.precision[tape.row], NARROW)
    narrow_ns = int(tape.duration[narrow].sum())
    return 2 * narrow_ns > int(tape.duration[matrix].sum())


def _products(
    tape: Tape, chosen: Bool, work: KernelWork, precision: str, efficiency: float
) -> Tape | None:
    """These products at a share of the peak of a precision, no faster than their traffic allows;
    depthwise convolutions stay as they are."""
    row = tape.row
    linked = tape.source.linked
    peak = linked.of_gpus(lambda gpu: gpu.tensor.get(precision))[row]
    chosen = chosen & ~kernels_named(tape, DEPTHWISE)
    if not chosen.any() or not np.isfinite(peak).any():
        return None
    roofline = tape.source.roofline
    arithmetic = work.flops / (peak * efficiency) * NS_PER_S
    width = HALF if precision == "bf16" else TF32_PASSES
    transfer = work.bytes * width / linked.limit("bandwidth")[row] * NS_PER_S
    # What is known by its name alone tells neither its arithmetic nor its traffic.
    left = np.full(len(row), LEAST_OF_ORDINARY)
    if precision == "bf16":
        left = _left_by_names(tape) * TENSOR_EFFICIENCY / efficiency
    by_name = np.where(_named_wide(tape), tape.duration * left, np.nan)
    least = np.fmax(np.fmax(arithmetic, transfer), by_name)
    usable = (
        chosen & np.isfinite(least) & ~(roofline.small[row] & (tape.duration < LONGEST_SMALL_NS))
    )
    return tape.retimed(np.where(usable, np.minimum(least, tape.duration), tape.duration))
