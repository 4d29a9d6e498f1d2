"""Kernels launched with too few threads to fill the GPU, which take long because of it, whatever they work on."""

import numpy as np

from traceanalyzer.analysis.groups.ops import Group, duration, group, per_step, steady
from traceanalyzer.analysis.roofline.rated import Rated
from traceanalyzer.base.frozen import dataclass
from traceanalyzer.trace import F64, I64, Bool

FEW_WAVES = 0.1
"""Of the blocks that the GPU holds at a time: with a tenth of them neither arithmetic nor memory is the limit."""
LONG_NS = 50_000
"""A kernel that is shorter has little work, and is not worth spreading out."""
WARP = 32
"""Threads that run together; of a smaller block the others of them do nothing."""


@dataclass(frozen=True, eq=False)
class Undersized:
    """Long kernels of the steady state that leave most of the GPU empty."""

    kernels: Group
    threads: float
    """Of a launch, mean over their time."""
    resident: float | None
    """Threads that the GPU holds at a time; None where it is not known."""
    narrow_share: float
    """Share of their time in blocks of fewer threads than a warp."""
    narrow_threads: float
    """Threads of such a block, mean over their time."""
    lost_ms: float
    """What they would take less a step with all of the GPU, if their work can be spread over it."""


def filled(rated: Rated) -> F64:
    """Share of the GPU that each kernel's blocks fill, 0 for a single warp; NaN where not known."""
    ops, waves = rated.trace.device_ops, rated.roofline.waves[:]
    threads = ops.blocks * np.maximum(ops.threads, 0)
    return np.where(np.isnan(waves) & (threads > 0) & (threads <= WARP), 0.0, waves)


def undersized(rated: Rated) -> Bool:
    """Which kernels that calculate fill hardly any of the GPU, or of each warp: neither arithmetic nor memory limits
    them."""
    return rated.linked.is_compute & ((filled(rated) < FEW_WAVES) | _narrow(rated))


def _narrow(rated: Rated) -> Bool:
    return rated.linked.is_kernel & (rated.trace.device_ops.threads > 0) & (rated.trace.device_ops.threads < WARP)


def undersized_kernels(rated: Rated) -> Undersized | None:
    """The long ones of the steady state, with those of blocks below a warp; None without any."""
    ops, time, part = rated.trace.device_ops, duration(rated.linked), filled(rated)
    narrow = rated.linked.is_compute & _narrow(rated)
    rows = steady(rated.timed) & undersized(rated) & (time >= LONG_NS)
    if not rows.any():
        return None
    lanes = np.where(narrow, ops.threads / WARP, 1.0)
    used = np.fmin(np.where(part < FEW_WAVES, part, 1.0), lanes)
    held = (rated.linked.limit("sms") * rated.linked.limit("threads_per_sm"))[rows][0]
    return Undersized(
        kernels=group(rated.timed, rows),
        threads=_mean(ops.blocks * ops.threads, time, rows),
        resident=float(held) if np.isfinite(held) else None,
        narrow_share=float(time[rows & narrow].sum() / time[rows].sum()),
        narrow_threads=_mean(ops.threads.astype(np.int64), time, rows & narrow),
        lost_ms=per_step(rated.timed, (time * (1 - used))[rows]),
    )


def _mean(values: I64, time: I64, rows: Bool) -> float:
    return float(np.average(values[rows], weights=time[rows])) if rows.any() else 0.0
