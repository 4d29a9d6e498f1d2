"""Findings on the ranks of a run held side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceanalyzer.analysis.replay.scenarios import NO_STRAGGLER
from traceanalyzer.diagnosis.draft import Draft, Remedy
from traceanalyzer.diagnosis.finding import Evidence

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traceanalyzer.analysis.measure import Measurements
    from traceanalyzer.trace import Bool

BALANCE = (
    "Give every rank the same work: balance batches by tokens or sequence length, pipeline stages and experts by "
    "measured cost; rule out a slower GPU (clocks, temperature, other processes)."
)
UNBLOCK = "Find what holds up the CPU of rank {rank} (its idle gaps say where): the other ranks pay for it, too."
MIN_WAIT_SHARE = 0.05
"""Share of the step that another rank must wait before one rank is said to hold up the run."""


def straggler(m: Measurements, _free: Bool) -> Iterator[Draft]:
    """One rank is late at the collectives: because it computes longer, or because its device idles."""
    ranks = m.ranks
    if ranks is None or len(ranks.rows) < 2 or not ranks.rows[ranks.critical].straggler:
        return
    rows = ranks.rows
    slow = rows[ranks.critical]
    others = [row for i, row in enumerate(rows) if i != ranks.critical]
    waited = max((r.waiting_ms for r in others if r.waiting_ms is not None), default=None)
    if waited is not None and waited < MIN_WAIT_SHARE * m.mean_step_ms:
        return
    mean = sum(row.compute_ms for row in others) / len(others)
    where = f"rank {slow.rank}, per step"
    evidence = [
        Evidence(
            "waiting of the rank that waits longest",
            None if waited is None else waited / m.mean_step_ms,
            "share",
            "of the recorded step",
            MIN_WAIT_SHARE,
        ),
        Evidence("compute", slow.compute_ms, "ms", where),
        Evidence("compute", mean, "ms", "mean of the other ranks, per step"),
        Evidence("idle", slow.idle_ms, "ms", where),
    ]
    title = f"Rank {slow.rank} holds up the others"
    excess = (slow.compute_ms - mean) * len(others) / len(rows)
    if excess > MIN_WAIT_SHARE * m.mean_step_ms:
        remedy = Remedy(BALANCE, "the work spread evenly over the ranks", name="fix_straggler")
        yield Draft("straggler", "compute", f"{title}: it computes longer", "compute", excess, evidence, [remedy])
    elif _idles(m):
        remedy = Remedy(
            UNBLOCK.format(rank=slow.rank), "counted in the findings on idle time", NO_STRAGGLER, name="fix_straggler"
        )
        yield Draft("straggler", "host", f"{title}: its GPU idles", "none", None, evidence, [remedy])


def _idles(m: Measurements) -> bool:
    """Whether the late rank's GPU idles in the step that the report speaks of, too: a profiler alone can make it
    late."""
    budget = m.step.budget
    return m.step.basis == "recorded" or budget is None or budget.idle >= MIN_WAIT_SHARE * m.step.step_ms
