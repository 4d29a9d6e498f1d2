"""Findings on matrix products that could run faster on the same GPU."""

from collections.abc import Iterator

from traceanalyzer.analysis.groups import products
from traceanalyzer.analysis.groups.products import TENSOR_EFFICIENCY
from traceanalyzer.diagnosis.draft import Draft, Proposal, finding, share, times
from traceanalyzer.diagnosis.finding import Evidence
from traceanalyzer.diagnosis.measurements import Measurements
from traceanalyzer.diagnosis.pages import said
from traceanalyzer.diagnosis.remedies.remedy import words
from traceanalyzer.replay.patterns import small_products as patterns
from traceanalyzer.trace import Bool

SHAPES = 3
"""Shapes named in the evidence."""


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
    claim = max(total - at["tf32"], 0.0) if "tf32" in at else None
    words = said("fp32-matmul")
    remedy = Proposal(words, basis, name="tf32")
    yield finding("fp32-matmul", "compute", claim, evidence, [remedy], found.kernels.rows, words)


def misaligned(m: Measurements, free: Bool) -> Iterator[Draft]:
    """Matrix products whose sizes are not multiples of 16 bytes, and that are slow."""
    found = products.odd_products(m.rated, free)
    if found is None:
        return
    evidence = [share(m, found.kernels.total_ms, "products with sizes that are not multiples of 16 bytes")]
    evidence += [Evidence("shape", shape, "", "of an operand") for shape in found.shapes[:SHAPES]]
    basis = f"these products at {TENSOR_EFFICIENCY:.0%} of their roofline, as aligned ones reach"
    remedy = Proposal(said("misaligned-matmul"), basis, name="pad_shapes")
    yield finding("misaligned-matmul", "compute", found.saved_ms, evidence, [remedy], found.kernels.rows)


def odd_channels(m: Measurements, free: Bool) -> Iterator[Draft]:
    """Convolutions whose channel counts are not multiples of 16 bytes. What aligned ones would take is not known: the
    library may pad them itself."""
    found = products.odd_convolutions(m.rated, free)
    if found is None:
        return
    evidence = [share(m, found.kernels.total_ms, "convolutions with channels that are not multiples of 16 bytes")]
    evidence += [
        Evidence("weight", shape, "", "result channels x input channels x window") for shape in found.shapes[:SHAPES]
    ]
    evidence += times(found.kernels.top)
    remedy = Proposal(said("odd-channels"), "what the padded convolutions would take is not in the recording")
    yield finding("odd-channels", "compute", None, evidence, [remedy])


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
    yield finding("wave-quantisation", "compute", found.lost_ms, evidence, [remedy], found.kernels.rows, fill)


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
    words = said("small-matmuls")
    remedy = Proposal(words, basis, name="batched_matmul")
    claim = max(total - found.batched_ms, 0.0)
    yield finding("small-matmuls", "compute", claim, evidence, [remedy], found.kernels.rows, words)
