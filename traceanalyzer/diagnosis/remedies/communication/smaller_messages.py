"""Fewer bytes exchanged or added up between all ranks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceanalyzer.analysis.replay.changes.collectives import smaller_messages, wide_sums
from traceanalyzer.analysis.replay.scenarios import Scenario
from traceanalyzer.diagnosis.remedies.program import tape_of
from traceanalyzer.diagnosis.remedies.remedy import Offer, Remedy

if TYPE_CHECKING:
    from traceanalyzer.analysis.measure import Measurements

SCENARIO = Scenario(
    "smaller_messages",
    smaller_messages(0.5, 1.0),
    "exchanges between all ranks, and sums of fp32 results of 16-bit products, move half as many bytes (lower end: "
    "exchanges a quarter, and what computes on them between two has half as much to do, as with half the capacity of "
    "experts)",
    hopeful=smaller_messages(0.25, 0.5),
    missing="ranks exchange nothing with all others",
)
OF_EXCHANGES = "Exchange fewer bytes: a lower expert capacity factor, or bf16 or fp8 messages."
OF_SUMS = "Add up in bf16 over the ranks what the layers compute in bf16: no .float() before all_reduce."


def offer(m: Measurements) -> Offer | None:
    """Wherever all ranks exchange messages, or add up results in more bits than they were computed in."""
    tape = tape_of(m)
    if tape is None:
        return None
    return Offer(OF_SUMS if tape.once(wide_sums).any() else OF_EXCHANGES, SCENARIO)


REMEDY = Remedy("smaller_messages", "communication", "exposed-communication", offer)
