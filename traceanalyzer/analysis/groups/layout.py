"""Device work that moves tensors into another layout or type without calculating anything, and
kernels that walk through memory in strides: neighbouring threads read or write elements that lie
far apart.

Memory moves in sectors of 32 bytes. Where the fastest dimension of one operand of an elementwise
kernel is walked through in steps of a sector or more in another, one of the two moves a sector for
each element, whichever order the kernel takes. The strides of the inputs say so; results are not
recorded, so only what inputs show is told."""

import re
from itertools import combinations
from typing import NamedTuple

import numpy as np

from traceanalyzer.analysis.algebra import Groups, at, texts_where
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
from traceanalyzer.analysis.joined.joined import HostAttribution
from traceanalyzer.analysis.roofline.op_models.tensors import Tensor, tensors_of
from traceanalyzer.analysis.roofline.rated import WithRoofline
from traceanalyzer.analysis.time.timed import Timed
from traceanalyzer.base import regex
from traceanalyzer.trace import I32, Bool

CHANNELS = regex(
    r"nchwToNhwc|nhwcToNchw|nchw_?to_?nhwc|nhwc_?to_?nchw|tensorTransformGeneric", re.IGNORECASE
)
"""cuDNN's and MIOpen's kernels between channels first and channels last."""
CONVOLUTION = regex(r"conv", re.IGNORECASE)
CAST = regex(r"^aten::(?:_to_copy|to)$")  # operators that make a tensor of another type
COPY = regex(r"^aten::(?:contiguous|clone)$")  # operators that copy a tensor as it is


class Casts(NamedTuple):
    """Casts of tensors to another type."""

    kernels: OpsGroup  # with the casts whose operator is not known; the figures below are without
    total_ms: float
    casts: float  # device ops a step
    alike: float  # mean number a step of one shape and type
    first_ms: float  # time a step of the first of each shape and type alone


SECTOR_BYTES = 32  # what the device memory and the caches move at least (NVIDIA's and AMD's alike)
LARGE_BYTES = 1 << 22
"""Smaller operands lie in the caches, where a sector that was moved serves its other elements,
too."""
ELEMENTWISE = regex(
    r"^aten::(copy_|(add|sub|mul|div)_?|where|maximum|minimum|pow|sigmoid|tanh|(ge|si|re)lu|clamp)$"
)
"""Operators that go through all operands in one order, element by element."""


def channel_kernels(timed: Timed, free: Bool) -> OpsGroup | None:
    """Kernels that a convolution library runs around its own to change a layout, of ops that are
    `free`."""
    found = group(timed, steady(timed) & free & named_like(timed.linked, CHANNELS))
    convolves = (steady(timed) & of_class(timed.joined, "convolution")).any()
    return found if found.total_ms > 0 and convolves else None


def casts(timed: Timed, free: Bool) -> Casts | None:
    """Casts to another type, those of equal inputs counted, of ops that are `free`."""
    joined = timed.joined
    ranges = timed.trace.host_ranges
    time = duration(timed.linked)
    node = at(_around(joined, CAST), joined.launch_node, -1)
    rows = steady(timed) & free & (node >= 0) & ~of_class(joined, "memcpy")
    row = np.where(rows, at(joined.linked.tree.row, node, -1), -1)
    chosen = np.flatnonzero(row >= 0)
    if not len(chosen):
        return None
    alike = Groups.of(
        timed.steps.of_op[chosen], ranges.shapes[row[chosen]], ranges.dtypes[row[chosen]]
    )
    return Casts(
        kernels=OpsGroup(rows, per_step(timed, time[rows]), group(timed, row >= 0).top),
        total_ms=per_step(timed, time[chosen]),
        casts=len(chosen) / timed.steps.steady_count,
        alike=float(alike.count.mean()),
        first_ms=per_step(timed, time[chosen[alike.first]]),
    )


def layout_copy_ops(timed: Timed, free: Bool) -> OpsGroup | None:
    """Copies that only make a tensor contiguous, of ops that are `free`."""
    rows = (
        steady(timed)
        & free
        & _launched_below(timed.joined, COPY)
        & ~_launched_below(timed.joined, CONVOLUTION)
    )
    found = group(timed, rows)
    return found if found.total_ms > 0 else None


def _launched_below(joined: HostAttribution, pattern: re.Pattern[str]) -> Bool:
    """Device ops launched inside an operator of such a name."""
    return at(_around(joined, pattern), joined.launch_node, -1) >= 0


def _around(joined: HostAttribution, pattern: re.Pattern[str]) -> I32:
    """For each node of the host tree the innermost operator of such a name around it, -1
    without."""
    tree = joined.linked.tree
    return tree.innermost(tree.named(texts_where(joined.trace.strings, pattern.search)))


class StridedWork(NamedTuple):
    """Elementwise kernels with operands in different orders."""

    kernels: OpsGroup
    examples: list[str]  # operator, shape and strides of the two operands


def strided_work(rated: WithRoofline) -> StridedWork | None:
    """Such kernels of large operands."""
    rows = steady(rated.timed) & of_class(rated.joined, "elementwise", "layout", "other")
    rows &= texts_where(rated.trace.strings, ELEMENTWISE.match)[op_code(rated)]
    columns = ("name", "shapes", "dtypes", "strides")
    rows[rows], _, examples = judged(rated, rated.roofline.row[rows], columns, _two_orders)
    kernels = group(rated.timed, rows)
    return StridedWork(kernels, sorted({*filter(None, examples)})) if kernels.total_ms > 0 else None


def _two_orders(
    name: str | None, shapes: str | None, dtypes: str | None, strides: str | None
) -> str | None:
    """Two operands of an operator that are in different orders, and how; None without."""
    large = [
        one
        for one in tensors_of(shapes, dtypes, strides)
        if one.strides and one.bytes >= LARGE_BYTES
    ]
    crossing = (pair for pair in combinations(large, 2) if crosses(*pair))
    a, b = next(crossing, (None, None))
    return (
        f"{name} of {list(a.shape)}: strides {list(a.strides or ())}, {list(b.strides or ())}"
        if a and b
        else None
    )


def crosses(a: Tensor, b: Tensor) -> bool:
    """Whether each of two operands of one shape is walked through in sectors along the other's
    fastest dimension."""
    fast_a = _fastest(a)
    fast_b = _fastest(b)
    if a.shape != b.shape or fast_a is None or fast_b is None:
        return False
    step_a = (a.strides or ())[fast_b] * a.dtype.bytes
    step_b = (b.strides or ())[fast_a] * b.dtype.bytes
    steps = (step_b, step_a)
    return fast_a != fast_b and all(abs(step) >= SECTOR_BYTES for step in steps)


def _fastest(tensor: Tensor) -> int | None:
    """The dimension whose elements lie side by side, None without one."""
    strides = tensor.strides or ()
    axes = enumerate(zip(tensor.shape, strides, strict=True))
    return next((axis for axis, (size, step) in axes if step == 1 and size > 1), None)
