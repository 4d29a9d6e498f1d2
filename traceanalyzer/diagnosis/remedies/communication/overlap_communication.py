"""Gradients reduced beside the backward pass."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceanalyzer.analysis.replay.changes.collectives import MOST_OVERLAP_COST, OVERLAP_COST, overlapped
from traceanalyzer.analysis.replay.scenarios import Scenario
from traceanalyzer.diagnosis.remedies.communication import smaller_buckets
from traceanalyzer.diagnosis.remedies.program import LEAST_OF_MESSAGES, program
from traceanalyzer.diagnosis.remedies.remedy import Offer, Remedy

if TYPE_CHECKING:
    from traceanalyzer.analysis.measure import Measurements

SCENARIO = Scenario(
    "overlap_communication",
    overlapped(OVERLAP_COST),
    "reductions run beside the backward pass, which they slow by half of their time, and the last bucket stays behind "
    "it (lower end: they slow nothing; upper end: by three quarters of it)",
    hopeful=overlapped(0.0),
    cautious=overlapped(MOST_OVERLAP_COST),
    missing="no reductions begin after the backward pass",
)


def offer(m: Measurements) -> Offer | None:
    """Where gradients are reduced after the backward pass, and smaller buckets are not what is missing."""
    if smaller_buckets.offer(m) is not None:
        return None
    known = program(m)
    how = "wrap the model in DistributedDataParallel" if known.pytorch and not known.ddp else "reduce them as they come"
    return Offer(f"Overlap the reduction of gradients with the backward pass: {how}.", SCENARIO)


REMEDY = Remedy("overlap_communication", "communication", "exposed-communication", offer, LEAST_OF_MESSAGES)
