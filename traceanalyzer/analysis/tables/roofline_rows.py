"""The roofline of groups of device ops: the columns that tables of kernels and operators add."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.analysis.algebra.blocks import Rows, running_sums, scatter
from traceanalyzer.analysis.algebra.coded import Coded
from traceanalyzer.analysis.algebra.grouping import sums
from traceanalyzer.analysis.algebra.lean import lean
from traceanalyzer.analysis.algebra.lookup import places
from traceanalyzer.analysis.roofline.bounds import Bound
from traceanalyzer.analysis.roofline.rated import Rated
from traceanalyzer.base.figures import metric, ms
from traceanalyzer.base.frozen import dataclass
from traceanalyzer.trace import F64, I32, I64, is_sorted

Figures = Callable[[Any], NDArray[Any]]
"""A figure of these device ops (rows, or a slice of them)."""
Sum = Callable[[Figures], F64]

MODELLED_SHARE = 0.9
"""Figures of a group are told where models know this share of its device time: those of a part (a memset within an
operator) would be taken for the whole."""
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
        "speed of light: time that the roofline allows over the time taken; null unless nearly all has a model; over 1 "
        "where data came from a cache or the model does not fit",
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
    traffic_gbs: float | None = metric("traffic over the time taken", "GB/s", default=None)


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
        return vars(
            RatedRow(
                bound_by=bound.label,
                gflop=float(self.flops[group]) / self.steps / 1e9 if flop_time else None,
                bytes=float(self.bytes[group]) / self.steps if byte_time else None,
                intensity=float(pair_flops / pair_bytes) if pair_bytes and flop_time and byte_time else None,
                tflops=float(self.flops[group] / flop_time) / 1e3 if flop_time else None,
                traffic_gbs=float(self.bytes[group] / byte_time) if byte_time else None,
                sol=float(self.attainable[group] / rated) if rated else None,
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
