"""Device work that moves tensors into another layout or type, without calculating anything."""

from __future__ import annotations

import re

import numpy as np

from traceanalyzer.analysis.algebra.grouping import Groups
from traceanalyzer.analysis.algebra.lookup import at
from traceanalyzer.analysis.algebra.texts import texts_where
from traceanalyzer.analysis.groups.ops import Group, duration, group, named, of_class, per_step, steady
from traceanalyzer.analysis.joined.joined import Joined
from traceanalyzer.analysis.time.timed import Timed
from traceanalyzer.base.frozen import dataclass
from traceanalyzer.trace import I32, I64, Bool

CHANNELS = re.compile(r"nchwToNhwc|nhwcToNchw|nchw_?to_?nhwc|nhwc_?to_?nchw|tensorTransformGeneric", re.IGNORECASE)
"""cuDNN's and MIOpen's kernels between channels first and channels last."""
CONVOLUTION = re.compile(r"conv", re.IGNORECASE)
CAST = re.compile(r"^aten::(?:_to_copy|to)$")
"""Operators that make a tensor of another type."""
COPY = re.compile(r"^aten::(?:contiguous|clone)$")
"""Operators that copy a tensor as it is."""


@dataclass(frozen=True, eq=False)
class Casts:
    """Casts of tensors to another type."""

    kernels: Group
    """With the casts whose operator is not known; the figures below are without."""
    total_ms: float
    casts: float
    """Device ops a step."""
    alike: float
    """Mean number a step of one shape and type."""
    first_ms: float
    """Time a step of the first of each shape and type alone."""


def channel_kernels(timed: Timed, free: Bool) -> Group | None:
    """Kernels that a convolution library runs around its own to change a layout, of ops that are `free`."""
    found = group(timed, steady(timed) & free & named(timed.linked, CHANNELS))
    convolves = (steady(timed) & of_class(timed.joined, "convolution")).any()
    return found if found.total_ms > 0 and convolves else None


def casts(timed: Timed, free: Bool) -> Casts | None:
    """Casts to another type, those of equal inputs counted, of ops that are `free`."""
    rows = steady(timed) & free & _launched_below(timed.joined, CAST) & ~of_class(timed.joined, "memcpy")
    row = _outer_row(timed.joined, rows)
    ranges, step = timed.trace.host_ranges, timed.steps.of_op
    chosen = np.flatnonzero(rows & (row >= 0))
    if not len(chosen):
        return None
    alike = Groups.of(step[chosen], ranges.shapes[row[chosen]], ranges.dtypes[row[chosen]])
    time = duration(timed.linked)
    return Casts(
        kernels=Group(rows, per_step(timed, time[rows]), group(timed, rows & (row >= 0)).top),
        total_ms=per_step(timed, time[chosen]),
        casts=len(chosen) / timed.steps.steady_count,
        alike=float(alike.count.mean()),
        first_ms=per_step(timed, time[chosen[alike.first]]),
    )


def layout_copies(timed: Timed, free: Bool) -> Group | None:
    """Copies that only make a tensor contiguous, of ops that are `free`."""
    rows = steady(timed) & free & _launched_below(timed.joined, COPY) & ~_launched_below(timed.joined, CONVOLUTION)
    found = group(timed, rows)
    return found if found.total_ms > 0 else None


def _launched_below(joined: Joined, pattern: re.Pattern[str]) -> Bool:
    """Device ops launched inside an operator of such a name."""
    return at(_around(joined, pattern), joined.launch_node, -1) >= 0


def _outer_row(joined: Joined, rows: Bool) -> I64:
    """The host range of the cast around each of these device ops, -1 without."""
    tree = joined.linked.tree
    node = at(_around(joined, CAST), joined.launch_node, -1)
    return np.where(rows & (node >= 0), at(tree.row, node, -1), -1)


def _around(joined: Joined, pattern: re.Pattern[str]) -> I32:
    """For each node of the host tree the innermost operator of such a name around it, -1 without."""
    tree = joined.linked.tree
    return tree.innermost(tree.named(texts_where(joined.trace.strings, pattern.search)))
