"""Parameters gathered once a step instead of twice."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceanalyzer.analysis.replay.changes.gathers import parameters_kept
from traceanalyzer.analysis.replay.scenarios import Scenario
from traceanalyzer.diagnosis.remedies.program import LEAST_OF_MESSAGES, program
from traceanalyzer.diagnosis.remedies.remedy import Offer, Remedy

if TYPE_CHECKING:
    from traceanalyzer.analysis.measure import Measurements

SCENARIO = Scenario(
    "keep_parameters",
    parameters_kept,
    "parameters are gathered once a step, for the forward pass; what the host does for the other gathers is not done",
    missing="no parameters are gathered twice a step",
)
ACTION = "Keep gathered parameters: fully_shard(..., reshard_after_forward=False) (FSDP1: SHARD_GRAD_OP)."


def offer(m: Measurements) -> Offer | None:
    """Where parameters are sharded and gathered again for the backward pass."""
    return Offer(ACTION, SCENARIO) if program(m).fsdp else None


REMEDY = Remedy("keep_parameters", "communication", "exposed-communication", offer, LEAST_OF_MESSAGES)
