"""Communication beside computation: of gradients beside the backward pass, of layers beside another half's layers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceanalyzer.analysis.replay.changes.collectives import (
    MOST_OVERLAP_COST,
    OVERLAP_COST,
    overlapped,
    overlapped_by_halves,
)
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
BY_HALVES = Scenario(
    "overlap_communication",
    overlapped_by_halves(OVERLAP_COST),
    "the layers work on two halves of the batch in turn, so that the collectives of one run while the other computes, "
    "slower by half of their time; the host launches twice as much (lower end: they slow nothing; upper end: by three "
    "quarters of it)",
    hopeful=overlapped_by_halves(0.0),
    cautious=overlapped_by_halves(MOST_OVERLAP_COST),
    missing="no layers wait for collectives",
)
ACTION_BY_HALVES = (
    "Overlap communication: run two halves of the batch in turn, dist.all_reduce(..., async_op=True) for one while "
    "the other computes, and wait() before its next layer."
)
LEAST_BY_HALVES = 0.08
"""Share of the step that it must save: the model has to be written anew for it."""


def offer(m: Measurements) -> Offer | None:
    """Where gradients are reduced after the backward pass, and smaller buckets are not what is missing; or where the
    layers of a model that is spread over GPUs wait for what they exchange."""
    known, replay = program(m), m.replay
    if smaller_buckets.offer(m) is not None or replay is None:
        return None
    if not (known.ddp or known.fsdp) and replay.gain_ms(BY_HALVES) >= LEAST_BY_HALVES * replay.base_ms:
        return Offer(ACTION_BY_HALVES, BY_HALVES)
    how = "wrap the model in DistributedDataParallel" if known.pytorch and not known.ddp else "reduce them as they come"
    return Offer(f"Overlap the reduction of gradients with the backward pass: {how}.", SCENARIO)


REMEDY = Remedy("overlap_communication", "communication", "exposed-communication", offer, LEAST_OF_MESSAGES)
