"""Launching of device work: how many calls a step makes, what they cost the host, how far the host
is ahead, and how busy its threads are: the step can be no shorter than their own work."""

from typing import NamedTuple

import numpy as np

from traceanalyzer.analysis.algebra import clip, isin_few, measure, percentiles
from traceanalyzer.analysis.joined.launched import bore_work, captured_calls, is_launch, is_nested
from traceanalyzer.analysis.names.api import ApiKind
from traceanalyzer.analysis.time.host_timeline import HostState
from traceanalyzer.analysis.time.launch_queue import blocked_time, recorded_back_pressure
from traceanalyzer.analysis.time.timed import Timed
from traceanalyzer.base import NS_PER_MS, NS_PER_US, dataclass, maybe, metric, ms
from traceanalyzer.trace import I64, Bool, DeviceOpKind


@dataclass(frozen=True)
class HostStats:
    """Time of the threads that launch device work, a step; a moment counts once, by the most
    productive thread."""

    dispatch_ms: float = metric(
        "running operators and issuing calls, with short Python between them"
    )
    sync_ms: float = metric("blocked until device work ends")
    input_ms: float = metric("loading or waiting for input data")
    communication_ms: float = metric("stuck in communication operators")
    allocate_ms: float = metric("allocating or freeing memory")
    work_ms: float = metric(
        "stretches of 0.1 ms and more without operator or call: Python, I/O, CPU operators"
    )
    floor_ms: float = metric("CPU time per step without syncs: a lower bound for the step")
    busy_share: float | None = maybe(
        "share of the step in which one of these threads dispatches, allocates or works; waiting for the device, for "
        "input and for other ranks is not in it",
        "share",
    )


BUSY = (HostState.DISPATCH, HostState.ALLOCATE, HostState.WORK)
"""States of a thread that does something; in the others it waits for somebody else."""
SHORT_KERNEL_US = 10.0
"""A launch costs the host 5-10 us of dispatch and call: kernels shorter than that cannot keep a
device busy."""


def host_stats(timed: Timed) -> HostStats | None:
    """Host time a steady step; None where launches were not recorded."""
    if not (timed.linked.launch >= 0).any():
        return None
    steps = timed.steps
    end = steps.host_end[steps.steady]
    # A host range longer than its step holds the recorder's own start-up, which the step's window
    # leaves out.
    start = np.maximum(steps.host_start[steps.steady], end - steps.duration[steps.steady])
    states = timed.timeline.states
    count = steps.steady_count
    spent = {
        state: ms(measure(covered, start, end).sum() / count) for state, covered in states.items()
    }
    floor_ms = sum(spent.values()) - spent[HostState.SYNC]
    step_ms = ms(steps.duration[steps.steady].sum() / count)
    return HostStats(
        **{f"{state.name.lower()}_ms": time for state, time in spent.items()},
        floor_ms=floor_ms,
        busy_share=sum(spent[state] for state in BUSY) / step_ms if step_ms else None,
    )


@dataclass(frozen=True)
class LaunchStats:
    """Launching in a mean steady step; kernels of all devices of the process."""

    kernels: float = metric("kernels of a step (kernels of a CUDA graph counted singly)")
    launch_calls: float = metric(
        "calls of a step that launch a kernel or a graph; nested calls count once"
    )
    launch_ms: float = metric(
        "host time of a step in launch calls, time blocked by a full queue left out"
    )
    launch_mean_us: float | None = metric(
        "mean of a launch call without blocked time; null without launches"
    )
    launch_p50_us: float | None = metric("median of the launch calls without blocked time")
    launch_p95_us: float | None = metric("95th percentile of the launch calls without blocked time")
    back_pressure_ms: float = metric(
        "host time of a step blocked because the launch queue was full"
    )
    queue_delay_p50_us: float | None = metric(
        "median time from a launch call's end to the start of its first op; absent where "
        "that is negative"
    )
    queue_delay_p95_us: float | None = metric("95th percentile of the queue delays")
    short_kernel_share: float | None = metric("share of the kernels that take less than 10 us")
    kernel_mean_us: float | None = metric("mean duration of a kernel")
    graph_launches: float = metric("CUDA graph launches of a step")
    kernels_per_graph_launch: float | None = metric(
        "kernels of a graph launch; null where they were not recorded"
    )
    copy_calls: float = metric("calls of a step that copy memory")
    memset_calls: float = metric("calls of a step that set memory")
    without_launch: float = metric("device ops of a step whose launch call was not recorded")
    fruitless_share: float | None = metric(
        "share of the launch calls whose kernels are not in the recording; those made while a stream was captured, and "
        "those after the last one whose kernel was recorded, do not count"
    )
    captured_calls: float | None = maybe(
        "launch calls of a step made while a stream was captured into a graph; null in reports saved before that was "
        "kept"
    )


class _Percentiles(NamedTuple):
    """Of times, us."""

    p50: float | None
    p95: float | None


