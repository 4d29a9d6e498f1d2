"""Steps and groups of device ops against the roofline: MFU, HFU, bandwidth use, what bounds them,
their ideal time."""

from collections.abc import Callable, Sequence
from functools import cached_property
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
from traceanalyzer.analysis.roofline.roofline import Roofline
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


@dataclass(frozen=True, eq=False)
class _Counted:
    """Computation of the steady steps on the critical device."""

    rated: WithRoofline
    gpu: Hardware | None
    time: F64  # of each device op that counts, ns; 0 of others
    counted: Bool  # which have known operations
    limited: Bool  # which have an attainable time
    traffic: float  # bytes a step

    @property
    def steps(self) -> int:
        """Steady steps."""
        return self.rated.timed.steps.steady_count


def roofline_step(rated: WithRoofline) -> RooflineStep | None:
    """The mean steady step of the device with the most work; None without device work or without
    any model."""
    ops = rated.trace.device_ops
    roofline = rated.roofline
    device = rated.timed.device
    if device is None:
        return None
    computing = rated.timed.steady_ops & rated.linked.is_compute & (ops.device == device)
    time = np.where(computing, ops.end - ops.start, 0).astype(np.float64)
    if not time.sum() or not (roofline.modelled & computing & rated.linked.is_kernel).any():
        return None
    steps = rated.timed.steps.steady_count
    gpu = rated.linked.gpus[device]
    moving = computing & np.isfinite(roofline.bytes)
    work = _Counted(
        rated=rated,
        gpu=gpu,
        time=time,
        counted=computing & np.isfinite(roofline.flops),
        limited=computing & roofline.rated,
        traffic=float(np.where(moving, roofline.bytes, 0).sum()) / steps,
    )
    modelled_share = float(time[roofline.modelled].sum() / time.sum())
    operations = float(roofline.flops[work.counted].sum())
    return RooflineStep(
        gpu=None if gpu is None else gpu.name,
        datasheet=None if gpu is None else gpu.source,
        modelled_share=modelled_share,
        unmodelled_ms=ms(time[~work.limited].sum()) / steps,
        tflop=operations / TERA / steps if work.counted.any() else None,
        traffic_gb=work.traffic / GIGA or None,
        **_by_limits(work),
        **_of_most(work, modelled_share),
    )


def _by_limits(work: _Counted) -> dict[str, float | None]:
    """The figures of `OF_LIMITS`; None where the GPU is not known."""
    if work.gpu is None:
        return dict.fromkeys(OF_LIMITS)
    roofline = work.rated.roofline
    time = work.time[work.limited]
    headroom = time.sum() - np.minimum(roofline.attainable[work.limited], time).sum()
    bound = [work.time[roofline.bound == kind].sum() for kind in BOUNDS]
    figures = np.array([headroom, *bound]) / NS_PER_MS / work.steps
    return dict(zip(OF_LIMITS, figures.tolist(), strict=True))


def _of_most(work: _Counted, modelled_share: float) -> dict[str, float | None]:
    """The figures of `OF_MOST`; None where the GPU is not known, or most has no model."""
    if work.gpu is None or modelled_share < ENOUGH_SHARE:
        return dict.fromkeys(OF_MOST)
    rated = work.rated
    durations = rated.timed.steps.duration[rated.timed.steps.steady]
    whole_ns = float(durations.mean()) * work.steps
    again = rated.joined.run_again[rated.joined.launch_node] & work.counted
    used = _utilisation(rated, work.gpu, work.counted, whole_ns)
    repeated = _utilisation(rated, work.gpu, again, whole_ns)
    could_move = work.gpu.bandwidth * whole_ns / work.steps / NS_PER_S
    measured = rated.trace.ceilings is not None
    return {
        "ideal_ms": _least_ms(work, rated.roofline.attainable),
        "reachable_ms": _least_ms(work, rated.roofline.reachable) if measured else None,
        "mfu": None if used is None else used - (repeated or 0.0),
        "hfu": used if again.any() else None,
        "bandwidth_share": ratio(work.traffic, could_move) or None,
    }


