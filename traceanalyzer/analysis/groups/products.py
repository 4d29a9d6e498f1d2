"""Matrix products that could run faster on the same GPU: other units, other sizes, fuller waves."""

import re
from collections import Counter
from typing import NamedTuple

import numpy as np

from traceanalyzer.analysis.algebra import isin_few, texts_where
from traceanalyzer.analysis.groups.ops import (
    OpsGroup,
    duration,
    group,
    judged,
    named_like,
    of_class,
    op_code,
    per_step,
    steady,
)
from traceanalyzer.analysis.roofline.bounds import NO
from traceanalyzer.analysis.roofline.op_models import Precision
from traceanalyzer.analysis.roofline.op_models.tensors import Tensor, inputs_of, tensors_of
from traceanalyzer.analysis.roofline.rated import WithRoofline
from traceanalyzer.analysis.roofline.roofline import SHORT_NS
from traceanalyzer.base import regex
from traceanalyzer.trace import F64, Bool

TENSOR_EFFICIENCY = 0.75
"""Share of the tensor cores' dense peak that large products reach in practice (0.71 to 0.79
measured on an H200 for TF32 and bf16, in this repository's recordings)."""
FP32_PRODUCT = regex(r"(?<![a-z])sgemm|_f32f32_f32f32_", re.IGNORECASE)
"""Names of products of fp32 matrices, where the operands' types were not recorded; a `gemv` may be
of any type."""
ALIGNED_BYTES = 16
"""Libraries' fast kernels load operands in pieces of 16 bytes: 8 elements of 16 bits, 16 of 8, 4 of
32 (cuBLAS documentation, "tensor core usage")."""
SMALL_DIMENSION = 16
"""Dimensions up to this are vectors and heads, not sizes that padding would help."""
WAVE_LOSS = 0.15
"""Part of a kernel's time with the last wave mostly empty that is worth changing a size for."""
MANY_WAVES = 8  # with more waves the last one is less than an eighth of the kernel


class Fp32Products(NamedTuple):
    """Products in fp32 on the ordinary cores."""

    kernels: OpsGroup
    at_ms: dict[
        str, float
    ]  # time a step on the tensor cores by number format; without those that the GPU has not
    unknown: bool  # whether the sizes of some were not recorded


class OddProducts(NamedTuple):
    """Slow products whose sizes are not multiples of 16 bytes."""

    kernels: OpsGroup
    saved_ms: float  # time a step beyond what aligned ones reach
    shapes: list[str]  # of the operands with such a size, those with most time first


class LastWaves(NamedTuple):
    """Matrix kernels whose last wave of blocks leaves most SMs idle."""

    kernels: OpsGroup
    waves: float
    lost_ms: (
        float  # time a step of the empty part of the last wave, as far as the roofline leaves room
    )


CONVOLUTION = regex(r"^aten::\w*conv")
FEW_CHANNELS = 4  # images have one to four, and the layer that reads them is made for it


def fp32_matrix_products(rated: WithRoofline, free: Bool) -> Fp32Products | None:
    """Matrix products in fp32 on the ordinary cores, of ops that are `free`."""
    roofline = rated.roofline
    rows = steady(rated.timed) & rated.linked.is_matrix & (roofline.tensor == NO) & free
    unknown = roofline.precision == Precision.UNKNOWN
    rows &= (roofline.precision == Precision.FP32) | (
        unknown & named_like(rated.linked, FP32_PRODUCT)
    )
    found = group(rated.timed, rows)
    if found.total_ms <= 0:
        return None
    gpu = rated.linked.gpus.get(-1 if rated.timed.device is None else rated.timed.device)
    # number formats that fp32 products could have on tensor cores, the one nearest to them first
    faster = [
        name
        for name in ("tf32", "bf16")
        if gpu is not None and gpu.tensor.get(name, 0) > gpu.vector["fp32"]
    ]
    at = {name: per_step(rated.timed, _on_tensor_cores(rated, rows, name)) for name in faster}
    return Fp32Products(found, at, bool((unknown & rows).any()))


def _on_tensor_cores(rated: WithRoofline, rows: Bool, precision: str) -> F64:
    """Time, ns, that these products would take on the tensor cores; of work that is not known, as
    much as the ordinary cores can do in their time. Small ones, which are not limited by
    arithmetic, gain nothing."""
    roofline = rated.roofline
    time = duration(rated.linked)[rows].astype(np.float64)
    gpu = rated.linked.gpus[rated.timed.device or 0]
    if gpu is None:
        return time
    known = np.isfinite(roofline.flops[rows])
    # A block for each SM, and longer than any start-up.
    fills = (rated.trace.device_ops.blocks[rows] >= rated.linked.limit("sms")[rows]) & (
        time >= SHORT_NS
    )
    flops = np.where(known, roofline.flops[rows], gpu.vector["fp32"] * time / 1e9)
    arithmetic = flops / (gpu.tensor[precision] * TENSOR_EFFICIENCY) * 1e9
    transfer = roofline.bytes[rows] / gpu.bandwidth * 1e9
    faster = np.minimum(np.fmax(arithmetic, transfer), time)
    return np.where(np.where(known, _by_arithmetic(rated)[rows], fills), faster, time)