def measure_launches(timed: Timed) -> LaunchStats | None:
    """Launching a steady step; None where API calls were not recorded."""
    calls = timed.trace.api_calls
    linked = timed.linked
    if not len(calls):
        return None
    ops = timed.trace.device_ops
    steps = timed.steps.steady_count
    steady = timed.steady_calls & ~linked.memo(is_nested)
    launching = np.flatnonzero(steady & is_launch(linked))
    blocked = blocked_time(timed, launching)
    spent = calls.end[launching] - calls.start[launching] - blocked
    kernels = linked.is_kernel & timed.steady_ops
    length = (ops.end - ops.start)[kernels]
    delay = _percentiles_us(_queue_delays(timed))
    took = _percentiles_us(spent)
    fruitful = bore_work(linked)
    captured = linked.memo(captured_calls)
    due = _due_to_bear(timed, launching, fruitful | ~captured)

    def a_step(chosen: Bool) -> float:
        return float(chosen.sum()) / steps

    return LaunchStats(
        kernels=len(length) / steps,
        launch_calls=len(launching) / steps,
        launch_ms=float(spent.sum()) / NS_PER_MS / steps,
        launch_mean_us=_mean_us(spent),
        launch_p50_us=took.p50,
        launch_p95_us=took.p95,
        back_pressure_ms=_back_pressure(timed, launching, blocked) / NS_PER_MS / steps,
        queue_delay_p50_us=delay.p50,
        queue_delay_p95_us=delay.p95,
        short_kernel_share=_short_share(length),
        kernel_mean_us=_mean_us(length),
        graph_launches=a_step((linked.api_kind == ApiKind.GRAPH_LAUNCH)[launching]),
        kernels_per_graph_launch=_kernels_per_graph(timed, launching, kernels),
        copy_calls=a_step(steady & (linked.api_kind == ApiKind.COPY)),
        memset_calls=a_step(steady & (linked.api_kind == ApiKind.SET)),
        without_launch=a_step(timed.steady_ops & (linked.launch < 0)),
        fruitless_share=float(1.0 - np.mean(fruitful[due])) if len(due) else None,
        captured_calls=a_step((captured & ~fruitful)[launching]),
    )


def _due_to_bear(timed: Timed, launching: I64, due: Bool) -> I64:
    """Which of these calls are `due` to have work on the device; later ones than the last that has
    were still queued when the recording ended."""
    rows = launching[due[launching]]
    last = int(timed.linked.launch_time.max(initial=-1))
    return rows[timed.trace.api_calls.start[rows] <= last] if last >= 0 else rows


def _mean_us(ns: I64) -> float | None:
    return float(ns.mean()) / NS_PER_US if len(ns) else None


def _short_share(ns: I64) -> float | None:
    """Share of kernels of these lengths that are short."""
    return float(np.mean(ns < SHORT_KERNEL_US * NS_PER_US)) if len(ns) else None


def _kernels_per_graph(timed: Timed, launching: I64, kernels: Bool) -> float | None:
    """Kernels for each of the launches of graphs; None without such kernels."""
    launch = timed.linked.launch
    graph = timed.linked.api_kind == ApiKind.GRAPH_LAUNCH
    graph_launches = int(graph[launching].sum())
    in_graph = int((kernels & (launch >= 0) & graph[launch]).sum())
    return in_graph / graph_launches if graph_launches and in_graph else None


def _back_pressure(timed: Timed, launching: I64, blocked: I64) -> float:
    """Time blocked within the steady steps, ns: what was recorded (in whatever call) and what was
    inferred."""
    steps = timed.steps
    calls = timed.trace.api_calls
    recorded = recorded_back_pressure(timed.linked)
    window = (int(steps.host_start[steps.warmup]), int(steps.host_end[-1]))
    within = clip(recorded, window).total
    if len(recorded.start):
        blocked = blocked - measure(recorded, calls.start[launching], calls.end[launching])
    return float(within + blocked.sum())


def _queue_delays(timed: Timed) -> I64:
    """Time from the end of each steady launch call to the start of its first op, ns; negative ones
    left out."""
    ops = timed.trace.device_ops
    calls = timed.trace.api_calls
    launched = isin_few(ops.kind, (DeviceOpKind.KERNEL, DeviceOpKind.GRAPH))
    rows = np.flatnonzero(launched & timed.steady_ops & (timed.linked.launch >= 0))
    op_of_call = np.full(len(calls), -1, np.int32)
    op_of_call[timed.linked.launch[rows][::-1]] = rows[::-1]  # the first op is written last
    launch = np.flatnonzero(op_of_call >= 0)
    delay = ops.start[op_of_call[launch]] - calls.end[launch]
    return delay[delay >= 0]


def _percentiles_us(ns: I64) -> _Percentiles:
    """Both at once: most of the time goes into ordering the values."""
    if not len(ns):
        return _Percentiles(None, None)
    p50, p95 = percentiles(ns, 50, 95)
    return _Percentiles(p50 / NS_PER_US, p95 / NS_PER_US)
