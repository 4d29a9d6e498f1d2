"""Parameters gathered before they are needed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceanalyzer.analysis.replay.changes.gathers import prefetched
from traceanalyzer.analysis.replay.scenarios import Scenario
from traceanalyzer.diagnosis.remedies.program import LEAST_OF_MESSAGES, program
from traceanalyzer.diagnosis.remedies.remedy import Offer, Remedy

if TYPE_CHECKING:
    from traceanalyzer.analysis.measure import Measurements

SCENARIO = Scenario(
    "prefetch_parameters",
    prefetched,
    "parameters are gathered one layer ahead, on a stream of their own",
    missing="no parameters are gathered",
)
ACTION = (
    "Gather parameters earlier: module.set_modules_to_forward_prefetch([...]) (FSDP1: forward_prefetch=True, "
    "backward_prefetch=BACKWARD_PRE)."
)


def offer(m: Measurements) -> Offer | None:
    """Where parameters are sharded."""
    return Offer(ACTION, SCENARIO) if program(m).fsdp else None


REMEDY = Remedy("prefetch_parameters", "communication", "exposed-communication", offer, LEAST_OF_MESSAGES)
