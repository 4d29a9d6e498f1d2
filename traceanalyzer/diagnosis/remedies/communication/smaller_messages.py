"""Fewer bytes exchanged between all ranks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceanalyzer.analysis.replay.changes.collectives import halved_messages
from traceanalyzer.analysis.replay.scenarios import Scenario
from traceanalyzer.diagnosis.remedies.remedy import Offer, Remedy

if TYPE_CHECKING:
    from traceanalyzer.analysis.measure import Measurements

SCENARIO = Scenario(
    "smaller_messages",
    halved_messages,
    "exchanges between all ranks move half as many bytes",
    missing="ranks exchange nothing with all others",
)
ACTION = "Exchange fewer bytes: a lower expert capacity factor, or bf16 or fp8 messages."


def offer(m: Measurements) -> Offer:
    """Wherever all ranks exchange messages."""
    return Offer(ACTION, SCENARIO)


REMEDY = Remedy("smaller_messages", "communication", "exposed-communication", offer)
