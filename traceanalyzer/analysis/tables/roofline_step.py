"""The step against the roofline: utilisation (MFU, HFU), bandwidth use, what bounds its time, its ideal time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from traceanalyzer.analysis.joined.attribution import launch_nodes
from traceanalyzer.analysis.joined.backward import in_backward
from traceanalyzer.analysis.roofline.bounds import Bound
from traceanalyzer.analysis.roofline.op_models import Precision
from traceanalyzer.analysis.roofline.precision import is_matrix
from traceanalyzer.figures import metric, ms

if TYPE_CHECKING:
    from traceanalyzer.analysis.context import Context
    from traceanalyzer.hardware import Hardware
    from traceanalyzer.trace import F64, Bool

ENOUGH_SHARE = 0.5
"""With less of the computation modelled, figures of the whole step would speak of what is not known."""
FORWARD_ONLY = (
    "aten::linear",
    "aten::conv1d",
    "aten::conv2d",
    "aten::conv3d",
    "aten::scaled_dot_product_attention",
    "aten::layer_norm",
    "aten::batch_norm",
)
"""Operators that modules call and that no derivative formula does (derivatives.yaml): inside the backward pass they
are a forward pass done again, activation checkpointing."""


@dataclass(frozen=True)
class RooflineStep:
    """A mean steady step on the critical device against what its GPU can do at most."""

    gpu: str | None = metric("entry of the hardware table that the device is; null where it has none")
    datasheet: str | None = metric("where its limits are from")
    modelled_share: float = metric("share of the kernels' time (collectives left out) that has a model", "share")
    ideal_ms: float | None = metric(
        "time of the step's computation at the roofline: of what has a model the least time that work and traffic "
        "need, of the rest the recorded time; this and utilisation are null where less than half has a model",
        "ms",
    )
    reachable_ms: float | None = metric(
        "the ideal time at the rates that a copy and matrix products were measured to reach on the machine, instead of "
        "the datasheet's; null where they were not measured (collect --ceilings)",
        "ms",
    )
    headroom_ms: float | None = metric("recorded time of what has a model less its time at the roofline", "ms")
    compute_bound_ms: float | None = metric("time of kernels that arithmetic limits", "ms")
    memory_bound_ms: float | None = metric("time of kernels that memory bandwidth limits", "ms")
    instruction_bound_ms: float | None = metric(
        "time of kernels limited by instructions that are no FLOPs: indices, conversions, special functions", "ms"
    )
    latency_bound_ms: float | None = metric(
        "time of kernels near no ceiling: too small to fill the GPU, waiting, or with scattered accesses",
        "ms",
    )
    unmodelled_ms: float = metric("time of kernels without a model or on an unknown GPU; nothing is said of them", "ms")
    tflop: float | None = metric("operations of a step, 1e12, a multiply-add is two; of what has a model")
    mfu: float | None = metric(
        "model FLOP/s utilisation: operations of matrix kernels, those done again in the backward pass left out, each "
        "over the dense peak of its number format, over the step time",
        "share",
    )
    hfu: float | None = metric("the same with operations done again; null where none were seen", "share")
    traffic_gb: float | None = metric("least traffic with the device memory that a step needs, 1e9 bytes", "GB")
    bandwidth_share: float | None = metric("that traffic over the step time and the memory's bandwidth", "share")


def roofline_step(ctx: Context) -> RooflineStep | None:
    """The mean steady step of the device with the most work; None without device work or without any model."""
    ops, r = ctx.trace.device_ops, ctx.roofline
    here = ctx.steady_ops & ctx.is_compute & (ops.device == (-1 if ctx.device is None else ctx.device))
    time = np.where(here, ops.end - ops.start, 0).astype(np.float64)
    if ctx.device is None or not time.sum() or not (r.modelled & here & ctx.is_kernel).any():
        return None
    modelled_share = float(time[r.modelled].sum() / time.sum())
    gpu, steps = ctx.gpus[ctx.device], ctx.steps.steady_count
    step_ns = float(ctx.steps.duration[ctx.steps.steady].mean())
    rated, counted = here & r.rated, here & np.isfinite(r.flops)
    attained = np.minimum(np.where(rated, r.attainable, 0), time)
    reached = np.minimum(np.where(np.isfinite(r.reachable), r.reachable, r.attainable), time)
    traffic = float(np.where(here & np.isfinite(r.bytes), r.bytes, 0).sum()) / steps
    again = recomputed(ctx) & counted
    used, repeated = _utilisation(ctx, gpu, counted, step_ns * steps), _utilisation(ctx, gpu, again, step_ns * steps)
    known, enough = gpu is not None, gpu is not None and modelled_share >= ENOUGH_SHARE

    def per_step(mask: Bool) -> float:
        return ms(time[mask].sum()) / steps

    return RooflineStep(
        gpu=gpu.name if gpu else None,
        datasheet=gpu.source if gpu else None,
        modelled_share=modelled_share,
        ideal_ms=ms(attained.sum() + time[~rated].sum()) / steps if enough else None,
        reachable_ms=ms(reached[rated].sum() + time[~rated].sum()) / steps
        if enough and ctx.trace.ceilings is not None
        else None,
        headroom_ms=ms(time[rated].sum() - attained.sum()) / steps if known else None,
        compute_bound_ms=per_step(r.bound == Bound.COMPUTE) if known else None,
        memory_bound_ms=per_step(r.bound == Bound.MEMORY) if known else None,
        instruction_bound_ms=per_step(r.bound == Bound.INSTRUCTIONS) if known else None,
        latency_bound_ms=per_step(r.bound == Bound.LATENCY) if known else None,
        unmodelled_ms=per_step(~rated),
        tflop=float(r.flops[counted].sum()) / 1e12 / steps if counted.any() else None,
        mfu=used - (repeated or 0.0) if used is not None and enough else None,
        hfu=used if again.any() and enough else None,
        traffic_gb=traffic / 1e9 if traffic else None,
        bandwidth_share=traffic / (gpu.bandwidth * step_ns / 1e9) if gpu and step_ns and traffic and enough else None,
    )


def recomputed(ctx: Context) -> Bool:
    """Which device ops belong to forward operators that run in the backward pass (activation checkpointing)."""
    tree, node = ctx.tree, launch_nodes(ctx)
    names = [i for i, text in enumerate(ctx.trace.strings) if text in FORWARD_ONLY]
    forward = np.zeros(len(tree.start), bool)
    forward[~tree.is_call] = np.isin(ctx.trace.host_ranges.name[tree.row[~tree.is_call]], names)
    again = np.append(tree.innermost(forward & in_backward(ctx)) >= 0, False)
    result: Bool = again[node]
    return result


def _utilisation(ctx: Context, gpu: Hardware | None, chosen: Bool, time_ns: float) -> float | None:
    """Operations of these matrix kernels over what the GPU can do in the time; None where a peak is not known."""
    if gpu is None or time_ns <= 0:
        return None
    r, matrix, needed = ctx.roofline, is_matrix(ctx) & chosen, 0.0
    for code in np.unique(r.precision[matrix]):
        peak = gpu.matrix_peak(Precision(code).name.lower())
        if peak is None:
            return None
        needed += float(_sum(r.flops, matrix & (r.precision == code))) / peak
    return needed / (time_ns / 1e9)


def _sum(values: F64, chosen: Bool) -> float:
    return float(values[chosen].sum())
