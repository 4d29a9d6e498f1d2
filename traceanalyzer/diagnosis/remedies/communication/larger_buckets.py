"""Gradients reduced in larger messages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceanalyzer.analysis.replay.changes.buckets import BucketSize, rebucketed
from traceanalyzer.analysis.replay.scenarios import Scenario
from traceanalyzer.diagnosis.remedies.program import (
    LEAST_OF_MESSAGES,
    USUAL_BUCKET_BYTES,
    median_bucket,
    program,
    reduced_by_hooks,
)
from traceanalyzer.diagnosis.remedies.remedy import Offer, Remedy

if TYPE_CHECKING:
    from traceanalyzer.analysis.measure import Measurements

SCENARIO = Scenario(
    "larger_buckets",
    rebucketed(BucketSize(bytes=USUAL_BUCKET_BYTES), at_recorded_rate=True),
    "gradients are reduced in messages of 25 MB, which the host launches once each; what one takes is fitted to those "
    "recorded, else as fast as the fastest of them",
    missing="sizes and times of the collectives do not tell",
    may_cost=True,
)
ACTION = "Reduce larger buckets: DistributedDataParallel(..., bucket_cap_mb=25) or more."
OWN_HOOKS = (
    "Reduce larger buckets: wrap the model in DistributedDataParallel instead of a hook that reduces each gradient."
)


def offer(m: Measurements) -> Offer | None:
    """Where gradients are reduced in buckets that are smaller than DDP's usual ones, or each by itself."""
    size, known = median_bucket(m), program(m)
    if size is None or size >= USUAL_BUCKET_BYTES or not reduced_by_hooks(m):
        return None
    return Offer(ACTION if known.ddp else OWN_HOOKS, SCENARIO)


REMEDY = Remedy("larger_buckets", "communication", "exposed-communication", offer, LEAST_OF_MESSAGES)
