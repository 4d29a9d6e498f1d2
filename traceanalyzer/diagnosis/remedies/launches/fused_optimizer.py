"""The optimizer's step in one pass, or at least by lists of tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceanalyzer.analysis.replay.changes.optimizer import optimizer_by_lists, optimizer_fused
from traceanalyzer.analysis.replay.scenarios import Scenario
from traceanalyzer.diagnosis.remedies.program import tape_of
from traceanalyzer.diagnosis.remedies.remedy import Offer, Remedy

if TYPE_CHECKING:
    from traceanalyzer.analysis.measure import Measurements

FUSED = Scenario(
    "fused_optimizer",
    optimizer_fused,
    "Adam reads and writes everything once, in one launch for every few dozen tensors",
    cautious=lambda tape: optimizer_by_lists(tape) or optimizer_fused(tape),
    missing="no step of an Adam that is not fused already was recorded",
)
BY_LISTS = Scenario(
    "fused_optimizer",
    optimizer_by_lists,
    "each of the optimizer's operators takes a few dozen tensors in one launch",
    missing="no step of an optimizer that goes from tensor to tensor was recorded",
)


def offer(m: Measurements) -> Offer | None:
    """Where an optimizer makes several passes, or goes from tensor to tensor."""
    tape = tape_of(m)
    if tape is None:
        return None
    if optimizer_fused(tape) is not None:
        return Offer("Use the fused optimizer: torch.optim.AdamW(..., fused=True).", FUSED)
    if optimizer_by_lists(tape) is not None:
        return Offer("Update all tensors at once: the optimizer with foreach=True, or fused=True.", BY_LISTS)
    return None


REMEDY = Remedy("fused_optimizer", "memory", "optimizer-not-fused", offer)
