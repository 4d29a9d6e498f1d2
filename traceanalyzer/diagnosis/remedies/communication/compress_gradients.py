"""Gradients reduced in 16 bits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceanalyzer.analysis.names.collectives import WIDE
from traceanalyzer.analysis.replay.changes.collectives import compressed
from traceanalyzer.analysis.replay.scenarios import Scenario
from traceanalyzer.diagnosis.remedies.program import LEAST_OF_MESSAGES, by_links_ms, program, waiting_share
from traceanalyzer.diagnosis.remedies.remedy import Offer, Remedy

if TYPE_CHECKING:
    from traceanalyzer.analysis.measure import Measurements

SCENARIO = Scenario(
    "compress_gradients",
    compressed,
    "gradients are reduced in half as many bytes, and cast before and after that",
    missing="nothing is reduced",
)
ACTION = "Reduce gradients in bf16: model.register_comm_hook(dist.group.WORLD, default_hooks.bf16_compress_hook)."


def offer(m: Measurements) -> Offer | None:
    """Where DDP reduces gradients of 32 bits, unless that may be waiting for other ranks for all that is recorded."""
    wide = any(row.dtype in WIDE for row in m.collectives)
    untold = waiting_share(m) is None and by_links_ms(m) is not None
    return Offer(ACTION, SCENARIO) if program(m).ddp and wide and not untold else None


REMEDY = Remedy("compress_gradients", "communication", "exposed-communication", offer, LEAST_OF_MESSAGES)
