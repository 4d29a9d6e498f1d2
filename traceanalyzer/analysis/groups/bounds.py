"""Compute time by what limits its kernels: arithmetic or memory; and kernels faster than their roofline."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from traceanalyzer.analysis.groups.ops import duration, title
from traceanalyzer.analysis.roofline.bounds import Bound

if TYPE_CHECKING:
    from traceanalyzer.analysis.roofline.rated import Rated
    from traceanalyzer.trace import I64, Bool

SHOWN = 3


@dataclass(frozen=True)
class AboveRoofline:
    """Kernels faster than their roofline; shares of the steady state's device time."""

    kernels: list[str]
    """Those with the most time."""
    share: float
    highest: float
    """Least time over recorded time of the one that is furthest above."""
    cached_share: float
    """Of those whose data fits the last cache."""
    unexplained_share: float


def memory_bound_share(rated: Rated) -> float:
    """Share of the steady state's compute time in kernels that memory bandwidth would limit at best: as a kernel
    profiler measured it, else by the roofline (traffic takes longer than arithmetic), else (no model, unknown GPU, too
    small to tell) by what usually limits kernels of the class."""
    r = rated.roofline
    rows, time = _compute(rated)
    by_class = np.array([bound == "memory" for bound in rated.classes.bound])[rated.op_class[rows]]
    memory = np.where((r.rated & ~r.small)[rows], ~r.arithmetic[rows], by_class)
    measured = (r.counted & np.isin(r.bound, (Bound.COMPUTE, Bound.MEMORY)))[rows]
    memory = np.where(measured, r.bound[rows] == Bound.MEMORY, memory)
    return float(time[memory].sum() / time.sum()) if time.sum() else 0.0


def rated_share(rated: Rated) -> float:
    """Share of the steady state's compute time that the roofline says something about."""
    rows, time = _compute(rated)
    return float(time[rated.roofline.rated[rows]].sum() / time.sum()) if time.sum() else 0.0


def _compute(rated: Rated) -> tuple[I64, I64]:
    """The steady state's compute ops and their durations, ns."""
    rows = np.flatnonzero(rated.is_compute & rated.steady_ops)
    return rows, duration(rated)[rows]


def above_roofline(rated: Rated) -> AboveRoofline | None:
    """Kernels of the steady state that are faster than their roofline."""
    r, time = rated.roofline, duration(rated)
    rows = rated.steady_ops & r.rated & (r.attainable > time)
    if not rows.any():
        return None
    cached = rows & (r.bytes <= rated.limit("cache_bytes")) & ~r.arithmetic
    return AboveRoofline(
        kernels=[title(rated, code) for code in _by_time(rated, rows)],
        share=_share(rated, rows),
        highest=float((r.attainable[rows] / time[rows]).max()),
        cached_share=_share(rated, cached),
        unexplained_share=_share(rated, rows & ~cached),
    )


def _by_time(rated: Rated, rows: Bool) -> list[int]:
    names, inverse = np.unique(rated.trace.device_ops.name[rows], return_inverse=True)
    time = np.bincount(inverse, weights=duration(rated)[rows])
    return [int(names[i]) for i in np.argsort(-time, kind="stable")[:SHOWN]]


def _share(rated: Rated, rows: Bool) -> float:
    time = duration(rated)
    return float(time[rows].sum() / max(time[rated.steady_ops].sum(), 1))
