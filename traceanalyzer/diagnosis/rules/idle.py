"""Findings on idle time: launching, input, host work, the profiler, and what the recording does not tell."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceanalyzer.analysis.causes.details import IdleDetail
from traceanalyzer.analysis.causes.gaps import IdleCause
from traceanalyzer.analysis.groups.host_details import longest_of, named_host_share
from traceanalyzer.analysis.groups.idle import longest_gaps, queued_idle_ms
from traceanalyzer.analysis.replay.scenarios import (
    GAPS_CLOSED,
    INPUT_READY,
    LAUNCHES_FREE,
    NO_HOST_WORK,
)
from traceanalyzer.diagnosis import loader_advice
from traceanalyzer.diagnosis.draft import Draft, Remedy, share
from traceanalyzer.diagnosis.finding import Evidence
from traceanalyzer.diagnosis.remedies.program import program

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traceanalyzer.analysis.measure import Measurements
    from traceanalyzer.trace import Bool

ALL_GONE = "this idle time gone, an upper bound"
MORE_PER_LAUNCH = (
    "Give the GPU more work per launch: capture the step in a CUDA graph (torch.compile(mode='reduce-overhead') "
    "or torch.cuda.graph), compile or fuse small operators, use fused/foreach optimizers, or raise the batch size."
)
MORE_IN_GRAPHS = (
    "Give the GPU more work per launch: put more of the step, or several steps, into one CUDA graph, or raise the "
    "batch size."
)
ONE_GRAPH = 1.0
"""CUDA graphs that a step launches where it has been captured whole."""


def launch_bound(m: Measurements, _free: Bool) -> Iterator[Draft]:
    """The host issues work more slowly than the device does it."""
    if m.step.idle is None:
        return
    idle = m.step.idle.launch - _between_queued_ms(m)
    if idle <= 0:
        return
    evidence = [share(m, idle, "idle while the CPU launches")]
    if m.host is not None:
        evidence.append(
            Evidence("CPU time spent launching", m.host.dispatch_ms, "ms", "launching threads, per recorded step")
        )
    evidence += _launch_evidence(m)
    action = MORE_IN_GRAPHS if program(m).in_graphs else MORE_PER_LAUNCH
    remedies = [] if _one_graph(m) else [Remedy(action, ALL_GONE, LAUNCHES_FREE, name="cuda_graph")]
    yield Draft(
        "launch-bound",
        "launch",
        "The CPU cannot launch kernels as fast as the GPU runs them",
        "idle.launch",
        idle,
        evidence,
        remedies,
    )


def _one_graph(m: Measurements) -> bool:
    """Whether the step is a single CUDA graph already: nothing of it is left to be launched together."""
    return program(m).in_graphs and m.launches is not None and m.launches.graph_launches <= ONE_GRAPH


def launch_latency(m: Measurements, _free: Bool) -> Iterator[Draft]:
    """The next op was queued, and the device still paused before it."""
    idle = _between_queued_ms(m)
    if idle <= 0:
        return
    evidence = [share(m, idle, "idle between ops that were already queued"), *_launch_evidence(m)]
    action = (
        "Fuse short kernels (torch.compile, a fused operator) or enlarge them; queued kernels cost about 1 us each."
    )
    remedy = Remedy(action, "pauses between queued kernels, an upper bound", GAPS_CLOSED, name="fuse_elementwise")
    # a graph's kernels wait for each other on the device: what fuses them says so itself
    remedies = [] if program(m).in_graphs else [remedy]
    yield Draft(
        "launch-latency",
        "launch",
        "Kernel-to-kernel latency: the GPU pauses between short queued kernels",
        "idle.launch",
        idle,
        evidence,
        remedies,
    )


def _between_queued_ms(m: Measurements) -> float:
    """Idle time of a step between ops that had been queued: the device's own, so the same with and without profiler."""
    return 0.0 if m.step.idle is None else min(queued_idle_ms(m), m.step.idle.launch)


def _launch_evidence(m: Measurements) -> list[Evidence]:
    if m.launches is None:
        return []
    stats = m.launches
    return [
        Evidence("kernels per step", stats.kernels, "", "steady state"),
        Evidence("mean kernel duration", stats.kernel_mean_us, "us", "steady state"),
        Evidence("mean launch call", stats.launch_mean_us, "us", "steady state, profiler attached"),
    ]


def input_wait(m: Measurements, _free: Bool) -> Iterator[Draft]:
    """The device ran dry while the host loaded data."""
    idle = m.step.idle
    if idle is None or idle.input <= 0:
        return
    loading = [p for p in m.phase_rows if p.is_input]
    evidence = [share(m, idle.input, "idle while input data is awaited")]
    evidence += [Evidence("time in input loading", p.host_ms, "ms", p.name) for p in loading[:2]]
    evidence += loader_advice.evidence(m, m.loading) if m.loading is not None else ()
    evidence += [Evidence("longest gap", d, "ms", text) for d, text in longest_gaps(m, IdleCause.INPUT)]
    basis = "idle time while data was awaited; assumes that loading can be hidden behind the step completely"
    yield Draft(
        "input-wait",
        "input",
        "The GPU waits for input data",
        "idle.input",
        idle.input,
        evidence,
        [Remedy(loader_advice.action(m.loading), basis, INPUT_READY, name="data_loader_workers")],
    )


def host_work(m: Measurements, _free: Bool) -> Iterator[Draft]:
    """The device ran dry during long stretches of other host work."""
    idle = m.step.idle
    if idle is None or idle.host <= 0:
        return
    left = idle.host * (1.0 - named_host_share(m))
    if left <= 0:
        return
    evidence = [share(m, left, "idle during other CPU work between launches")]
    if m.host is not None:
        evidence.append(
            Evidence("CPU work without API calls", m.host.work_ms, "ms", "stretches from 0.1 ms on, per step")
        )
    evidence += [Evidence("longest gap", d, "ms", text) for d, text in longest_of(m, IdleDetail.NONE, IdleCause.HOST)]
    action = (
        "Take CPU work out of the step: move Python computation, logging, metrics and I/O to another thread or out of "
        "the loop; record stacks (with_stack=True) to see the lines."
    )
    yield Draft(
        "host-work",
        "host",
        "The GPU waits for other CPU work between launches",
        "idle.host",
        left,
        evidence,
        [Remedy(action, ALL_GONE, NO_HOST_WORK, name="move_host_work")],
    )


def profiler(m: Measurements, _free: Bool) -> Iterator[Draft]:
    """The profiler's own work made the device idle."""
    idle = m.step.idle
    if idle is None or idle.profiler <= 0:
        return
    evidence = [share(m, idle.profiler, "idle during the profiler's own work")]
    yield Draft(
        "profiler",
        "inconclusive",
        "The profiler itself makes the GPU wait (this time does not exist without it)",
        "idle.profiler",
        idle.profiler,
        evidence,
    )


def unexplained(m: Measurements, _free: Bool) -> Iterator[Draft]:
    """Idle time whose cause the recording does not show."""
    idle = m.step.idle
    if idle is None or idle.other <= 0:
        return
    evidence = [share(m, idle.other, "idle for reasons not recorded")]
    evidence += [Evidence("longest gap", d, "ms", text) for d, text in longest_gaps(m, IdleCause.OTHER)]
    yield Draft(
        "idle-unexplained",
        "inconclusive",
        "The recording does not show why the GPU idles here",
        "idle.other",
        idle.other,
        evidence,
    )
