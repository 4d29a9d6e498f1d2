"""Matrix products that could run faster on the same GPU: other units, other sizes, fuller waves, fewer launches."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from traceanalyzer.analysis.roofline.op_models import Precision
from traceanalyzer.analysis.roofline.op_models.tensors import Tensor, parse_inputs
from traceanalyzer.analysis.roofline.precision import NO, is_matrix
from traceanalyzer.analysis.roofline.roofline import SHORT_NS
from traceanalyzer.diagnosis.draft import Draft, Remedy, share
from traceanalyzer.diagnosis.finding import Evidence
from traceanalyzer.diagnosis.rules.kernel_rows import (
    Claim,
    duration,
    in_stream_order,
    named,
    of_class,
    per_step,
    runs,
    steady,
    top_kernels,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traceanalyzer.analysis.measure import Measurements
    from traceanalyzer.trace import F64, I32, I64, Bool

TENSOR_EFFICIENCY = 0.75
"""Share of the tensor cores' dense peak that large products reach in practice (0.71 to 0.79 measured on an H200 for
TF32 and bf16, in this repository's recordings)."""
FP32_PRODUCT = re.compile(r"(?<![a-z])sgemm|_f32f32_f32f32_", re.IGNORECASE)
"""Names of products of fp32 matrices, where the operands' types were not recorded; a `gemv` may be of any type."""
ALIGNED_BYTES = 16
"""Libraries' fast kernels load operands in pieces of 16 bytes: 8 elements of 16 bits, 16 of 8, 4 of 32 (cuBLAS
documentation, "tensor core usage")."""
SMALL_DIMENSION = 16
"""Dimensions up to this are vectors and heads, not sizes that padding would help."""
WAVE_LOSS = 0.15
"""Part of a kernel's time with the last wave mostly empty that is worth changing a size for."""
MANY_WAVES = 8
"""With more waves the last one is less than an eighth of the kernel."""
MIN_BATCH = 3
"""Fewer small products of one shape in a row are not worth merging."""


def fp32_matmul(m: Measurements, free: Bool) -> Iterator[Claim]:
    """Matrix products in fp32 on the ordinary cores; what TF32 would give is computed, bf16 is named beside it."""
    roofline = m.roofline
    rows = steady(m) & is_matrix(m) & (roofline.tensor == NO) & free
    unknown = roofline.precision == Precision.UNKNOWN
    rows &= (roofline.precision == Precision.FP32) | (unknown & named(m, FP32_PRODUCT))
    time = duration(m)
    total = per_step(m, time[rows])
    if total <= 0:
        return
    evidence = [share(total, m.mean_step_ms, "matrix products in full fp32, without tensor cores")]
    evidence += [Evidence("time", t, "ms", name) for name, t in top_kernels(m, rows)]
    at = {name: per_step(m, _on_tensor_cores(m, rows, name)) for name in ("tf32", "bf16") if _has(m, name)}
    evidence += [Evidence(f"time in {name}", t, "ms", "at the rate tensor cores reach") for name, t in at.items()]
    action = (
        "Let them use the tensor cores: torch.set_float32_matmul_precision('high') (TF32), or bf16 autocast, if the "
        "model's accuracy allows."
    )
    basis = f"the products at {TENSOR_EFFICIENCY:.0%} of the dense {next(iter(at), 'tensor-core')} peak"
    if (unknown & rows).any():
        basis += "; where sizes were not recorded, the ordinary cores were at their peak before"
    if not at:
        basis = "the gain depends on the GPU's tensor-core rate, which is not known"
    draft = Draft(
        "fp32-matmul",
        "compute",
        "Matrix products run in fp32 off the tensor cores",
        "compute",
        max(total - at["tf32"], 0.0) if "tf32" in at else None,
        evidence,
        [Remedy(action, basis)],
    )
    yield Claim(draft, rows)


def _has(m: Measurements, precision: str) -> bool:
    gpu = m.gpus.get(-1 if m.device is None else m.device)
    return gpu is not None and gpu.tensor.get(precision, 0) > gpu.vector["fp32"]


