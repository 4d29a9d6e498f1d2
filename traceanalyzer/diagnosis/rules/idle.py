"""Findings on idle time: launching, input, host work, the profiler, and what the recording does not tell."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from traceanalyzer.analysis.algebra.intervals import measure, union
from traceanalyzer.analysis.causes.gaps import IdleCause
from traceanalyzer.analysis.replay.scenarios import (
    ELEMENTWISE_LAUNCHED_ONCE,
    FUSED_OPTIMIZER,
    GAPS_CLOSED,
    INPUT_READY,
    LAUNCHES_FREE,
    NO_HOST_WORK,
)
from traceanalyzer.analysis.tables.gap_rows import detail
from traceanalyzer.diagnosis.draft import Draft, Remedy, share
from traceanalyzer.diagnosis.finding import Evidence
from traceanalyzer.figures import ms

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traceanalyzer.analysis.measure import Measurements

PROFILED_HOST = (
    "idle time of the recording, an upper bound; the profiler slows the host, so without it there is less to win"
)
MORE_PER_LAUNCH = (
    "Give the GPU more work per launch: capture the step in a CUDA graph (torch.compile(mode='reduce-overhead') "
    "or torch.cuda.graph), compile or fuse small operators, use fused/foreach optimizers, or raise the batch size."
)
MORE_IN_GRAPHS = (
    "Give the GPU more work per launch: put more of the step, or several steps, into one CUDA graph, or raise the "
    "batch size."
)
IN_GRAPHS_SHARE = 0.9
"""A step with this share of its kernels in CUDA graphs has been captured already."""
FEWER_LAUNCHES = (
    Remedy(
        "Use the fused optimizer (torch.optim.AdamW(..., fused=True)): a few launches instead of many.",
        PROFILED_HOST,
        FUSED_OPTIMIZER,
        suffix="-fused-optimizer",
    ),
    Remedy(
        "Compile the runs of elementwise operators (torch.compile): one kernel instead of several.",
        PROFILED_HOST,
        ELEMENTWISE_LAUNCHED_ONCE,
        suffix="-fused-kernels",
    ),
)
MANY_LAUNCHES_SHARE = 0.2
"""With less of the step idle for launches, fewer of them are not what such a change is made for."""
WORTHWHILE = 1.05
"""Speed-up from which one of these is worth a recommendation of its own."""


def launch_bound(m: Measurements) -> Iterator[Draft]:
    """The host issues work more slowly than the device does it."""
    idle = _launch_idle_ms(m, queued=False)
    if m.idle is None or idle <= 0:
        return
    evidence = [share(idle, m.mean_step_ms, "idle while the host dispatches")]
    if m.host is not None:
        evidence.append(Evidence("host dispatch time", m.host.dispatch_ms, "ms", "launching threads, per step"))
    evidence += _launch_evidence(m)
    remedy = Remedy(MORE_IN_GRAPHS if _in_graphs(m) else MORE_PER_LAUNCH, PROFILED_HOST, LAUNCHES_FREE)
    yield Draft(
        "launch-bound",
        "launch",
        "The host launches work more slowly than the GPU runs it",
        "idle.launch",
        idle,
        evidence,
        [remedy, *(one for one in FEWER_LAUNCHES if idle >= MANY_LAUNCHES_SHARE * m.mean_step_ms and _pays(m, one))],
    )


def _in_graphs(m: Measurements) -> bool:
    """Whether CUDA graphs launch (nearly) all of the step's kernels."""
    if m.launches is None or not m.launches.kernels_per_graph_launch:
        return False
    inside = m.launches.kernels_per_graph_launch * m.launches.graph_launches
    return inside >= IN_GRAPHS_SHARE * m.launches.kernels


def _pays(m: Measurements, remedy: Remedy) -> bool:
    if m.replay is None or remedy.scenario is None or not m.replay.faithful:
        return False
    speedup = m.replay.predict(remedy.scenario).speedup
    return speedup is not None and speedup >= WORTHWHILE


def launch_latency(m: Measurements) -> Iterator[Draft]:
    """The next op was queued, and the device still paused before it."""
    idle = _launch_idle_ms(m, queued=True)
    if idle <= 0:
        return
    evidence = [share(idle, m.mean_step_ms, "idle between ops that were already queued"), *_launch_evidence(m)]
    action = (
        "Fuse short kernels (torch.compile, a fused operator) or enlarge them; queued kernels cost about 1 us each."
    )
    remedy = Remedy(action, "pauses between queued kernels, an upper bound", GAPS_CLOSED)
    yield Draft(
        "launch-latency",
        "launch",
        "The GPU pauses between short kernels although they are queued",
        "idle.launch",
        idle,
        evidence,
        [remedy],
    )


