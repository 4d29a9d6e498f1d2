"""Data that goes to the host and comes back, or comes again in every step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceanalyzer.analysis.replay.changes.loading import kept_on_device
from traceanalyzer.analysis.replay.scenarios import Scenario
from traceanalyzer.diagnosis.remedies.remedy import Offer, Remedy

if TYPE_CHECKING:
    from traceanalyzer.analysis.measure import Measurements

SCENARIO = Scenario(
    "keep_on_device",
    kept_on_device,
    "what goes to the host and comes back in the same step stays on the GPU, and so do tables, weights and masks that "
    "every step copies",
    missing="nothing is copied to the host and back, or copied again in every step",
)
ACTION = "Keep the tensors on the GPU: compute there instead of .cpu() and back, or copy constants once."


def offer(m: Measurements) -> Offer:
    """Wherever as many bytes come back as went out, or a step copies what it uses as a table, a weight or a mask."""
    return Offer(ACTION, SCENARIO)


REMEDY = Remedy("keep_on_device", "transfer", "exposed-copies", offer)