def _on_tensor_cores(m: Measurements, rows: Bool, precision: str) -> F64:
    """Time, ns, that these products would take on the tensor cores; of work that is not known, as much as the
    ordinary cores can do in their time. Small ones, which are not limited by arithmetic, gain nothing."""
    roofline, time = m.roofline, duration(m)[rows].astype(np.float64)
    gpu = m.gpus[m.device or 0]
    if gpu is None:
        return time
    known = np.isfinite(roofline.flops[rows])
    flops = np.where(known, roofline.flops[rows], gpu.vector["fp32"] * time / 1e9)
    arithmetic = flops / (gpu.tensor[precision] * TENSOR_EFFICIENCY) * 1e9
    transfer = roofline.bytes[rows] / gpu.bandwidth * 1e9
    faster = np.minimum(np.fmax(arithmetic, transfer), time)
    result: F64 = np.where(np.where(known, _by_arithmetic(m)[rows], _fills(m)[rows]), faster, time)
    return result


def _fills(m: Measurements) -> Bool:
    """Which device ops have a block for each SM, and take longer than any start-up."""
    result: Bool = (m.trace.device_ops.blocks >= m.limit("sms")) & (duration(m) >= SHORT_NS)
    return result


def _by_arithmetic(m: Measurements) -> Bool:
    """Which device ops have enough to calculate to fill the GPU, and more of that than to move."""
    roofline = m.roofline
    return roofline.rated & roofline.arithmetic & ~roofline.small


def misaligned(m: Measurements, free: Bool) -> Iterator[Claim]:
    """Matrix products whose sizes are not multiples of 16 bytes, and that are slow."""
    rows = steady(m) & of_class(m, "gemm") & free & (m.roofline.row >= 0)
    rows &= m.roofline.rated & ~m.roofline.small
    odd, shapes = _odd_sizes(m, m.roofline.row[rows])
    rows[rows] = odd
    time, attainable = duration(m)[rows], m.roofline.attainable[rows]
    total = per_step(m, time)
    if total <= 0:
        return
    saved = per_step(m, np.maximum(time - attainable / TENSOR_EFFICIENCY, 0))
    evidence = [share(total, m.mean_step_ms, "products with sizes that are not multiples of 16 bytes")]
    evidence += [Evidence("shape", shape, "", "of an operand") for shape in shapes[:3]]
    action = (
        "Pad the sizes (vocabulary, hidden, batch) to multiples of 8 elements in 16 bits, 16 in 8 bits, better "
        "of 64: the libraries' fast kernels need aligned rows."
    )
    basis = f"these products at {TENSOR_EFFICIENCY:.0%} of their roofline, as aligned ones reach"
    remedy = Remedy(action, basis)
    title = "Matrix products have sizes that tensor cores do not like"
    yield Claim(Draft("misaligned-matmul", "compute", title, "compute", saved, evidence, [remedy]), rows)


def _odd_sizes(m: Measurements, rows: I64) -> tuple[Bool, list[str]]:
    """Which of these host ranges have an operand with a row length that is no multiple of 16 bytes; the shapes of such
    operands, sorted."""
    ranges = m.trace.host_ranges
    codes = np.stack([column[rows] for column in (ranges.shapes, ranges.dtypes, ranges.strides)])
    kinds, kind = np.unique(codes, axis=1, return_inverse=True)
    shapes = [_odd_shape(m, *one) for one in kinds.T.tolist()]
    odd = np.array([shape is not None for shape in shapes], bool)
    return odd[kind.reshape(-1)], sorted({shape for shape in shapes if shape is not None})


def _odd_shape(m: Measurements, shapes: int, dtypes: int, strides: int) -> str | None:
    """The shape of such an operand among inputs with these texts; None without one, or where one is narrow anyway."""
    trace = m.trace
    inputs = parse_inputs(trace.text(shapes) or "", trace.text(dtypes), trace.text(strides))
    operands = [t for t in inputs or () if isinstance(t, Tensor) and len(t.shape) >= 2]
    odd = [t for t in operands if any(_is_odd(size, t.dtype.bytes) for size in t.shape[-2:])]
    if not odd or min(size for t in operands for size in t.shape[-2:]) <= SMALL_DIMENSION:
        return None
    return "x".join(map(str, odd[0].shape))


