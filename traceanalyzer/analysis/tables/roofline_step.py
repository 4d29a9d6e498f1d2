"""The step against the roofline: utilisation (MFU, HFU), bandwidth use, what bounds its time, its ideal time."""

from __future__ import annotations

import numpy as np

from traceanalyzer.analysis.algebra.coded import Coded
from traceanalyzer.analysis.roofline.bounds import Bound
from traceanalyzer.analysis.roofline.op_models import Precision
from traceanalyzer.analysis.roofline.rated import Rated
from traceanalyzer.base.figures import metric, ms
from traceanalyzer.base.frozen import dataclass
from traceanalyzer.trace import F64, Bool
from traceanalyzer.trace.distinct import distinct
from traceanalyzer.trace.hardware import Hardware

ENOUGH_SHARE = 0.5
"""With less of the computation modelled, figures of the whole step would speak of what is not known."""


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
        "the ideal time at the rates that a copy and matmuls were measured to reach on the machine, instead of "
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


def roofline_step(rated: Rated) -> RooflineStep | None:
    """The mean steady step of the device with the most work; None without device work or without any model."""
    ops, r = rated.trace.device_ops, rated.roofline
    here = (
        rated.timed.steady_ops
        & rated.linked.is_compute
        & (ops.device == (-1 if rated.timed.device is None else rated.timed.device))
    )
    time = np.where(here, ops.end - ops.start, 0).astype(np.float64)
    if rated.timed.device is None or not time.sum() or not (r.modelled & here & rated.linked.is_kernel).any():
        return None
    modelled_share = float(time[r.modelled].sum() / time.sum())
    gpu, steps = rated.linked.gpus[rated.timed.device], rated.timed.steps.steady_count
    step_ns = float(rated.timed.steps.duration[rated.timed.steps.steady].mean())
    known_limit, counted = here & r.rated, here & np.isfinite(r.flops)
    attained = np.minimum(np.where(known_limit, r.attainable, 0), time)
    reached = np.minimum(np.where(np.isfinite(r.reachable), r.reachable, r.attainable), time)
    traffic = float(np.where(here & np.isfinite(r.bytes), r.bytes, 0).sum()) / steps
    again = rated.joined.run_again[rated.joined.launch_node] & counted
    used, repeated = (
        _utilisation(rated, gpu, counted, step_ns * steps),
        _utilisation(rated, gpu, again, step_ns * steps),
    )
    known, enough = gpu is not None, gpu is not None and modelled_share >= ENOUGH_SHARE

    def per_step(mask: Bool) -> float:
        return ms(time[mask].sum()) / steps

    return RooflineStep(
        gpu=gpu.name if gpu else None,
        datasheet=gpu.source if gpu else None,
        modelled_share=modelled_share,
        ideal_ms=ms(attained.sum() + time[~known_limit].sum()) / steps if enough else None,
        reachable_ms=ms(reached[known_limit].sum() + time[~known_limit].sum()) / steps
        if enough and rated.trace.ceilings is not None
        else None,
        headroom_ms=ms(time[known_limit].sum() - attained.sum()) / steps if known else None,
        compute_bound_ms=per_step(r.bound == Bound.COMPUTE) if known else None,
        memory_bound_ms=per_step(r.bound == Bound.MEMORY) if known else None,
        instruction_bound_ms=per_step(r.bound == Bound.INSTRUCTIONS) if known else None,
        latency_bound_ms=per_step(r.bound == Bound.LATENCY) if known else None,
        unmodelled_ms=per_step(~known_limit),
        tflop=float(r.flops[counted].sum()) / 1e12 / steps if counted.any() else None,
        mfu=used - (repeated or 0.0) if used is not None and enough else None,
        hfu=used if again.any() and enough else None,
        traffic_gb=traffic / 1e9 if traffic else None,
        bandwidth_share=traffic / (gpu.bandwidth * step_ns / 1e9) if gpu and step_ns and traffic and enough else None,
    )


def _utilisation(rated: Rated, gpu: Hardware | None, chosen: Bool, time_ns: float) -> float | None:
    """Operations of these matrix kernels over what the GPU can do in the time; None where a peak is not known."""
    if gpu is None or time_ns <= 0:
        return None
    r, matrix, needed = rated.roofline, rated.linked.is_matrix & chosen, 0.0
    for code in distinct(r.precision[matrix]):
        peak = gpu.matrix_peak(Precision(code).name.lower())
        if peak is None:
            return None
        needed += float(_sum(r.flops, matrix & (r.precision == code))) / peak
    return needed / (time_ns / 1e9)


def _sum(values: F64 | Coded, chosen: Bool) -> float:
    return float(values[chosen].sum())
