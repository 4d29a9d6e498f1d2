"""Gradients reduced once per optimizer step instead of with every backward pass."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceanalyzer.analysis.replay.changes.collectives import accumulated_without_sync
from traceanalyzer.analysis.replay.scenarios import Scenario
from traceanalyzer.diagnosis.remedies.program import program
from traceanalyzer.diagnosis.remedies.remedy import Offer, Remedy

if TYPE_CHECKING:
    from traceanalyzer.analysis.measure import Measurements

SCENARIO = Scenario(
    "no_sync_accumulation",
    accumulated_without_sync,
    "gradients are reduced with the last backward pass of a step alone; computation beside the others is not slowed",
    missing="no gradients are reduced several times a step",
)
PLAIN = "with model.no_sync(): around all but the last backward (FSDP2: set_requires_gradient_sync(False))"
ACCELERATE = "with accelerator.accumulate(model):, and Accelerator(gradient_accumulation_steps=N)"


def offer(m: Measurements) -> Offer:
    """Wherever the same bytes are reduced with each of several backward passes of a step."""
    return Offer(f"Reduce once per optimizer step: {ACCELERATE if program(m).accelerate else PLAIN}.", SCENARIO)


REMEDY = Remedy("no_sync_accumulation", "communication", "exposed-communication", offer)
