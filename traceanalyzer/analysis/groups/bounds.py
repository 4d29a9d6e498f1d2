"""Compute time by what limits its kernels, kernels above their roofline, and what sampled counters
say of limits."""

from typing import NamedTuple

import numpy as np

from traceanalyzer.analysis.algebra import clip, contains, isin_few, texts_where
from traceanalyzer.analysis.groups.ops import OpsGroup, duration, group, per_step, steady, title
from traceanalyzer.analysis.names.kernel_classes import UNKNOWN
from traceanalyzer.analysis.names.kernel_names import streams_weights
from traceanalyzer.analysis.roofline.bounds import MIN_SAMPLES, Bound
from traceanalyzer.analysis.roofline.rated import WithRoofline
from traceanalyzer.analysis.time.timed import Timed
from traceanalyzer.base import ms, regex
from traceanalyzer.trace import F64, I32, I64, Bool, distinct, distinct_places
from traceanalyzer.trace.hardware import WARP

FEW_WAVES = 0.1
"""Of the blocks that the GPU holds at a time: with a tenth of them neither arithmetic nor memory is
the limit."""
LONG_NS = 50_000  # a kernel that is shorter has little work, and is not worth spreading out


class Undersized(NamedTuple):
    """Long kernels of the steady state that leave most of the GPU empty."""

    kernels: OpsGroup
    threads: float  # of a launch, mean over their time
    resident: float | None  # threads that the GPU holds at a time; None where it is not known
    narrow_share: float  # share of their time in blocks of fewer threads than a warp
    narrow_threads: float  # threads of such a block, mean over their time
    # what they would take less a step with all of the GPU, if their work can be spread over it
    lost_ms: float

    @property
    def is_narrow(self) -> bool:
        """Whether most of them fill the GPU with blocks in which most lanes do nothing."""
        is_full = self.resident is not None and self.threads >= self.resident
        return is_full and self.narrow_share > MOST


TELLING = regex(
    r"(?i)dram|tensor|sm.{0,12}(active|issue|throughput)|sms active|fp(16|32|64)|nvlink|pcie"
)
"""Counters of what can limit a kernel."""
KNOWN = (Bound.COMPUTE, Bound.MEMORY)
MOST = 0.5  # of the time of some kernels
ENOUGH_SHARE = 0.5  # with a roofline for less of the computation, what it leaves would be a guess


def filled(rated: WithRoofline) -> F64:
    """Share of the GPU that each kernel's blocks fill, 0 for a single warp; NaN where not known."""
    ops = rated.trace.device_ops
    waves = rated.roofline.waves[:]
    threads = ops.blocks * np.maximum(ops.threads, 0)
    return np.where(np.isnan(waves) & (threads > 0) & (threads <= WARP), 0.0, waves)


def which_undersized(rated: WithRoofline) -> Bool:
    """Kernels that calculate and fill hardly any of the GPU, or of each warp: no arithmetic or
    memory limits them."""
    return rated.linked.is_compute & ((filled(rated) < FEW_WAVES) | _narrow(rated))


def _narrow(rated: WithRoofline) -> Bool:
    return (
        rated.linked.is_kernel
        & (rated.trace.device_ops.threads > 0)
        & (rated.trace.device_ops.threads < WARP)
    )


def undersized_kernels(rated: WithRoofline) -> Undersized | None:
    """The long ones of the steady state, with those of blocks below a warp; None without any."""
    ops = rated.trace.device_ops
    time = duration(rated.linked)
    part = filled(rated)
    narrow = rated.linked.is_compute & _narrow(rated)
    rows = steady(rated.timed) & which_undersized(rated) & (time >= LONG_NS)
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


def _mean(values: I64, time: I32 | I64, rows: Bool) -> float:
    return float(np.average(values[rows], weights=time[rows])) if rows.any() else 0.0


def busy_counters(timed: Timed) -> list[tuple[str, float, int]]:
    """Name, mean and number of samples of each telling counter, in steady steps while its device
    was busy."""
    table = timed.trace.gpu_metrics
    steps = timed.steps
    found = []
    if timed.device is None or not len(table):
        return []
    window = (int(steps.start[steps.warmup]), int(steps.end[-1]))
    busy = clip(timed.activity[timed.device].busy, window)
    of_device = (table.device == timed.device) | (table.device < 0)
    inside = contains(busy, table.start) & of_device
    for code in distinct(table.name[inside]).tolist():
        values = table.value[inside & (table.name == code)]
        name = timed.trace.strings[code]
        if len(values) >= MIN_SAMPLES and TELLING.search(name):
            found.append((name, float(values.mean()), len(values)))
    return found


class AboveRoofline(NamedTuple):
    """Kernels faster than their roofline; shares of the steady state's device time."""

    kernels: list[str]  # those with the most time
    share: float
    highest: float  # least time over recorded time of the one that is furthest above
    cached_share: float  # of those whose data fits the last cache
    unexplained_share: float


def memory_bound_share(rated: WithRoofline) -> float:
    """Share of the steady state's compute time in kernels that memory bandwidth would limit at
    best."""
    return _compute_share(rated, rated.memo(which_memory_bound))


