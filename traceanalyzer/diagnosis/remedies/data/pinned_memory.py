"""Copies from pinned instead of pageable memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceanalyzer.analysis.replay.changes.loading import pinned
from traceanalyzer.analysis.replay.scenarios import Scenario
from traceanalyzer.diagnosis.remedies.program import program
from traceanalyzer.diagnosis.remedies.remedy import Offer, Remedy

if TYPE_CHECKING:
    from traceanalyzer.analysis.measure import Measurements

SCENARIO = Scenario(
    "pinned_memory",
    pinned,
    "copies from pageable memory run at the rate of the link, and the host does not wait for them",
    missing="nothing is copied from pageable memory",
)
PYTORCH = "DataLoader(pin_memory=True) or tensor.pin_memory(), then .to(device, non_blocking=True)"
OTHER = "cudaHostAlloc or cudaHostRegister, then asynchronous copies"


def offer(m: Measurements) -> Offer:
    """Wherever data is copied from pageable memory."""
    return Offer(f"Pin host memory: {PYTORCH if program(m).pytorch else OTHER}.", SCENARIO)


REMEDY = Remedy("pinned_memory", "transfer", "exposed-copies", offer)
