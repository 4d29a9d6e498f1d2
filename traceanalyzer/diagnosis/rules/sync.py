"""Findings on waits of the host for the device."""

from collections.abc import Iterator

from traceanalyzer.analysis.tables.syncs import SyncRow
from traceanalyzer.diagnosis.draft import Draft, Proposal, finding, share
from traceanalyzer.diagnosis.finding import BottleneckClass, Evidence, Words
from traceanalyzer.diagnosis.measurements import Measurements
from traceanalyzer.diagnosis.pages import said
from traceanalyzer.diagnosis.remedies.host import instead_of_waits
from traceanalyzer.diagnosis.remedies.remedy import text
from traceanalyzer.replay.scenarios import NO_HOST_SYNCS_LAUNCHES_FREE
from traceanalyzer.trace import Bool

PLACES = 3
"""Waiting places named in the evidence."""
BASIS = "all idle time after waits gone, an upper bound"
THEN_FASTER = "Remove the waits, then also issue the work faster: work without waits can be captured in a CUDA graph"
TOO_SLOW = "Without that the host stays too slow to keep the GPU busy."
AND_THEN = Words(
    f"{THEN_FASTER} or compiled (mode='reduce-overhead'). {TOO_SLOW}",
    f"{THEN_FASTER}. {TOO_SLOW}",
    f"Remove the waits, then also issue the work faster: put the loop into one jit (lax.scan). {TOO_SLOW}",
)


def host_waits(m: Measurements, _free: Bool) -> Iterator[Draft]:
    """Waits that emptied the launch queue, so that the device idled until the host had caught up."""
    idle = m.step.idle
    if idle is None or idle.sync <= 0:
        return
    costly = [row for row in m.syncs if not row.benign] or m.syncs
    evidence = [
        share(m, idle.sync, "idle after the queue was drained by a sync"),
        Evidence(f"waits {m.timed.steps.per}", sum(r.calls for r in costly), "", "calls that block on the GPU"),
    ]
    evidence += [
        Evidence("CPU blocked in the recording", r.host_wait_ms, "ms", _where(r, m.timed.steps.each))
        for r in costly[:PLACES]
    ]
    larger: BottleneckClass = "launch" if idle.launch > idle.sync else "sync"
    words = said("host-waits")
    waits, how = words, instead_of_waits(m)
    if how == "coalesce":
        waits = Words(text("remove_syncs", how), words.cuda, words.jax)
    proposals = [
        Proposal(waits, BASIS, name="remove_syncs"),
        Proposal(AND_THEN, BASIS, NO_HOST_SYNCS_LAUNCHES_FREE, suffix="-and-launches", cls=larger, name="cuda_graph"),
    ]
    yield finding("host-waits", "idle.sync", idle.sync, evidence, proposals, words=waits)


def _where(row: SyncRow, each: str) -> str:
    """The place in the program: the call, the operators around it, the phase, the line."""
    phase = row.phase if row.phase is None or row.phase.startswith("between ") else f"phase {row.phase}"
    parts = (f"{row.call}, {row.calls:.4g}{each}", row.op and f"in {row.op}", phase, row.python)
    return ", ".join(part for part in parts if part)
