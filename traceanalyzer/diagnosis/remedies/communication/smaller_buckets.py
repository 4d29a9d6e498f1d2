"""Gradients reduced in smaller messages, which begin earlier."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceanalyzer.analysis.replay.changes.collectives import MOST_OVERLAP_COST, OVERLAP_COST, overlapped
from traceanalyzer.analysis.replay.scenarios import Scenario
from traceanalyzer.diagnosis.remedies.program import LEAST_OF_MESSAGES, USUAL_BUCKET_BYTES, median_bucket, program
from traceanalyzer.diagnosis.remedies.remedy import Offer, Remedy

if TYPE_CHECKING:
    from traceanalyzer.analysis.measure import Measurements

SCENARIO = Scenario(
    "smaller_buckets",
    overlapped(OVERLAP_COST),
    "gradients are reduced in messages of 25 MB beside the backward pass, which they slow by half of their time; the "
    "last one stays behind it (lower end: they slow nothing; upper end: by three quarters of it)",
    hopeful=overlapped(0.0),
    cautious=overlapped(MOST_OVERLAP_COST),
    missing="no reductions begin after the backward pass",
)
ACTION = "Reduce smaller buckets: DistributedDataParallel(..., bucket_cap_mb=25)."
LARGE_BUCKETS = 2
"""Buckets of more than so many times the usual size were asked for."""


def offer(m: Measurements) -> Offer | None:
    """Where DDP's buckets are larger than usual, so that they are full late."""
    size = median_bucket(m)
    large = size is not None and size > LARGE_BUCKETS * USUAL_BUCKET_BYTES
    return Offer(ACTION, SCENARIO) if program(m).ddp and large else None


REMEDY = Remedy("smaller_buckets", "communication", "exposed-communication", offer, LEAST_OF_MESSAGES)
