"""The rank that others wait for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceanalyzer.analysis.replay.scenarios import Scenario, lower_median, nobody_waited_for
from traceanalyzer.diagnosis.remedies.remedy import Offer, Remedy

if TYPE_CHECKING:
    from traceanalyzer.analysis.measure import Measurements

SCENARIO = Scenario(
    "fix_straggler",
    nobody_waited_for,
    "every rank takes as long as the middle one, and collectives only transfer",
    missing="it takes the recordings of several ranks that share collectives",
    step_of_run=lower_median,
)
MIN_WAIT_SHARE = 0.05
"""Share of the step that a rank must wait for another before that one is said to hold up the run."""


def offer(m: Measurements) -> Offer | None:
    """Where one rank is late at the collectives, and others wait."""
    ranks = m.ranks
    if ranks is None or len(ranks.rows) < 2 or not ranks.rows[ranks.critical].straggler:
        return None
    slow = ranks.rows[ranks.critical]
    others = [row for row in ranks.rows if row.rank != slow.rank]
    if max((row.waiting_ms or 0.0 for row in others), default=0.0) < MIN_WAIT_SHARE * m.mean_step_ms:
        return None
    longer_ms = slow.compute_ms - sum(row.compute_ms for row in others) / max(len(others), 1)
    if longer_ms > MIN_WAIT_SHARE * m.mean_step_ms:
        how = f"its kernels take {longer_ms:.3g} ms more: even out batches, stages or experts; check its clocks"
    else:
        how = f"its host is late: traceanalyzer gaps --rank {slow.rank} shows where"
    return Offer(f"Fix rank {slow.rank}: {how}.", SCENARIO)


REMEDY = Remedy("fix_straggler", "communication", "straggler", offer)
