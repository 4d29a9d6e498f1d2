"""Findings on communication."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceanalyzer.analysis.replay.scenarios import COMMUNICATION_OVERLAPPED
from traceanalyzer.diagnosis.draft import Draft, Remedy, share
from traceanalyzer.diagnosis.finding import Evidence

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traceanalyzer.analysis.measure import Measurements
    from traceanalyzer.trace import Bool

ROWS = 3
"""Kinds of collectives named in the evidence."""
BYTES_PER_MB = 1e6


def exposed_communication(m: Measurements, _free: Bool) -> Iterator[Draft]:
    """Collectives while no compute ran on the device."""
    budget = m.step.budget
    if budget is None or m.communication is None or budget.exposed_communication <= 0:
        return
    exposed = budget.exposed_communication
    evidence = [
        share(m, exposed, "communication with no compute beside it"),
        Evidence("overlap of communication", m.communication.overlap_share, "share", "hidden by compute"),
    ]
    for row in sorted(m.collectives, key=lambda row: -row.exposed_ms)[:ROWS]:
        size = "" if row.message_bytes is None else f" of {row.message_bytes / BYTES_PER_MB:.3g} MB"
        where = f"{row.collective}{size}, group {row.group or 'not recorded'}"
        evidence.append(Evidence("exposed time", row.exposed_ms, "ms", where))
    action = (
        "Overlap or shrink communication: start gradient reduction during the backward pass (DDP buckets, FSDP "
        "prefetch), reduce once per optimizer step when accumulating gradients (no_sync), use async collectives, "
        "lower precision or larger messages."
    )
    basis = "all exposed communication hidden; it includes waiting for slower ranks, which overlap does not remove"
    yield Draft(
        "exposed-communication",
        "communication",
        "Communication is not hidden by computation",
        "exposed_communication",
        exposed,
        evidence,
        [Remedy(action, basis, COMMUNICATION_OVERLAPPED, name="overlap_communication")],
    )
