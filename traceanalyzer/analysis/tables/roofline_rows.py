"""Steps and groups of device ops against the roofline: utilisation (MFU, HFU), bandwidth use, what bounds their time,
their ideal time.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.analysis.algebra.blocks import Rows, running_sums, scatter
from traceanalyzer.analysis.algebra.columns import Coded, lean
from traceanalyzer.analysis.algebra.grouping import sums
from traceanalyzer.analysis.algebra.lookup import places
from traceanalyzer.analysis.roofline.bounds import Bound
from traceanalyzer.analysis.roofline.op_models import Precision
from traceanalyzer.analysis.roofline.rated import Rated
from traceanalyzer.base.figures import metric, ms
from traceanalyzer.base.frozen import dataclass
from traceanalyzer.trace import F64, I32, I64, Bool, is_sorted
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
        "time of kernels near no ceiling: too small to fill the GPU, waiting, or with scattered accesses", "ms"
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
        needed += float(float(r.flops[matrix & (r.precision == code)].sum())) / peak
    return needed / (time_ns / 1e9)


Figures = Callable[[Any], NDArray[Any]]
"""A figure of these device ops (rows, or a slice of them)."""
Sum = Callable[[Figures], F64]

MODELLED_SHARE = 0.9
"""Figures of a group are told where models know this share of its device time: those of a part (a memset within an
operator) would be taken for the whole."""
ABOVE = 1.05
"""A datasheet's limits are met to within a few percent; what is faster by more was not limited by them."""
_BOUNDS = [bound for bound in Bound if bound is not Bound.UNKNOWN]


@dataclass(frozen=True, kw_only=True)
class RatedRow:
    """Columns that rows of device ops have beside their times."""

    bound_by: str | None = metric(
        "what limits most of the time: compute, memory, link, instructions (that are no FLOPs), or latency (near none "
        "of them: too small to fill the GPU, waiting, scattered accesses); null where no model of nearly all of the "
        "device time, or no known GPU, tells",
        default=None,
    )
    sol: float | None = metric(
        "speed of light: time that the roofline allows over the time taken; null unless nearly all has a model, and "
        "where that is above 1: data came from a cache, or the model does not fit",
        "share",
        default=None,
    )
    headroom_ms: float | None = metric("time a step less what the roofline allows", "ms", default=None)
    gflop: float | None = metric(
        "1e9 operations a step (a multiply-add is two); null unless nearly all has a model", default=None
    )
    bytes: float | None = metric(
        "least traffic a step that the data needs; null unless nearly all has a model", "bytes", default=None
    )
    intensity: float | None = metric("arithmetic intensity: operations for each byte of traffic", default=None)
    tflops: float | None = metric("operations over the time taken (1 TFLOP/s is 1e12)", "TFLOP/s", default=None)
    traffic_gbs: float | None = metric(
        "traffic over the time taken; null where a cache must have taken some of it (`sol` would be above 1)",
        "GB/s",
        default=None,
    )


class RooflineSums:
    """Figures of groups of device ops. `total` sums a figure of every device op over each group; it asks for some of
    them at a time."""

    def __init__(self, rated: Rated, total: Sum) -> None:
        roofline, ops = rated.roofline, rated.trace.device_ops
        flops, moved, attainable = roofline.flops, roofline.bytes, roofline.attainable
        length = lean(ops.end - ops.start)

        def time(of: Any) -> F64:
            return length[of].astype(np.float64)

        def time_with(figure: F64 | Coded) -> F64:
            return total(lambda of: np.isfinite(figure[of]) * time(of))

        def needed_where(known: Figures, figure: F64 | Coded) -> F64:
            return total(lambda of: np.where(known(of) & ~roofline.extra[of], figure[of], 0))

        def needed(figure: F64 | Coded) -> F64:
            return needed_where(lambda of: np.isfinite(figure[of]), figure)

        def of_both(figure: F64 | Coded) -> F64:
            return needed_where(lambda of: np.isfinite(flops[of]) & np.isfinite(moved[of]), figure)

        def time_bound(bound: Bound) -> F64:
            return total(lambda of: (roofline.bound[of] == bound) * time(of))

        def left(of: Any) -> F64:
            spare = np.maximum(time(of) - np.nan_to_num(attainable[of]) * ~roofline.extra[of], 0)
            return np.where(np.isfinite(attainable[of]), spare, 0)

        self.steps = rated.timed.steps.steady_count
        self.time = total(time)
        self.flops, self.flop_time = needed(flops), time_with(flops)
        self.bytes, self.byte_time = needed(moved), time_with(moved)
        self.pair = of_both(flops), of_both(moved)
        self.attainable, self.rated_time = needed(attainable), time_with(attainable)
        self.headroom = total(left)
        self.by_bound = np.stack([time_bound(bound) for bound in _BOUNDS])

    def columns(self, group: int) -> dict[str, Any]:
        """The columns of `RatedRow` for a group."""
        known = (self.flop_time, self.byte_time, self.rated_time)
        flop_time, byte_time, rated = (self._of_nearly_all(time[group], group) for time in known)
        pair_flops, pair_bytes = self.pair[0][group], self.pair[1][group]
        bounded = self._of_nearly_all(self.by_bound[:, group].sum(), group)
        bound = _BOUNDS[int(self.by_bound[:, group].argmax())] if bounded else Bound.UNKNOWN
        sol = float(self.attainable[group] / rated) if rated else None
        cached = sol is not None and sol > ABOVE
        return vars(
            RatedRow(
                bound_by=bound.label,
                gflop=float(self.flops[group]) / self.steps / 1e9 if flop_time else None,
                bytes=float(self.bytes[group]) / self.steps if byte_time else None,
                intensity=float(pair_flops / pair_bytes) if pair_bytes and flop_time and byte_time else None,
                tflops=float(self.flops[group] / flop_time) / 1e3 if flop_time else None,
                traffic_gbs=float(self.bytes[group] / byte_time) if byte_time and not cached else None,
                sol=None if sol is None or cached else min(sol, 1.0),
                headroom_ms=ms(self.headroom[group]) / self.steps if rated else None,
            )
        )

    def _of_nearly_all(self, time: float, group: int) -> float:
        """This part of a group's device time, 0 where it is not nearly all of it."""
        return float(time) if time >= MODELLED_SHARE * self.time[group] else 0.0


def by_group(group: I32 | I64, rows: I32 | I64, count: int) -> Sum:
    """Sums over groups of these device ops."""

    def total(figures: Figures) -> F64:
        return scatter(np.add, np.zeros(count), lambda group, row: (group, figures(row.astype(np.intp))), group, rows)

    return total


def by_subtree(launched_at: I64, first: I32 | I64, last: I32 | I64, group: I32 | I64, count: int) -> Sum:
    """Sums over groups of host nodes of the device ops launched in the nodes' subtrees, [first, last) each.

    `launched_at` is the node that launched each device op, -1 for those that do not count.
    """
    order = None if is_sorted(launched_at) else np.argsort(launched_at, kind="stable").astype(np.int32)
    if order is not None:
        launched_at = launched_at[order]
    low, high, ops = places(launched_at, first), places(launched_at, last), len(launched_at)
    launching = high > low
    low, high, group = low[launching], high[launching], group[launching]

    def total(figures: Figures) -> F64:
        up_to = running_sums(figures, Rows(ops) if order is None else order)
        return sums(group, up_to[high] - up_to[low], count)

    return total