def _is_odd(size: int, element_bytes: float) -> bool:
    return bool(size * element_bytes % ALIGNED_BYTES)


def wave_quantisation(m: Measurements, free: Bool) -> Iterator[Claim]:
    """Matrix kernels whose last wave of blocks leaves most SMs idle."""
    roofline = m.roofline
    rows = steady(m) & is_matrix(m) & free & _by_arithmetic(m)
    rows &= (roofline.waves > 1) & (roofline.waves < MANY_WAVES)
    loss = np.where(rows, 1 - roofline.waves / np.ceil(np.where(rows, roofline.waves, 1)), 0.0)
    rows &= loss >= WAVE_LOSS
    time = duration(m)
    total = per_step(m, time[rows])
    if total <= 0:
        return
    lost = np.minimum(loss * time, np.maximum(time - np.nan_to_num(roofline.attainable), 0))
    evidence = [
        share(total, m.mean_step_ms, "matrix kernels with a mostly empty last wave"),
        Evidence("waves", float(roofline.waves[rows].mean()), "", "mean blocks over the blocks that the GPU holds"),
    ]
    evidence += [Evidence("time", t, "ms", name) for name, t in top_kernels(m, rows)]
    action = (
        "Change a size (batch, sequence, hidden) so that the blocks fill whole waves of the SMs, or let autotuning "
        "choose another tile: torch.compile(mode='max-autotune')."
    )
    remedy = Remedy(action, "the part of the last wave without blocks, as far as the roofline leaves room")
    title = "The last wave of matrix kernels leaves SMs idle"
    yield Claim(
        Draft("wave-quantisation", "compute", title, "compute", per_step(m, lost[rows]), evidence, [remedy]), rows
    )


def small_products(m: Measurements, free: Bool) -> Iterator[Claim]:
    """Runs of small matrix products of one shape with nothing between them, which one batched product could do."""
    roofline, ranges = m.roofline, m.trace.host_ranges
    everything = in_stream_order(m, steady(m))
    small = of_class(m, "gemm") & free & roofline.small & (roofline.row >= 0)
    shape = np.append(ranges.shapes, np.int32(-1))[roofline.row][everything]
    run, count = _runs_of_shape(m, everything, small[everything], shape)
    length = np.bincount(run[run >= 0], minlength=count)
    chosen = (run >= 0) & (length >= MIN_BATCH)[run] if count else np.zeros(len(run), bool)
    if not chosen.any():
        return
    rows = np.zeros(len(small), bool)
    rows[everything[chosen]] = True
    time = duration(m)
    longest = np.zeros(count)
    np.maximum.at(longest, run[chosen], time[everything[chosen]])
    total = per_step(m, time[rows])
    batched = np.bincount(
        run[chosen], weights=roofline.attainable[everything[chosen]] / TENSOR_EFFICIENCY, minlength=count
    )
    saved = max(total - per_step(m, np.maximum(longest, batched)), 0.0)
    evidence = [
        share(total, m.mean_step_ms, "small products of one shape in a row"),
        Evidence("products in a row", float(length[length >= MIN_BATCH].mean()), "", "mean"),
    ]
    action = "Do them as one batched product: stack the operands and call torch.bmm, or a grouped product."
    remedy = Remedy(action, "each run as long as its longest product; products that need each other's results cannot")
    title = "Small matrix products run one by one"
    yield Claim(Draft("small-matmuls", "compute", title, "compute", saved, evidence, [remedy]), rows)


def _runs_of_shape(m: Measurements, order: I64, inside: Bool, shape: I32) -> tuple[I64, int]:
    """Runs as `runs` has them, ended also where the shape changes."""
    run, count = runs(m, order, inside)
    if not count:
        return run, 0
    change = np.append(False, shape[1:] != shape[:-1]) & inside
    keys = np.where(run >= 0, run + np.cumsum(change), -1)
    _, dense = np.unique(keys[keys >= 0], return_inverse=True)
    result = np.full(len(run), -1, np.int64)
    result[keys >= 0] = dense
    return result, int(dense.max(initial=-1)) + 1
