"""Findings on communication."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceanalyzer.analysis.replay.scenarios import COMMUNICATION_OVERLAPPED
from traceanalyzer.diagnosis.draft import Draft, Remedy, share
from traceanalyzer.diagnosis.finding import Evidence
from traceanalyzer.diagnosis.remedies.program import MOSTLY_WAITING, by_links_ms, program, waiting_share

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traceanalyzer.analysis.measure import Measurements
    from traceanalyzer.trace import Bool

ROWS = 3
"""Kinds of collectives named in the evidence."""
BYTES_PER_MB = 1e6
OF_GRADIENTS = (
    "Overlap or shrink communication: start gradient reduction during the backward pass (DDP buckets, FSDP prefetch), "
    "reduce once per optimizer step when accumulating gradients (no_sync), use async collectives, lower precision or "
    "larger messages."
)
OF_ANYTHING = (
    "Overlap or shrink communication: start it as soon as its data is ready (async_op=True) and compute something else "
    "meanwhile, send fewer and larger messages, in lower precision."
)
BY_LINK = (
    "all its messages, without waiting for other ranks and without start-up; recordings of all ranks tell how much of "
    "the rest is waiting"
)
REDUCTIONS = ("all_reduce", "reduce_scatter", "all_gather", "reduce")
"""How gradients, or parameters in shards, travel."""


def exposed_communication(m: Measurements, _free: Bool) -> Iterator[Draft]:
    """Collectives while no compute ran on the device."""
    budget = m.step.budget
    if budget is None or m.communication is None or budget.exposed_communication <= 0:
        return
    exposed = budget.exposed_communication
    evidence = [
        share(m, exposed, "communication that does not overlap with compute"),
        Evidence(
            "overlap of communication",
            m.communication.overlap_share,
            "share",
            "share of its time that overlaps with compute",
        ),
    ]
    for row in sorted(m.collectives, key=lambda row: -row.exposed_ms)[:ROWS]:
        size = "" if row.message_bytes is None else f" of {row.message_bytes / BYTES_PER_MB:.3g} MB"
        where = f"{row.collective}{size}, group {row.group or 'not recorded'}"
        evidence.append(Evidence("exposed time", row.exposed_ms, "ms", where))
    waiting = waiting_share(m)
    by_link = by_links_ms(m)
    if waiting is None and by_link is not None:
        evidence.append(Evidence("time at the rate of the links", by_link, "ms", BY_LINK))
    if waiting is not None:
        evidence.append(Evidence("waiting for other ranks", waiting, "share", "of the communication of this rank"))
    action = OF_GRADIENTS if _of_gradients(m) else OF_ANYTHING
    basis = "all exposed communication hidden; it includes waiting for slower ranks, which overlap does not remove"
    # What messages need is known and what of the rest is waiting is not: then nothing tells what overlap would save.
    untold = waiting is None and by_link is not None
    remedy = Remedy(action, basis, COMMUNICATION_OVERLAPPED, bound=untold, name="overlap_communication")
    yield Draft(
        "exposed-communication",
        "communication",
        "Communication does not overlap with compute",
        "exposed_communication",
        exposed,
        evidence,
        [] if waiting is not None and waiting > MOSTLY_WAITING else [remedy],
    )


def _of_gradients(m: Measurements) -> bool:
    """Whether most of it may be gradients: reductions, in a program that trains."""
    exposed = sum(row.exposed_ms for row in m.collectives)
    reduced = sum(row.exposed_ms for row in m.collectives if row.collective in REDUCTIONS)
    return program(m).training and 2 * reduced >= exposed
