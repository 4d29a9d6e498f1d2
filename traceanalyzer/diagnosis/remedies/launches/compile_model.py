"""The model compiled: launches, passes over memory and dispatch together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceanalyzer.analysis.replay.changes.compiling import compiled, compiled_badly, compiled_well
from traceanalyzer.analysis.replay.scenarios import Scenario
from traceanalyzer.diagnosis.remedies.program import program
from traceanalyzer.diagnosis.remedies.remedy import Offer, Remedy

if TYPE_CHECKING:
    from traceanalyzer.analysis.measure import Measurements

SCENARIO = Scenario(
    "compile",
    compiled,
    "the model's small kernels between its products, convolutions and attention are one each, and one more for each "
    "reduction; a launch that is left costs the host 0.9 times what one costs now (inference: 1.2), a call of compiled "
    "code as much as 40 launches (7); convolutions get their layout, odd products are padded; batch norms in training, "
    "optimizer, clipping, averages and logging stay (lower end: less for launches and calls; upper end: more, and a "
    "merged kernel takes as long as the longest of its run)",
    hopeful=compiled_well,
    cautious=compiled_badly,
    missing="no model was recorded that a compiler could change",
    may_cost=True,
)
ACTION = "Compile the model: model = torch.compile(model), with dynamic=True where shapes change."


def offer(m: Measurements) -> Offer | None:
    """Where PyTorch runs eagerly and small operators follow each other, unless gradients have gradients. Not under DDP
    or FSDP, whose hooks cut the compiled code and stay: of three such programs that were timed one became 17 % faster,
    one 5 %, and one took three quarters longer."""
    known = program(m)
    if not known.pytorch or known.compiled or known.in_graphs or known.ddp or known.fsdp:
        return None
    fewer_passes = m.replay is not None and m.replay.saved_by_kernels(SCENARIO)
    return Offer(ACTION, SCENARIO, against=("memory-chains", "memory") if fewer_passes else None)


LEAST_GAIN, SURE = 0.08, 0.75
"""Compiling takes minutes, and breaks where Python does what it cannot follow; and where little is fused the rest
decides: programs that were promised 0 to 5 % took 3 % less to 2 % more."""
REMEDY = Remedy("compile", "launch", "launch-bound", offer, LEAST_GAIN, SURE, costs_host=True)