def _launch_idle_ms(m: Measurements, *, queued: bool) -> float:
    """Idle time a steady step of cause launch whose next op had (not) been queued before the gap began."""
    gaps = m.gaps
    if m.device is None:
        return 0.0
    rows = (gaps.cause == IdleCause.LAUNCH) & (gaps.queued == queued) & (gaps.device == m.device)
    steady = m.steps.steady
    idle = measure(union(gaps.start[rows], gaps.end[rows]), m.steps.start[steady], m.steps.end[steady])
    return ms(idle.mean())


def _launch_evidence(m: Measurements) -> list[Evidence]:
    if m.launches is None:
        return []
    stats = m.launches
    return [
        Evidence("kernels per step", stats.kernels, "", "steady state"),
        Evidence("mean kernel duration", stats.kernel_mean_us, "us", "steady state"),
        Evidence("mean launch call", stats.launch_mean_us, "us", "steady state, profiler attached"),
    ]


def input_wait(m: Measurements) -> Iterator[Draft]:
    """The device ran dry while the host loaded data."""
    if m.idle is None or m.idle.input <= 0:
        return
    loading = [p for p in m.phases if p.is_input]
    evidence = [share(m.idle.input, m.mean_step_ms, "idle while input data is awaited")]
    evidence += [Evidence("time in input loading", p.host_ms, "ms", p.name) for p in loading[:2]]
    action = (
        "Load ahead of the step: DataLoader(num_workers>0, pin_memory=True, persistent_workers=True, prefetch_factor), "
        "cheaper or GPU-side preprocessing, and copies with non_blocking=True."
    )
    basis = "idle time while data was awaited; assumes that loading can be hidden behind the step completely"
    yield Draft(
        "input-wait",
        "input",
        "The GPU waits for input data",
        "idle.input",
        m.idle.input,
        evidence,
        [Remedy(action, basis, INPUT_READY)],
    )


def host_work(m: Measurements) -> Iterator[Draft]:
    """The device ran dry during long stretches of other host work."""
    if m.idle is None or m.idle.host <= 0:
        return
    evidence = [share(m.idle.host, m.mean_step_ms, "idle during host work between launches")]
    if m.host is not None:
        evidence.append(Evidence("host work without calls", m.host.work_ms, "ms", "stretches from 0.1 ms on, per step"))
        if m.host.allocate_ms > 0:
            evidence.append(Evidence("allocating and freeing memory", m.host.allocate_ms, "ms", "per step"))
    evidence += [Evidence("longest gap", ms(d), "ms", text) for d, text in _longest(m, IdleCause.HOST)]
    action = (
        "Take host work out of the step: move Python computation, logging, metrics and I/O to another thread or out of "
        "the loop; record stacks (with_stack=True) to see the lines."
    )
    yield Draft(
        "host-work",
        "host",
        "The GPU waits for host work between launches",
        "idle.host",
        m.idle.host,
        evidence,
        [Remedy(action, PROFILED_HOST, NO_HOST_WORK)],
    )


def _longest(m: Measurements, cause: IdleCause, count: int = 2) -> list[tuple[int, str]]:
    """Length and description of the longest gaps of a cause in the steady state, ns."""
    gaps = m.gaps
    rows = np.flatnonzero((gaps.cause == cause) & (gaps.step >= m.steps.warmup) & (gaps.device == m.device))
    rows = rows[np.argsort(-gaps.duration[rows], kind="stable")][:count]
    return [(int(gaps.duration[i]), detail(m, gaps, int(i))) for i in rows]


def profiler(m: Measurements) -> Iterator[Draft]:
    """The profiler's own work made the device idle."""
    if m.idle is None or m.idle.profiler <= 0:
        return
    evidence = [share(m.idle.profiler, m.mean_step_ms, "idle during the profiler's own work")]
    yield Draft(
        "profiler",
        "inconclusive",
        "The profiler itself makes the GPU wait (this time does not exist without it)",
        "idle.profiler",
        m.idle.profiler,
        evidence,
    )


def unexplained(m: Measurements) -> Iterator[Draft]:
    """Idle time whose cause the recording does not show."""
    if m.idle is None or m.idle.other <= 0:
        return
    evidence = [share(m.idle.other, m.mean_step_ms, "idle for reasons not recorded")]
    evidence += [Evidence("longest gap", ms(d), "ms", text) for d, text in _longest(m, IdleCause.OTHER)]
    yield Draft(
        "idle-unexplained",
        "inconclusive",
        "The recording does not show why the GPU idles here",
        "idle.other",
        m.idle.other,
        evidence,
    )
