"""Steps and groups of device ops against the roofline: MFU, HFU, bandwidth use, what bounds them,
their ideal time."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.analysis.algebra import (
    Coded,
    Rows,
    compact,
    local_searchsorted,
    running_sums,
    scatter,
    sums,
)
from traceanalyzer.analysis.roofline.bounds import Bound
from traceanalyzer.analysis.roofline.op_models import Precision
from traceanalyzer.analysis.roofline.rated import WithRoofline
from traceanalyzer.base import NS_PER_MS, NS_PER_S, dataclass, maybe, metric, ms, ratio
from traceanalyzer.trace import F64, I32, I64, Bool, distinct, is_sorted
from traceanalyzer.trace.hardware import GIGA, TERA, Hardware

OF_LIMITS = (
    "headroom_ms",
    "compute_bound_ms",
    "memory_bound_ms",
    "instruction_bound_ms",
    "latency_bound_ms",
)
"""Figures that need the GPU's limits."""
BOUNDS = (
    Bound.COMPUTE,
    Bound.MEMORY,
    Bound.INSTRUCTIONS,
    Bound.LATENCY,
)  # what bounds the times of all but the first
OF_MOST = ("ideal_ms", "reachable_ms", "mfu", "hfu", "bandwidth_share")
"""Figures of the whole step, for which most of it needs a model, too."""
ENOUGH_SHARE = 0.5
"""With less of the computation modelled, figures of the whole step would speak of what is not
known."""


@dataclass(frozen=True)
class RooflineStep:
    """A mean steady step on the critical device against what its GPU can do at most."""

    gpu: str | None = metric(
        "entry of the hardware table that the device is; null where it has none"
    )
    datasheet: str | None = metric("where its limits are from")
    modelled_share: float = metric(
        "share of the kernels' time (collectives left out) that has a model"
    )
    ideal_ms: float | None = metric(
        "time of the step's computation at the roofline: of what has a model the least time that work and traffic "
        "need, of the rest the recorded time; this and utilisation are null where less than half has a model"
    )
    reachable_ms: float | None = metric(
        "the ideal time at the rates that a copy and matmuls were measured to reach on the machine, instead of "
        "the datasheet's; null where they were not measured (collect --ceilings)"
    )
    headroom_ms: float | None = metric(
        "recorded time of what has a model less its time at the roofline"
    )
    compute_bound_ms: float | None = metric("time of kernels that arithmetic limits")
    memory_bound_ms: float | None = metric("time of kernels that memory bandwidth limits")
    instruction_bound_ms: float | None = metric(
        "time of kernels limited by instructions that are no FLOPs: indices, "
        "conversions, special functions"
    )
    latency_bound_ms: float | None = metric(
        "time of kernels near no ceiling: too small to fill the GPU, waiting, or with "
        "scattered accesses"
    )
    unmodelled_ms: float = metric(
        "time of kernels without a model or on an unknown GPU; nothing is said of them"
    )
    tflop: float | None = metric(
        "operations of a step, 1e12, a multiply-add is two; of what has a model"
    )
    mfu: float | None = metric(
        "model FLOP/s utilisation: operations of matrix kernels, those done again in the backward pass left out, each "
        "over the dense peak of its number format, over the step time",
        "share",
    )
    hfu: float | None = metric(
        "the same with operations done again; null where none were seen", "share"
    )
    traffic_gb: float | None = metric(
        "least traffic with the device memory that a step needs, 1e9 bytes", "GB"
    )
    bandwidth_share: float | None = metric(
        "that traffic over the step time and the memory's bandwidth"
    )


MODELLED_SHARE = 0.9
"""Figures of a group are told where models know this share of its device time: those of a part (a
memset within an operator) would be taken for the whole."""
ABOVE = 1.05
"""A datasheet's limits are met to within a few percent; what is faster by more was not limited by
them."""
_BOUNDS = [bound for bound in Bound if bound is not Bound.UNKNOWN]


