"""Findings on matrix products that could run faster on the same GPU."""

from collections.abc import Iterator

from traceanalyzer.analysis.groups import channels, products
from traceanalyzer.analysis.groups.products import TENSOR_EFFICIENCY
from traceanalyzer.diagnosis.draft import Draft, Proposal, share, times
from traceanalyzer.diagnosis.finding import Evidence, Words, everywhere
from traceanalyzer.diagnosis.measurements import Measurements
from traceanalyzer.diagnosis.remedies.remedy import words
from traceanalyzer.replay.patterns import small_products as patterns
from traceanalyzer.trace import Bool

SHAPES = 3
"""Shapes named in the evidence."""
ENABLE_TF32 = Words(
    "Enable TF32 or bf16 for these matmuls, if accuracy allows: torch.set_float32_matmul_precision('high'), or "
    "autocast.",
    "Use the tensor cores for these matmuls: TF32 (cublasSetMathMode, CUBLAS_TF32_TENSOR_OP_MATH) or 16-bit inputs, if "
    "the accuracy allows.",
    "Use the tensor cores for these matmuls: jax_default_matmul_precision = 'tensorfloat32', or bfloat16 inputs, if "
    "the accuracy allows.",
)
PAD = everywhere(
    "Pad the odd sizes (vocabulary, hidden or sequence length) to multiples of 8 elements in 16 bits, 16 in 8 bits, "
    "better of 64: the libraries' fast kernels need aligned rows."
)
ALIGN_CHANNELS = everywhere(
    "Choose channel counts that are multiples of 8 in 16 bits (of 4 in TF32), better of 32 or 64: the libraries' fast "
    "kernels need them, or pad inside."
)
BATCH = Words(
    "Batch these small matmuls: torch.bmm, or a grouped GEMM.",
    "Batch these small matmuls: cublasGemmStridedBatchedEx, or a grouped GEMM.",
)


def fp32_matmul(m: Measurements, free: Bool) -> Iterator[Draft]:
    """Matrix products in fp32 on the ordinary cores; what TF32 would give is computed, bf16 is named beside it."""
    found = products.fp32_products(m.rated, free)
    if found is None:
        return
    total, at = found.kernels.total_ms, found.at_ms
    evidence = [share(m, total, "matmuls in full fp32, without tensor cores"), *times(found.kernels.top)]
    evidence += [Evidence(f"time in {name}", t, "ms", "at the rate tensor cores reach") for name, t in at.items()]
    basis = f"the products at {TENSOR_EFFICIENCY:.0%} of the dense {next(iter(at), 'tensor-core')} peak"
    if found.unknown:
        basis += "; where sizes were not recorded, the ordinary cores were at their peak before"
    if not at:
        basis = "the gain depends on the GPU's tensor-core rate, which is not known"
    title = "Matmuls run in fp32 without tensor cores"
    claim = max(total - at["tf32"], 0.0) if "tf32" in at else None
    remedy = Proposal(ENABLE_TF32, basis, name="tf32")
    yield Draft("fp32-matmul", "compute", title, "compute", claim, evidence, [remedy], found.kernels.rows, ENABLE_TF32)


def misaligned(m: Measurements, free: Bool) -> Iterator[Draft]:
    """Matrix products whose sizes are not multiples of 16 bytes, and that are slow."""
    found = products.odd_products(m.rated, free)
    if found is None:
        return
    evidence = [share(m, found.kernels.total_ms, "products with sizes that are not multiples of 16 bytes")]
    evidence += [Evidence("shape", shape, "", "of an operand") for shape in found.shapes[:SHAPES]]
    basis = f"these products at {TENSOR_EFFICIENCY:.0%} of their roofline, as aligned ones reach"
    remedy = Proposal(PAD, basis, name="pad_shapes")
    title, rows = "Matmul sizes are misaligned for tensor cores", found.kernels.rows
    yield Draft("misaligned-matmul", "compute", title, "compute", found.saved_ms, evidence, [remedy], rows)


def odd_channels(m: Measurements, free: Bool) -> Iterator[Draft]:
    """Convolutions whose channel counts are not multiples of 16 bytes. What aligned ones would take is not known: the
    library may pad them itself."""
    found = channels.odd_convolutions(m.rated, free)
    if found is None:
        return
    evidence = [share(m, found.kernels.total_ms, "convolutions with channels that are not multiples of 16 bytes")]
    evidence += [
        Evidence("weight", shape, "", "result channels x input channels x window") for shape in found.shapes[:SHAPES]
    ]
    evidence += times(found.kernels.top)
    remedy = Proposal(ALIGN_CHANNELS, "what the padded convolutions would take is not in the recording")
    title = "Convolutions have channel counts that are misaligned for tensor cores"
    yield Draft("odd-channels", "compute", title, "compute", None, evidence, [remedy])


def wave_quantisation(m: Measurements, free: Bool) -> Iterator[Draft]:
    """Matrix kernels whose last wave of blocks leaves most SMs idle."""
    found = products.last_waves(m.rated, free)
    if found is None:
        return
    evidence = [
        share(m, found.kernels.total_ms, "matrix kernels with a mostly empty last wave"),
        Evidence("waves", found.waves, "", "mean blocks over the blocks that the GPU holds"),
        *times(found.kernels.top),
    ]
    basis = "the part of the last wave without blocks, as far as the roofline leaves room"
    fill = words("pad_shapes", "fill_waves")
    remedy = Proposal(fill, basis, name="pad_shapes")
    title, rows = "The last wave of matrix kernels leaves SMs idle", found.kernels.rows
    yield Draft("wave-quantisation", "compute", title, "compute", found.lost_ms, evidence, [remedy], rows, fill)


def small_products(m: Measurements, free: Bool) -> Iterator[Draft]:
    """Runs of small matrix products of one shape, none of which needs another: one batched product could do them."""
    found = patterns.small_products(m.rated, free)
    if found is None:
        return
    total = found.kernels.total_ms
    evidence = [
        share(m, total, "small products of one shape in a row"),
        Evidence("products in a row", found.in_a_row, "", "mean"),
    ]
    basis = "each run as long as its longest product"
    remedy = Proposal(BATCH, basis, name="batched_matmul")
    title = "Small matmuls run one by one"
    claim = max(total - found.batched_ms, 0.0)
    yield Draft("small-matmuls", "compute", title, "compute", claim, evidence, [remedy], found.kernels.rows, BATCH)
