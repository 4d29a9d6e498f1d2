"""Findings on device time that only moves tensors into another layout or type."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceanalyzer.analysis.groups import layout
from traceanalyzer.diagnosis.draft import Draft, Remedy, share, times
from traceanalyzer.diagnosis.finding import Evidence

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traceanalyzer.analysis.measure import Measurements
    from traceanalyzer.trace import Bool


def channels_last(m: Measurements, free: Bool) -> Iterator[Draft]:
    """Layout kernels that the convolution library runs around its own, because tensors come channels first."""
    found = layout.channel_kernels(m, free)
    if found is None:
        return
    evidence = [share(m, found.total_ms, "kernels that change the layout of tensors around convolutions")]
    evidence += times(found.top)
    action = (
        "Keep the model and its inputs in channels-last: model.to(memory_format=torch.channels_last), the same for "
        "the input."
    )
    basis = "without these kernels; weights in channels-last need none of them"
    remedy = Remedy(action, basis, name="channels_last")
    title = "Convolutions change the layout of their tensors"
    yield Draft("channels-last", "memory", title, "compute", found.total_ms, evidence, [remedy], found.rows)


def repeated_casts(m: Measurements, free: Bool) -> Iterator[Draft]:
    """The same tensors (by type and shape) cast to another type several times a step. Whether a cast can go is not
    in the recording, so no headroom is claimed."""
    found = layout.casts(m, free)
    if found is None:
        return
    evidence = [
        share(m, found.total_ms, "casts of tensors to another type"),
        Evidence("casts a step", found.casts, "", "device ops"),
        Evidence("casts of equal inputs", found.alike, "", "mean count a step of one shape and type"),
        Evidence("time", found.first_ms, "ms", "the first of each shape and type alone"),
        *times(found.kernels.top, "time in the kernel"),
    ]
    action = (
        "Cast once: keep weights in the type they are used in (model.to(torch.bfloat16) with an optimizer that holds "
        "fp32 masters), cast inputs where they enter, keep autocast's weight cache on."
    )
    remedy = Remedy(action, "which tensors are the same is not in the recording", name="low_precision")
    title = "The same tensors are cast repeatedly"
    yield Draft("repeated-casts", "memory", title, "compute", None, evidence, [remedy], found.kernels.rows)


def layout_copies(m: Measurements, free: Bool) -> Iterator[Draft]:
    """Copies that only make a tensor contiguous."""
    found = layout.layout_copies(m, free)
    if found is None:
        return
    evidence = [share(m, found.total_ms, "copies that make tensors contiguous (contiguous, clone)")]
    evidence += times(found.top)
    action = (
        "Keep the layout through the chain: operators that take strides, transposes folded into the products (bmm, "
        "linear and scaled_dot_product_attention take transposed inputs), view instead of reshape."
    )
    remedy = Remedy(action, "which of the copies the operators after them need is not in the recording")
    title = "Tensors are copied to change their layout"
    yield Draft("layout-copies", "memory", title, "compute", None, evidence, [remedy], found.rows)
