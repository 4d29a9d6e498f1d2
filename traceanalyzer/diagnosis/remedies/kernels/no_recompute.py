"""Activations kept instead of calculated again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceanalyzer.analysis.replay.changes.recompute import kept, kept_with_hooks
from traceanalyzer.analysis.replay.scenarios import Scenario
from traceanalyzer.diagnosis.remedies.remedy import Offer, Remedy

if TYPE_CHECKING:
    from traceanalyzer.analysis.measure import Measurements

SCENARIO = Scenario(
    "no_recompute",
    kept,
    "operators of the forward pass that run again within the backward pass are gone, and so are the host's hooks on "
    "what is saved, a quarter of its time for the others (upper end: they stay); it takes the memory that "
    "checkpointing saves",
    cautious=kept_with_hooks,
    missing="nothing of the forward pass runs again in the backward pass",
)
ACTION = "Keep activations where memory allows: model.gradient_checkpointing_disable(), or checkpoint every 2nd block."


def offer(m: Measurements) -> Offer:
    """Wherever a forward pass runs again."""
    return Offer(ACTION, SCENARIO)


REMEDY = Remedy("no_recompute", "compute", "gpu-busy", offer)
