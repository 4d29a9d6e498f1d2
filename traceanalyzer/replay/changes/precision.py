"""Kernels in another number format: TF32 for products, or 16 bits for products and the traffic
between them.

Autocast gives 16 bits to products and leaves other operators to PyTorch's rule, by which the wider
format wins. What a product gives is fp32 again once it is multiplied by, or added to, a parameter
that is no product's (a frozen norm's scale, a layer's gain, positions), and stays so until the next
product, which casts it."""

import math

import numpy as np

from traceanalyzer.analysis.algebra import isin_few
from traceanalyzer.analysis.groups.bounds import which_undersized
from traceanalyzer.analysis.joined.backward import made_by
from traceanalyzer.analysis.joined.joined import Joined
from traceanalyzer.analysis.roofline.bounds import NO
from traceanalyzer.analysis.roofline.op_models import Precision
from traceanalyzer.analysis.roofline.op_models.tensors import Shape
from traceanalyzer.analysis.roofline.rated import Rated
from traceanalyzer.base import NS_PER_S, dataclass, regex
from traceanalyzer.replay.changes.casts import NARROW, with_casts
from traceanalyzer.replay.patterns.named import kernels_named
from traceanalyzer.replay.patterns.operators import Operator, is_shared, operators
from traceanalyzer.replay.tape import Tape, parametric
from traceanalyzer.trace import F64, I64, Bool

TENSOR_EFFICIENCY = 0.75
"""Share of the tensor cores' dense peak that large products reach (0.71 to 0.79 on an H200 for TF32
and bf16)."""
HALF = 0.5  # what is left of the traffic of fp32 tensors in 16 bits
CAST_SHARE = 0.1
"""What autocast's casts of weights and activations add to the products they are for."""
OF_BANDWIDTH = 0.6
"""Share of the memory's bandwidth from which on a kernel is limited by it. One that reaches less
waits for something else, and moves half the bytes hardly faster."""
INDEXING = regex(r"\bat::native::elementwise_kernel<")
"""Operands are spread (broadcast), or lie in another order. In fp32 these reach 0.72 of the
memory's bandwidth (1,300 kernels on H100s and H200s), in 16 bits 0.41 (1,400), in both formats
mixed 0.49; where operands lie alike it is 0.90 in either format."""
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

PROMOTES = regex(r"^aten::(mul|add|sub|div)$")
"""Operators whose result has the wider format of their operands; in place the first one's stays."""
PASSES = regex(
    r"^aten::(relu|leaky_relu|elu|gelu|silu|mish|tanh|sigmoid|hardtanh|clamp|clamp_min|dropout|add|sub|mul|div)_?$"
)
"""Operators that give what they take in the format that it has."""
TO_16_BITS = regex(
    r"^aten::(linear|addmm|mm|matmul|bmm|baddbmm|conv\d\w*|conv_transpose\w*|_?convolution)$"
)
"""Operators that autocast gives 16 bits to."""
CAST_BYTES = 4 + 2  # of each number that is cast: read in fp32, written in 16 bits


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


