"""Findings on the ranks of a run held side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceanalyzer.diagnosis.draft import Draft, Remedy
from traceanalyzer.diagnosis.finding import Evidence

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traceanalyzer.analysis.measure import Measurements
    from traceanalyzer.analysis.ranks import RankComparison


def straggler(m: Measurements, ranks: RankComparison) -> Iterator[Draft]:
    """One rank computes longer than the others, which wait for it in their collectives."""
    rows = list(ranks.rows)
    if len(rows) < 2:
        return
    slow = rows[ranks.critical]
    others = [row for i, row in enumerate(rows) if i != ranks.critical]
    if not slow.straggler:
        return
    fair = (slow.compute_ms + sum(row.compute_ms for row in others)) / len(rows)
    waited = max((r.waiting_ms for r in others if r.waiting_ms is not None), default=None)
    evidence = [
        Evidence("compute", slow.compute_ms, "ms", f"rank {slow.rank}, per step"),
        Evidence("compute", sum(r.compute_ms for r in others) / len(others), "ms", "mean of the other ranks, per step"),
        Evidence("waiting for others", waited, "ms", "the rank that waits longest, per step"),
    ]
    action = (
        "Give every rank the same work: balance batches by tokens or sequence length, pipeline stages and experts by "
        "measured cost; rule out a slower GPU (clocks, temperature, other processes)."
    )
    remedy = Remedy(action, "the work spread evenly over the ranks")
    yield Draft(
        "straggler",
        "compute",
        f"Rank {slow.rank} holds up the others",
        "compute",
        max(slow.compute_ms - fair, 0.0),
        evidence,
        [remedy],
    )