def _least_ms(work: _Counted, rate: F64 | Coded) -> float:
    """Time of a step's computation if what has a model took that little."""
    attainable = work.rated.roofline.attainable
    best = np.where(np.isfinite(rate), rate, attainable)[work.limited]
    least = np.minimum(best, work.time[work.limited]).sum()
    return ms(least + work.time[~work.limited].sum()) / work.steps


def _utilisation(rated: WithRoofline, gpu: Hardware, chosen: Bool, time_ns: float) -> float | None:
    """Operations of these matrix kernels over what the GPU can do in the time; None where a peak is
    not known."""
    roofline = rated.roofline
    matrix = rated.linked.is_matrix & chosen
    needed = 0.0
    for code in distinct(roofline.precision[matrix]):
        peak = gpu.matrix_peak(Precision(code).name.lower())
        if peak is None:
            return None
        of_code = matrix & (roofline.precision == code)
        needed += float(roofline.flops[of_code].sum()) / peak
    return needed / (time_ns / NS_PER_S) if time_ns > 0 else None


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


Columns = dict[str, Sequence[Any]]  # columns of rows by name, an entry a row


def without_nan(values: F64) -> list[float | None]:
    """These values, None for NaN."""
    result = values.astype(object)
    result[np.isnan(values)] = None
    return result.tolist()


def entry(columns: Columns, row: int) -> dict[str, Any]:
    """What a row has in each column."""
    return {name: column[row] for name, column in columns.items()}


@dataclass(frozen=True, eq=False)
class RatedGroups:
    """Groups of device ops against the roofline: what the columns are made of."""

    rated: WithRoofline
    total: Sum
    length: I32 | I64  # of every device op, ns

    @property
    def roofline(self) -> Roofline:
        """What each device op could reach."""
        return self.rated.roofline

    @property
    def steps(self) -> int:
        """Steady steps."""
        return self.rated.timed.steps.steady_count

    def time(self, rows: Any) -> F64:
        """Lengths of these device ops, ns."""
        return self.length[rows].astype(np.float64)

    @cached_property
    def spent(self) -> F64:
        """Time of each group, ns."""
        return self.total(self.time)

    def if_nearly_all(self, part: F64) -> F64:
        """These parts of the groups' times, NaN where they are less than nearly all."""
        return np.where((part >= MODELLED_SHARE * self.spent) & (part > 0), part, np.nan)

    def time_with(self, figure: F64 | Coded) -> F64:
        """Time of each group's device ops that have the figure, NaN where few have it."""
        return self.if_nearly_all(
            self.total(lambda rows: np.isfinite(figure[rows]) * self.time(rows))
        )

    def needed(self, figure: F64 | Coded, other: F64 | Coded) -> F64:
        """Sum over each group of the figure, where that and the other one are known."""
        extra = self.roofline.extra

        def counted(rows: Any) -> F64:
            figures = figure[rows]
            both = figures if other is figure else figures + other[rows]
            return np.where(np.isfinite(both) & ~extra[rows], figures, 0)

        return self.total(counted)

    @cached_property
    def flops(self) -> F64:
        """Operations of each group."""
        return self.needed(self.roofline.flops, self.roofline.flops)

    @cached_property
    def flop_time(self) -> F64:
        """Time of what has operations, ns."""
        return self.time_with(self.roofline.flops)

    @cached_property
    def moved(self) -> F64:
        """Least traffic of each group, bytes."""
        return self.needed(self.roofline.bytes, self.roofline.bytes)

    @cached_property
    def byte_time(self) -> F64:
        """Time of what has traffic, ns."""
        return self.time_with(self.roofline.bytes)

    @cached_property
    def rated_time(self) -> F64:
        """Time of what has an attainable time, ns."""
        return self.time_with(self.roofline.attainable)

    @cached_property
    def sol(self) -> F64:
        """Attainable over recorded time."""
        attainable = self.needed(self.roofline.attainable, self.roofline.attainable)
        return attainable / self.rated_time

    @cached_property
    def possible(self) -> F64:
        """1, and NaN where the figures are beyond the GPU's limits."""
        return np.where(self.sol > ABOVE, np.nan, 1.0)