def _by_arithmetic(rated: WithRoofline) -> Bool:
    """Which device ops have enough to calculate to fill the GPU, and more of that than to move."""
    roofline = rated.roofline
    return roofline.rated & roofline.arithmetic & ~roofline.small


def odd_products(rated: WithRoofline, free: Bool) -> OddProducts | None:
    """Matrix products whose sizes are not multiples of 16 bytes, of ops that are `free`."""
    roofline = rated.roofline
    time = duration(rated.linked)
    rows = steady(rated.timed) & of_class(rated.joined, "gemm") & free & (roofline.row >= 0)
    # few blocks may still have much to calculate: a product over many rows
    rows &= roofline.rated & ~(roofline.small & (roofline.attainable[:] < SHORT_NS))
    among = time[rows]
    columns = ("shapes", "dtypes", "strides", "name")
    rows[rows], kinds, shapes = judged(rated, roofline.row[rows], columns, _odd_shape)
    spent: Counter[str] = Counter()
    for shape, ns in zip(
        shapes, np.bincount(kinds.index, among, len(shapes)).tolist(), strict=True
    ):
        if shape is not None:
            spent[shape] += ns
    found = group(rated.timed, rows)
    if found.total_ms <= 0:
        return None
    saved = np.maximum(time[rows] - roofline.attainable[rows] / TENSOR_EFFICIENCY, 0)
    return OddProducts(
        found, per_step(rated.timed, saved), [shape for shape, _ in spent.most_common()]
    )


def _odd_shape(
    shapes: str | None, dtypes: str | None, strides: str | None, name: str | None
) -> str | None:
    """The shape of a matrix of such inputs with an odd row length; None without one, or where one
    is narrow."""
    operands = [t for t in tensors_of(shapes, dtypes, strides) if len(t.shape) >= 2]
    if min((size for t in operands for size in t.shape[-2:]), default=0) <= SMALL_DIMENSION:
        return None
    last = operands[-1]
    columns = last.shape[-2 if (name or "").endswith("linear") else -1]
    rows = [
        *zip(operands, map(_row_length, operands), strict=True),
        (last, columns),
    ]  # at the end of what it writes
    odd = (tensor.shape for tensor, length in rows if _is_odd(length, tensor.dtype.bytes))
    return next(("x".join(map(str, shape)) for shape in odd), None)


def _row_length(tensor: Tensor) -> int:
    """Elements from one row of a matrix to the next, whichever way it is stored: what alignment
    depends on."""
    strides = tensor.strides[-2:] if tensor.strides is not None else ()
    return max(strides) if len(strides) == 2 and min(strides) == 1 else tensor.shape[-1]


def _is_odd(size: int, element_bytes: float) -> bool:
    return bool(size * element_bytes % ALIGNED_BYTES)


def last_waves(rated: WithRoofline, free: Bool) -> LastWaves | None:
    """Matrix kernels with a mostly empty last wave, of ops that are `free`."""
    waves = rated.roofline.waves[:]
    time = duration(rated.linked)
    rows = steady(rated.timed) & rated.linked.is_matrix & free & _by_arithmetic(rated)
    rows &= (waves > 1) & (waves < MANY_WAVES)
    full = np.where(rows, waves, 1)
    loss = np.where(rows, 1 - full / np.ceil(full), 0.0)
    rows &= loss >= WAVE_LOSS
    found = group(rated.timed, rows)
    if found.total_ms <= 0:
        return None
    above_roofline = np.maximum(time - np.nan_to_num(rated.roofline.attainable), 0)
    lost = np.minimum(loss * time, above_roofline)
    return LastWaves(found, float(waves[rows].mean()), per_step(rated.timed, lost[rows]))


class OddConvolutions(NamedTuple):
    """Convolutions with channel counts that are not multiples of 16 bytes."""

    kernels: OpsGroup
    shapes: list[str]  # of their weights: result channels, input channels of a group, window


def odd_convolutions(rated: WithRoofline, free: Bool) -> OddConvolutions | None:
    """Convolutions in tensor cores' formats with odd channel counts, of `free` ops; not of images
    or groups."""
    roofline = rated.roofline
    code = op_code(rated)
    rows = steady(rated.timed) & rated.linked.is_matrix & free & (code >= 0)
    rows &= isin_few(roofline.precision, (Precision.TF32, Precision.FP16, Precision.BF16))
    rows &= texts_where(rated.trace.strings, CONVOLUTION.match)[code]
    rows[rows], _, shapes = judged(
        rated, roofline.row[rows], ("name", "shapes", "dtypes"), _odd_weight
    )
    found = group(rated.timed, rows)
    return OddConvolutions(found, sorted({*filter(None, shapes)})) if found.total_ms > 0 else None


def _odd_weight(name: str, shapes: str | None, dtypes: str | None) -> str | None:
    """The shape of the weight, where one of its channel counts is odd; None where none is, or it
    cannot be told."""
    at = int("backward" in name)
    pair = [
        one
        for one in inputs_of(shapes, dtypes)[at : at + 2]
        if isinstance(one, Tensor) and len(one.shape) >= 3
    ]
    if len(pair) < 2:
        return None
    x, weight = pair
    channels = weight.shape[:2]
    odd = any(_is_odd(n, weight.dtype.bytes) for n in channels)
    fits = x.shape[1] == channels["transpose" not in name] and min(channels) > FEW_CHANNELS
    return "x".join(map(str, weight.shape)) if fits and odd else None
