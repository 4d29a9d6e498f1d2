"""Which part of a recording its figures speak of: the steps, what lies outside them, and the
program's start-up."""

import numpy as np

from traceanalyzer.analysis.algebra import EMPTY, IntervalSet, subtract, union
from traceanalyzer.analysis.time.step_evidence import extent
from traceanalyzer.analysis.time.timed import Timed
from traceanalyzer.base import dataclass, metric, ms, ratio
from traceanalyzer.trace import I64, DeviceOpKind

FILLED_SHARE = 0.05
"""Events that fill less of the window are of a part of the session, or the rest was cut away."""
WHOLE_SHARE = 0.75
"""Steps that cover less of the recording than this leave out something that a reader should know
of."""


def concurrent_kernel_share(timed: Timed) -> float | None:
    """Share of the steady steps' time with a kernel that has several; None without kernels, or if
    graphs hide them."""
    ops = timed.trace.device_ops
    if timed.device is None:
        return None
    of_device = ops.device == timed.device
    kernels = of_device & timed.linked.is_kernel
    graphs = of_device & timed.steady_ops & (ops.kind == DeviceOpKind.GRAPH)
    if not kernels.any() or graphs.any():
        return None
    begin = int(timed.steps.start[timed.steps.warmup])
    window = (begin, int(timed.steps.end[-1]))
    start = ops.start[kernels]
    end = ops.end[kernels]
    any_ = union(start, end).total_within(window)
    return time_side_by_side(start, end).total_within(window) / any_ if any_ else None


def time_side_by_side(start: I64, end: I64) -> IntervalSet:
    """The time that at least two of these intervals cover."""
    if (start[1:] >= end[:-1]).all():
        return EMPTY
    times = np.concatenate((start, end))
    change = np.repeat(np.array([1, -1]), len(start))
    order = np.lexsort((change, times))  # what ends at a moment has ended before another begins
    several = np.flatnonzero(np.cumsum(change[order])[:-1] > 1)
    return union(times[order][several], times[order][several + 1])


@dataclass(frozen=True)
class Coverage:
    """How much of the recording the figures of the steps are about. Steps here include warm-up
    steps."""

    recorded_ms: float = metric(
        "length of the recording: its window where stated, else from first to last event"
    )
    device_span_ms: float | None = metric(
        "from the start of the device's first op to the end of its last; null without device work"
    )
    steps_ms: float | None = metric(
        "from the begin of the first step to the end of the last; null without steps"
    )
    steps_share: float | None = metric("share of the recording inside steps; null without steps")
    work_outside_share: float | None = metric(
        "share of the device's work that lies outside all steps, without collectives, which wait "
        "for other ranks; null without steps or device work"
    )
    idle_outside_share: float | None = metric(
        "share of the device's idle time, over the whole recording, that lies outside all steps; null without steps "
        "or device work"
    )
    before_first_op_ms: float | None = metric(
        "from the start of the recording to the device's first op: start-up, where the program was recorded from its "
        "beginning; null without device work"
    )


def coverage(timed: Timed) -> Coverage:
    """The coverage of the steps on the device that the figures of a step speak of."""
    window = recorded(timed)
    steps = timed.steps
    length = window[1] - window[0]
    inside = (int(steps.start[0]), int(steps.end[-1]))
    common = max(inside[0], window[0]), min(inside[1], window[1])
    stepped = max(common[1] - common[0], 0)
    found = steps.found and length > 0
    steps_ms, steps_share = (ms(stepped), stepped / length) if found else (None, None)
    if timed.device is None:
        return Coverage(ms(length), None, steps_ms, steps_share, None, None, None)
    activity = timed.activity[timed.device]
    busy = activity.busy
    work = subtract(busy, activity.exposed_communication)
    work_outside = work.total - work.total_within(inside)
    idle = length - busy.total_within(window)
    outside_idle = idle - (stepped - busy.total_within(common))
    return Coverage(
        recorded_ms=ms(length),
        device_span_ms=ms(activity.span[1] - activity.span[0]),
        steps_ms=steps_ms,
        steps_share=steps_share,
        work_outside_share=ratio(work_outside, work.total) if found else None,
        idle_outside_share=(ratio(outside_idle, idle) or 0.0) if found else None,
        before_first_op_ms=ms(max(activity.span[0] - window[0], 0)),
    )


def recorded(timed: Timed) -> tuple[int, int]:
    """Start and end of the recording, ns: its first and last event, or those stated by a recorder
    that hold all."""
    trace = timed.trace
    window = timed.trace.window
    tables = trace.host_ranges, trace.api_calls, trace.device_ops
    if not any(map(len, tables)):
        return int(timed.steps.start[0]), int(timed.steps.end[-1])
    first, last = extent(*tables)
    if window is None or not window[0] <= first <= last <= window[1]:
        return first, last
    return window if last - first >= FILLED_SHARE * (window[1] - window[0]) else (first, last)
