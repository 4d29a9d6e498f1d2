"""Findings on waits of the host for the device."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceanalyzer.analysis.replay.scenarios import NO_HOST_SYNCS, NO_HOST_SYNCS_LAUNCHES_FREE
from traceanalyzer.diagnosis.draft import Draft, Remedy, share
from traceanalyzer.diagnosis.finding import Evidence

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traceanalyzer.analysis.measure import Measurements
    from traceanalyzer.analysis.tables.syncs import SyncRow
    from traceanalyzer.diagnosis.finding import BottleneckClass
    from traceanalyzer.trace import Bool

PLACES = 3
"""Waiting places named in the evidence."""
BASIS = "all idle time after waits gone, an upper bound"
AND_THEN = (
    "Remove the waits, then also issue the work faster: a step without waits can be captured in a CUDA graph or "
    "compiled (mode='reduce-overhead'). Without that the host stays too slow to keep the GPU busy."
)


def host_waits(m: Measurements, _free: Bool) -> Iterator[Draft]:
    """Waits that emptied the launch queue, so that the device idled until the host had caught up."""
    idle = m.step.idle
    if idle is None or idle.sync <= 0:
        return
    costly = [row for row in m.syncs if not row.benign] or m.syncs
    evidence = [
        share(m, idle.sync, "idle after the queue was drained by a sync"),
        Evidence("waits per step", sum(r.calls for r in costly), "", "calls that block on the GPU"),
    ]
    evidence += [Evidence("CPU blocked in the recording", r.host_wait_ms, "ms", _where(r)) for r in costly[:PLACES]]
    action = (
        "Do not wait for the GPU in the step: keep results on it and read them once every many steps (.item(), .cpu(), "
        "print(tensor), tensor truth tests and synchronize() each wait); copy with non_blocking=True to pinned memory."
    )
    larger: BottleneckClass = "launch" if idle.launch > idle.sync else "sync"
    remedies = [
        Remedy(action, BASIS, NO_HOST_SYNCS, name="remove_syncs"),
        Remedy(AND_THEN, BASIS, NO_HOST_SYNCS_LAUNCHES_FREE, suffix="-and-launches", cls=larger, name="cuda_graph"),
    ]
    yield Draft(
        "host-waits",
        "sync",
        "The CPU blocks on the GPU, and the GPU's queue runs dry",
        "idle.sync",
        idle.sync,
        evidence,
        remedies,
    )


def _where(row: SyncRow) -> str:
    """The place in the program: the call, the operators around it, the phase, the line."""
    parts = (f"{row.call}, {row.calls:.4g} a step", row.op and f"in {row.op}", row.phase and _in(row.phase), row.python)
    return ", ".join(part for part in parts if part)


def _in(phase: str) -> str:
    return phase if phase.startswith("between ") else f"phase {phase}"