def roofline_step(rated: WithRoofline) -> RooflineStep | None:
    """The mean steady step of the device with the most work; None without device work or without
    any model."""
    ops = rated.trace.device_ops
    r = rated.roofline
    device = rated.timed.device
    if device is None:
        return None
    here = rated.timed.steady_ops & rated.linked.is_compute & (ops.device == device)
    time = np.where(here, ops.end - ops.start, 0).astype(np.float64)
    if not time.sum() or not (r.modelled & here & rated.linked.is_kernel).any():
        return None
    gpu = rated.linked.gpus[device]
    steps = rated.timed.steps.steady_count
    name, source = (gpu.name, gpu.source) if gpu else (None, None)
    modelled_share = float(time[r.modelled].sum() / time.sum())
    counted = here & np.isfinite(r.flops)
    limited = here & r.rated
    traffic = float(np.where(here & np.isfinite(r.bytes), r.bytes, 0).sum()) / steps
    by_limits: dict[str, float | None] = dict.fromkeys((*OF_LIMITS, *OF_MOST))
    if gpu is not None:
        spent = [time[limited].sum() - np.minimum(r.attainable[limited], time[limited]).sum()]
        spent += [time[r.bound == bound].sum() for bound in BOUNDS]
        by_limits |= zip(OF_LIMITS, (np.array(spent) / NS_PER_MS / steps).tolist(), strict=True)
        if modelled_share >= ENOUGH_SHARE:
            by_limits |= zip(
                OF_MOST, _at_limits(rated, gpu, counted, limited, time, traffic), strict=True
            )
    return RooflineStep(
        gpu=name,
        datasheet=source,
        modelled_share=modelled_share,
        unmodelled_ms=ms(time[~limited].sum()) / steps,
        tflop=float(r.flops[counted].sum()) / TERA / steps if counted.any() else None,
        traffic_gb=traffic / GIGA or None,
        **by_limits,
    )


def _at_limits(
    rated: WithRoofline, gpu: Hardware, counted: Bool, limited: Bool, time: F64, traffic: float
) -> tuple[float | None, ...]:
    """The figures of `OF_MOST`."""
    r = rated.roofline
    steps = rated.timed.steps
    whole_ns = float(steps.duration[steps.steady].mean()) * steps.steady_count
    again = rated.joined.run_again[rated.joined.launch_node] & counted
    used, repeated = (_utilisation(rated, gpu, chosen, whole_ns) for chosen in (counted, again))
    rates = [r.attainable] if rated.trace.ceilings is None else [r.attainable, r.reachable]
    best = [np.where(np.isfinite(rate), rate, r.attainable)[limited] for rate in rates]
    least = [np.minimum(one, time[limited]).sum() + time[~limited].sum() for one in best]
    ideal_ms, reachable_ms = ([ms(ns) / steps.steady_count for ns in least] + [None])[:2]
    bandwidth_share = (
        ratio(traffic, gpu.bandwidth * whole_ns / steps.steady_count / NS_PER_S) or None
    )
    mfu = None if used is None else used - (repeated or 0.0)
    hfu = used if again.any() else None
    return ideal_ms, reachable_ms, mfu, hfu, bandwidth_share


def _utilisation(rated: WithRoofline, gpu: Hardware, chosen: Bool, time_ns: float) -> float | None:
    """Operations of these matrix kernels over what the GPU can do in the time; None where a peak is
    not known."""
    r = rated.roofline
    matrix = rated.linked.is_matrix & chosen
    needed = 0.0
    for code in distinct(r.precision[matrix]):
        peak = gpu.matrix_peak(Precision(code).name.lower())
        if peak is None:
            return None
        needed += float(r.flops[matrix & (r.precision == code)].sum()) / peak
    return needed / (time_ns / 1e9) if time_ns > 0 else None


Figures = Callable[[Any], NDArray[Any]]  # a figure of these device ops (rows, or a slice of them)
Sum = Callable[[Figures], F64]


@dataclass(frozen=True, kw_only=True)
class RatedRow:
    """Columns that rows of device ops have beside their times."""

    bound_by: str | None = maybe(
        "what limits most of the time: compute, memory, link, instructions (that are no FLOPs), or latency (near none "
        "of them: too small to fill the GPU, waiting, scattered accesses); null where no model of nearly all of the "
        "device time, or no known GPU, tells"
    )
    sol: float | None = maybe(
        "speed of light: time that the roofline allows over the time taken; null unless nearly all has a model, and "
        "where that is above 1: data came from a cache, or the model does not fit",
        "share",
    )
    headroom_ms: float | None = maybe("time a step less what the roofline allows")
    gflop: float | None = maybe(
        "1e9 operations a step (a multiply-add is two); null unless nearly all has a model"
    )
    bytes: float | None = maybe(
        "least traffic a step that the data needs; null unless nearly all has a model", "bytes"
    )
    intensity: float | None = maybe("arithmetic intensity: operations for each byte of traffic")
    tflops: float | None = maybe("operations over the time taken (1 TFLOP/s is 1e12)", "TFLOP/s")
    traffic_gbs: float | None = maybe(
        "traffic over the time taken; null where a cache must have taken some of it "
        "(`sol` would be above 1)"
    )