def which_memory_bound(rated: WithRoofline) -> Bool:
    """Kernels that memory bandwidth would limit at best: as a kernel profiler measured it, else as
    counters sampled while they ran say, else by the roofline (traffic takes longer than
    arithmetic), else (no model, unknown GPU, too small to tell) by what usually limits kernels of
    the class."""
    r = rated.roofline
    linked = rated.linked
    sampled = rated.sampled_bounds
    by_class = np.array([bound == "memory" for bound in linked.classes.bound])[linked.op_class]
    names = texts_where(linked.trace.strings, streams_weights)
    by_class |= (linked.op_class == linked.classes.index("gemm")) & names[
        linked.trace.device_ops.name
    ]
    memory = np.where(r.rated & ~r.small, ~r.arithmetic, by_class & ~which_undersized(rated))
    memory = np.where(isin_few(sampled, KNOWN), sampled == Bound.MEMORY, memory)
    return np.where(r.counted & isin_few(r.bound, KNOWN), r.bound == Bound.MEMORY, memory)


def small_share(rated: WithRoofline) -> float:
    """Share of the steady state's compute time in kernels that fill hardly any of the GPU, of which
    no model or measurement says what limits them: neither arithmetic nor memory does, whatever
    kernels of their name are."""
    return _compute_share(rated, which_undersized(rated) & ~_told(rated))


def unknown_share(rated: WithRoofline) -> float:
    """Share of the steady state's compute time in kernels of no known class, without a model and
    not measured."""
    return _compute_share(rated, _unknown(rated))


def unknown_kernels(rated: WithRoofline) -> list[tuple[str, float]]:
    """Those with the most time, and their time a step, ms."""
    rows = _unknown(rated) & rated.linked.is_compute & rated.timed.steady_ops
    time = duration(rated.linked)
    names = rated.trace.device_ops.name
    spent = {code: time[rows & (names == code)].sum() for code in _by_time(rated, rows)}
    return [
        (title(rated.linked, code), ms(ns / rated.timed.steps.steady_count))
        for code, ns in spent.items()
    ]


def _unknown(rated: WithRoofline) -> Bool:
    by_class = np.array([bound == UNKNOWN for bound in rated.linked.classes.bound])[
        rated.linked.op_class
    ]
    return by_class & ~_told(rated) & ~which_undersized(rated)


def _told(rated: WithRoofline) -> Bool:
    """Which device ops' limit the roofline or a measurement tells."""
    r = rated.roofline
    return (
        (r.rated & ~r.small)
        | (r.counted & isin_few(r.bound, KNOWN))
        | isin_few(rated.sampled_bounds, KNOWN)
    )


def rated_share(rated: WithRoofline) -> float:
    """Share of the steady state's compute time that the roofline says something about."""
    return _compute_share(rated, rated.roofline.rated)


def _compute_share(rated: WithRoofline, chosen: Bool) -> float:
    """Share of these device ops in the steady state's compute time."""
    compute = rated.linked.is_compute & rated.timed.steady_ops
    time = duration(rated.linked)
    computing = time[compute]
    return float(time[compute & chosen].sum() / computing.sum()) if computing.any() else 0.0


def above_limits_ms(rated: WithRoofline, free: Bool) -> float | None:
    """Time a step that compute among these ops takes beyond its roofline; None: less than
    `ENOUGH_SHARE` has one."""
    r = rated.roofline
    time = duration(rated.linked)
    rows = steady(rated.timed) & rated.linked.is_compute & free
    limited = rows & r.rated
    if not rows.any() or time[limited].sum() < ENOUGH_SHARE * time[rows].sum():
        return None
    return per_step(rated.timed, np.maximum(time[limited] - r.attainable[limited], 0))


def kernels_above_roofline(rated: WithRoofline) -> AboveRoofline | None:
    """Kernels of the steady state that are faster than their roofline."""
    r = rated.roofline
    time = duration(rated.linked)
    rows = rated.timed.steady_ops & r.rated & (r.attainable[:] > time) & (time > 0)
    if not rows.any():
        return None
    cached = rows & (r.bytes[:] <= rated.linked.limit("cache_bytes")) & ~r.arithmetic
    return AboveRoofline(
        kernels=[title(rated.linked, code) for code in _by_time(rated, rows)],
        share=_share(rated, rows),
        highest=float((r.attainable[rows] / time[rows]).max()),
        cached_share=_share(rated, cached),
        unexplained_share=_share(rated, rows & ~cached),
    )


def _by_time(rated: WithRoofline, rows: Bool) -> list[int]:
    names, inverse = distinct_places(rated.trace.device_ops.name[rows])
    time = np.bincount(inverse, weights=duration(rated.linked)[rows])
    return [int(names[i]) for i in np.argsort(-time, kind="stable")[:3]]


def _share(rated: WithRoofline, rows: Bool) -> float:
    time = duration(rated.linked)
    all_ns = max(time[rated.timed.steady_ops].sum(), 1)
    return float(time[rows].sum() / all_ns)