USUAL = HalfWidth(TENSOR_EFFICIENCY, 0.6, 0.85)
"""Half of the bytes, and some tensors stay in fp32. Where operands do not lie alike in memory, half
of the bytes move at 0.6 times the rate."""
OPTIMISTIC = HalfWidth(0.85, 0.5, 0.7)
PESSIMISTIC = HalfWidth(0.5, 0.8, 1.0)


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
    become shorter (`HalfWidth`), but what stays in fp32 beside a parameter, which products then cast;
    None without such products, or where the rate is not known."""
    return in_half_width(tape, recorded_work(tape), reading)


def in_half_width(tape: Tape, work: KernelWork, reading: HalfWidth) -> Tape | None:
    """Products of fp32 matrices run in bf16, where the ops have this work."""
    chosen = wide_products(tape)
    if _named_wide(tape).any() and not _tells_formats(tape):
        return _by_names(tape, reading)
    found = _products(tape, chosen, work, "bf16", reading.efficiency)
    if found is None:
        return None
    _, cast = kept_in_fp32(tape)
    duration = found.duration * np.where(chosen, 1.0 + CAST_SHARE, 1.0) + tape.moving_ns(
        chosen * cast
    )
    left = np.where(kernels_named(tape, INDEXING), reading.indexed, reading.traffic)
    bandwidth = tape.source.linked.limit("bandwidth")[tape.row]
    traffic_ns = work.expected_bytes / bandwidth * NS_PER_S
    reached = traffic_ns / np.maximum(tape.duration, 1)
    limited = np.where(np.isfinite(reached), np.clip(reached / OF_BANDWIDTH, 0.0, 1.0), 1.0)
    less = duration * (1.0 - (1.0 - left) * limited)
    moving = moves_narrower(tape)
    return with_casts(tape, chosen).retimed(
        np.minimum(np.where(moving, less, duration), tape.duration)
    )


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
    stays, _ = kept_in_fp32(tape)
    return wide & large & tape.compute & ~other & ~wide_products(tape) & ~stays


@parametric
def in_32_bits(tape: Tape, traffic: float) -> Tape | None:
    """Kernels on doubles work on fp32 numbers: they take this share of their time, products what
    the ordinary cores take at a share of their peak where that is longer; None without any."""
    chosen = of_doubles(tape)
    if not chosen.any():
        return None
    linked = tape.source.linked
    peak = np.full(len(tape.row), np.nan)
    device = tape.source.trace.device_ops.device[tape.row]
    for number, gpu in linked.gpus.items():
        peak[device == number] = (gpu and gpu.vector.get(SINGLE)) or np.nan
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
    """These products at a share of the peak of a precision, no faster than their traffic allows."""
    device = tape.source.trace.device_ops.device[tape.row]
    peak = np.full(len(tape.row), np.nan)
    for number, gpu in tape.source.linked.gpus.items():
        peak[device == number] = (gpu and gpu.tensor.get(precision)) or np.nan
    if not chosen.any() or not np.isfinite(peak).any():
        return None
    roofline = tape.source.roofline
    row = tape.row
    arithmetic = work.flops / (peak * efficiency) * NS_PER_S
    width = HALF if precision == "bf16" else 1.0
    transfer = work.bytes * width / tape.source.linked.limit("bandwidth")[row] * NS_PER_S
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


def kept_in_fp32(tape: Tape) -> tuple[Bool, F64]:
    """Which ops work in fp32 under autocast, too, and for each op how many bytes its operator first
    casts."""
    stays, cast = tape.source.joined.memo(_kept)
    operator = tape.of_launches(tape.source.linked.tree.outer_operator)
    return stays[operator], cast[operator]


def _kept(joined: Joined) -> tuple[Bool, F64]:
    """Which nodes of the host tree stay in fp32, and how many bytes each first casts."""
    tree = joined.linked.tree
    outer = tree.outermost_operators[~joined.in_backward[tree.outermost_operators]]
    stays = np.zeros(len(tree.start) + 1, bool)
    cast = np.zeros(len(tree.start) + 1)
    wide = set[Shape]()
    taken = set[Shape]()
    known = operators(joined.linked).of_nodes(outer)
    for node, operator in zip(outer.tolist(), known, strict=True):
        if not operator.shapes:
            continue
        if operator.named(TO_16_BITS):
            taken = wide or taken
            wide = set()
            if operator.shapes[0] in taken:
                cast[node] = math.prod(operator.shapes[0]) * CAST_BYTES
        elif operator.named(PASSES):
            largest = max(operator.shapes, key=math.prod)
            if _takes_a_parameter(operator):
                wide.add(largest)
            stays[node] = largest in wide
            taken = set()
    stays[:-1] |= made_by(joined.linked, stays[:-1])
    return stays, cast


def _takes_a_parameter(operator: Operator) -> bool:
    """Whether the operator combines data with a parameter, which is in fp32 and makes the result so:
    a parameter is the same for all items of the other tensor's batch."""
    if len(operator.shapes) < 2 or not operator.named(PROMOTES):
        return False
    large, small = sorted(operator.shapes[:2], key=math.prod, reverse=True)
    return is_shared(small, large) and 1 < math.prod(small) < math.prod(large)