def _bound_by(groups: RatedGroups) -> list[Any]:
    bound = groups.roofline.bound

    kinds = distinct(bound[:])

    def time_bound(kind: Bound) -> F64:
        if kind not in kinds:
            return np.zeros(len(groups.spent))
        return groups.total(lambda rows: (bound[rows] == kind) * groups.time(rows))

    by_kind = np.stack([time_bound(kind) for kind in _BOUNDS])
    known = ~np.isnan(groups.if_nearly_all(by_kind.sum(axis=0)))
    most = by_kind.argmax(axis=0)
    labels = [kind.label for kind in _BOUNDS]
    return [
        labels[kind] if tells else Bound.UNKNOWN.label
        for kind, tells in zip(most.tolist(), known.tolist(), strict=True)
    ]


def _sol(groups: RatedGroups) -> list[Any]:
    return without_nan(np.minimum(groups.sol, 1.0) * groups.possible)


def _headroom_ms(groups: RatedGroups) -> list[Any]:
    attainable = groups.roofline.attainable
    extra = groups.roofline.extra

    def left(rows: Any) -> F64:
        least = attainable[rows]
        needed = np.nan_to_num(least) * ~extra[rows]
        spare = np.maximum(groups.time(rows) - needed, 0)
        return np.where(np.isfinite(least), spare, 0)

    headroom = groups.total(left) / NS_PER_MS / groups.steps
    return without_nan(np.where(np.isnan(groups.rated_time), np.nan, headroom))


def _gflop(groups: RatedGroups) -> list[Any]:
    operations = groups.flops / groups.steps / GIGA
    return without_nan(np.where(np.isnan(groups.flop_time), np.nan, operations))


def _bytes(groups: RatedGroups) -> list[Any]:
    return without_nan(np.where(np.isnan(groups.byte_time), np.nan, groups.moved / groups.steps))


def _intensity(groups: RatedGroups) -> list[Any]:
    operations = groups.needed(groups.roofline.flops, groups.roofline.bytes)
    traffic = groups.needed(groups.roofline.bytes, groups.roofline.flops)
    intensity = np.full(len(traffic), np.nan)
    np.divide(operations, traffic, out=intensity, where=traffic > 0)
    both = groups.flop_time + groups.byte_time
    return without_nan(np.where(np.isnan(both), np.nan, intensity))


def _tflops(groups: RatedGroups) -> list[Any]:
    return without_nan(groups.flops / 1e3 / groups.flop_time)


def _traffic_gbs(groups: RatedGroups) -> list[Any]:
    return without_nan(groups.moved / groups.byte_time * groups.possible)


def rated_columns(rated: WithRoofline, total: Sum) -> Columns:
    """The columns of `RatedRow` for groups of device ops. `total` sums a figure of every device op
    over each group; it asks for some of them at a time."""
    ops = rated.trace.device_ops
    groups = RatedGroups(rated, total, compact(ops.end - ops.start))
    return {
        "bound_by": _bound_by(groups),
        "sol": _sol(groups),
        "headroom_ms": _headroom_ms(groups),
        "gflop": _gflop(groups),
        "bytes": _bytes(groups),
        "intensity": _intensity(groups),
        "tflops": _tflops(groups),
        "traffic_gbs": _traffic_gbs(groups),
    }


def by_group(group: I32 | I64, rows: I32 | I64, count: int) -> Sum:
    """Sums over groups of these device ops."""

    def total(figures: Figures) -> F64:
        def of_group(group: I32 | I64, row: I32 | I64) -> tuple[I32 | I64, NDArray[Any]]:
            return group, figures(row.astype(np.intp))

        return scatter(np.add, np.zeros(count), of_group, group, rows)

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
