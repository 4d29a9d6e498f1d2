"""Device time spent on moving tensors into another layout or type, without calculating anything."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from traceanalyzer.diagnosis.draft import Draft, Remedy, share
from traceanalyzer.diagnosis.finding import Evidence
from traceanalyzer.diagnosis.rules.kernel_rows import (
    Claim,
    duration,
    named,
    of_class,
    per_step,
    steady,
    top_kernels,
    with_text,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traceanalyzer.analysis.measure import Measurements
    from traceanalyzer.trace import I64, Bool

CHANNELS = re.compile(r"nchwToNhwc|nhwcToNchw|nchw_?to_?nhwc|nhwc_?to_?nchw|tensorTransformGeneric", re.IGNORECASE)
"""cuDNN's and MIOpen's kernels between channels first and channels last."""
CONVOLUTION = re.compile(r"conv", re.IGNORECASE)
CAST = re.compile(r"^aten::(?:_to_copy|to)$")
"""Operators that make a tensor of another type."""
COPY = re.compile(r"^aten::(?:contiguous|clone)$")
"""Operators that copy a tensor as it is."""


def channels_last(m: Measurements, free: Bool) -> Iterator[Claim]:
    """Layout kernels that the convolution library runs around its own, because tensors come channels first."""
    rows = steady(m) & free & named(m, CHANNELS)
    total = per_step(m, duration(m)[rows])
    if total <= 0 or not (steady(m) & of_class(m, "convolution")).any():
        return
    evidence = [share(total, m.mean_step_ms, "kernels that change the layout of tensors around convolutions")]
    evidence += [Evidence("time", t, "ms", name) for name, t in top_kernels(m, rows)]
    action = (
        "Keep the model and its inputs in channels-last: model.to(memory_format=torch.channels_last), the same for "
        "the input."
    )
    remedy = Remedy(action, "without these kernels; weights in channels-last need none of them")
    title = "Convolutions change the layout of their tensors"
    yield Claim(Draft("channels-last", "memory", title, "compute", total, evidence, [remedy]), rows)


def repeated_casts(m: Measurements, free: Bool) -> Iterator[Claim]:
    """The same tensors (by type and shape) cast to another type several times a step. Whether a cast can go is not
    in the recording, so only casts of equal inputs beyond the first in a step are claimed, and that as a bound."""
    kind = "casts of tensors to another type"
    rows = steady(m) & free & _launched_below(m, CAST) & ~of_class(m, "memcpy")
    row = _outer_row(m, rows)
    ranges, step = m.trace.host_ranges, m.steps.of_op
    chosen = np.flatnonzero(rows & (row >= 0))
    keys = np.stack((step[chosen], ranges.shapes[row[chosen]], ranges.dtypes[row[chosen]]))
    if not len(chosen):
        return
    _, first, count = np.unique(keys, axis=1, return_index=True, return_counts=True)
    total = per_step(m, duration(m)[chosen])
    evidence = [
        share(total, m.mean_step_ms, kind),
        Evidence("casts a step", len(chosen) / m.steps.steady_count, "", "device ops"),
        Evidence("casts of equal inputs", float(count.mean()), "", "mean count a step of one shape and type"),
        Evidence("time", per_step(m, duration(m)[chosen[first]]), "ms", "the first of each shape and type alone"),
        *(Evidence("time in the kernel", t, "ms", name) for name, t in top_kernels(m, rows & (row >= 0))),
    ]
    action = (
        "Cast once: keep weights in the type they are used in (model.to(torch.bfloat16) with an optimizer that holds "
        "fp32 masters), cast inputs where they enter, keep autocast's weight cache on."
    )
    remedy = Remedy(action, "which tensors are the same is not in the recording")
    yield Claim(
        Draft("repeated-casts", "memory", "Tensors are cast again and again", "compute", None, evidence, [remedy]), rows
    )


def layout_copies(m: Measurements, free: Bool) -> Iterator[Claim]:
    """Copies that only make a tensor contiguous."""
    rows = steady(m) & free & _launched_below(m, COPY) & ~_launched_below(m, CONVOLUTION)
    total = per_step(m, duration(m)[rows])
    if total <= 0:
        return
    evidence = [share(total, m.mean_step_ms, "copies that make tensors contiguous (contiguous, clone)")]
    evidence += [Evidence("time", t, "ms", name) for name, t in top_kernels(m, rows)]
    action = (
        "Keep the layout through the chain: operators that take strides, transposes folded into the products (bmm, "
        "linear and scaled_dot_product_attention take transposed inputs), view instead of reshape."
    )
    remedy = Remedy(action, "which of the copies the operators after them need is not in the recording")
    yield Claim(
        Draft(
            "layout-copies", "memory", "Tensors are copied to change their layout", "compute", None, evidence, [remedy]
        ),
        rows,
    )


def _launched_below(m: Measurements, pattern: re.Pattern[str]) -> Bool:
    """Device ops launched inside an operator of such a name."""
    above = np.append(_around(m, pattern), -1)
    result: Bool = above[m.launch_node] >= 0
    return result


def _outer_row(m: Measurements, rows: Bool) -> I64:
    """The host range of the cast around each of these device ops, -1 without."""
    tree = m.tree
    node = np.append(_around(m, CAST), -1)[m.launch_node]
    return np.where(rows & (node >= 0), np.append(tree.row, -1)[node], -1)


def _around(m: Measurements, pattern: re.Pattern[str]) -> I64:
    """For each node of the host tree the innermost operator of such a name around it, -1 without."""
    tree = m.tree
    wanted = np.zeros(len(tree.start), bool)
    wanted[~tree.is_call] = with_text(m, m.trace.host_ranges.name, pattern)[tree.row[~tree.is_call]]
    return tree.innermost(wanted)
