"""The model compiled: launches, passes over memory and dispatch together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceanalyzer.analysis.replay.capture import compiled, compiled_badly, compiled_well
from traceanalyzer.analysis.replay.scenarios import Scenario
from traceanalyzer.diagnosis.remedies.program import program
from traceanalyzer.diagnosis.remedies.remedy import Offer, Remedy

if TYPE_CHECKING:
    from traceanalyzer.analysis.measure import Measurements

SCENARIO = Scenario(
    "compile",
    compiled,
    "runs of kernels that a compiler merges are one each, launched once; the rest is launched as before, and a call of "
    "compiled code costs the host 0.07 ms (lower end: the rest is launched faster, too; upper end: a merged kernel "
    "takes as long as the longest of its run)",
    hopeful=compiled_well,
    cautious=compiled_badly,
    missing="no kernels that a compiler merges follow each other",
)
ACTION = "Compile the model: model = torch.compile(model), with dynamic=True where shapes change."


def offer(m: Measurements) -> Offer | None:
    """Where PyTorch runs eagerly."""
    known = program(m)
    return Offer(ACTION, SCENARIO) if known.pytorch and not known.compiled and not known.in_graphs else None


REMEDY = Remedy("compile", "launch", "launch-bound", offer)