Columns = dict[str, list[Any]]  # columns of rows by name, an entry a row


def listed(values: F64) -> list[float | None]:
    """These values, None for NaN."""
    return [None if np.isnan(value) else value for value in values.tolist()]


def entry(columns: Columns, row: int) -> dict[str, Any]:
    """What a row has in each column."""
    return {name: column[row] for name, column in columns.items()}


def rated_columns(rated: WithRoofline, total: Sum) -> Columns:
    """The columns of `RatedRow` for groups of device ops. `total` sums a figure of every device op
    over each group; it asks for some of them at a time."""
    roofline = rated.roofline
    ops = rated.trace.device_ops
    steps = rated.timed.steps.steady_count
    length = compact(ops.end - ops.start)
    figures = (roofline.flops, roofline.bytes, roofline.attainable)

    def time(of: Any) -> F64:
        return length[of].astype(np.float64)

    def needed(figure: F64 | Coded, other: F64 | Coded) -> F64:
        return total(
            lambda of: np.where(
                np.isfinite(figure[of] + other[of]) & ~roofline.extra[of], figure[of], 0
            )
        )

    def left(of: Any) -> F64:
        spare = np.maximum(
            time(of) - np.nan_to_num(roofline.attainable[of]) * ~roofline.extra[of], 0
        )
        return np.where(np.isfinite(roofline.attainable[of]), spare, 0)

    spent = total(time)

    def of_nearly_all(part: F64) -> F64:
        return np.where((part >= MODELLED_SHARE * spent) & (part > 0), part, np.nan)

    def time_with(figure: F64 | Coded) -> F64:
        return of_nearly_all(total(lambda of: np.isfinite(figure[of]) * time(of)))

    def time_bound(bound: Bound) -> F64:
        return total(lambda of: (roofline.bound[of] == bound) * time(of))

    flops, moved, attainable = (needed(figure, figure) for figure in figures)
    flop_time, byte_time, rated_time = map(time_with, figures)
    bounds = np.stack(list(map(time_bound, _BOUNDS)))
    bounded = np.where(np.isnan(of_nearly_all(bounds.sum(axis=0))), -1, bounds.argmax(axis=0))
    operations = needed(roofline.flops, roofline.bytes)
    traffic = needed(roofline.bytes, roofline.flops)
    sol = attainable / rated_time
    possible = np.where(sol > ABOVE, np.nan, 1.0)
    both = flop_time + byte_time
    intensity = np.divide(operations, traffic, out=np.full(len(traffic), np.nan), where=traffic > 0)
    return {
        "bound_by": [
            _BOUNDS[bound].label if bound >= 0 else Bound.UNKNOWN.label
            for bound in bounded.tolist()
        ],
        "gflop": listed(np.where(np.isnan(flop_time), np.nan, flops / steps / 1e9)),
        "bytes": listed(np.where(np.isnan(byte_time), np.nan, moved / steps)),
        "intensity": listed(np.where(np.isnan(both), np.nan, intensity)),
        "tflops": listed(flops / 1e3 / flop_time),
        "traffic_gbs": listed(moved / byte_time * possible),
        "sol": listed(np.minimum(sol, 1.0) * possible),
        "headroom_ms": listed(
            np.where(np.isnan(rated_time), np.nan, total(left) / NS_PER_MS / steps)
        ),
    }


def by_group(group: I32 | I64, rows: I32 | I64, count: int) -> Sum:
    """Sums over groups of these device ops."""

    def total(figures: Figures) -> F64:
        return scatter(
            np.add,
            np.zeros(count),
            lambda group, row: (group, figures(row.astype(np.intp))),
            group,
            rows,
        )

    return total


def by_subtree(
    launched_at: I64, first: I32 | I64, last: I32 | I64, group: I32 | I64, count: int
) -> Sum:
    """Sums over groups of host nodes of the device ops launched in the nodes' subtrees, [first,
    last) each.

    `launched_at` is the node that launched each device op, -1 for those that do not count."""
    order = (
        None if is_sorted(launched_at) else np.argsort(launched_at, kind="stable").astype(np.int32)
    )
    if order is not None:
        launched_at = launched_at[order]
    low = local_searchsorted(launched_at, first)
    high = local_searchsorted(launched_at, last)
    ops = len(launched_at)
    launching = high > low
    low = low[launching]
    high = high[launching]
    group = group[launching]

    def total(figures: Figures) -> F64:
        up_to = running_sums(figures, Rows(ops) if order is None else order)
        return sums(group, up_to[high] - up_to[low], count)

    return total
