"""Chains of memory-bound kernels as one kernel each, by hand or by a library's operator."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceanalyzer.analysis.groups.passes import MIN_CHAIN
from traceanalyzer.analysis.replay.changes.compiling import functions_compiled
from traceanalyzer.analysis.replay.changes.fusion import WRITTEN_OUT, Reading, fusing
from traceanalyzer.analysis.replay.scenarios import Scenario
from traceanalyzer.diagnosis.remedies.program import program
from traceanalyzer.diagnosis.remedies.remedy import Offer, Remedy
from traceanalyzer.figures import NS_PER_MS

if TYPE_CHECKING:
    from traceanalyzer.analysis.measure import Measurements

SCENARIO = Scenario(
    "fuse_elementwise",
    functions_compiled(Reading.USUAL, MIN_CHAIN),
    f"each run of at least {MIN_CHAIN} kernels of written-out operators on the same data is one kernel: it moves what "
    "the largest of them moves, has the arithmetic of all, and reads a reduction's rows again; the host spends on it "
    "what it did, or what calling a compiled function costs (lower end: one launch; upper end: it takes as long as the "
    "longest, and a single one before its first reduction stays, as with a library's operator)",
    hopeful=fusing(WRITTEN_OUT, Reading.HOPEFUL, MIN_CHAIN),
    cautious=functions_compiled(Reading.CAUTIOUS, MIN_CHAIN, library=True),
    missing="no chain of written-out operators works on the same data",
)
PYTORCH = (
    "Fuse the chain: a library operator (F.layer_norm, F.group_norm, F.gelu, F.cross_entropy), @torch.compile on the "
    "function, or a Triton kernel."
)
LEAST_SAVED = 0.02
"""Share of the step that its kernels must become shorter by: what only saves launches is for a compiler."""
OTHER = "Fuse the chain of elementwise and reduction kernels into one kernel."


def offer(m: Measurements) -> Offer | None:
    """Where such kernels follow each other, and the GPU's own time becomes shorter: launches alone are for others."""
    replay = m.replay
    saved_ns = None if replay is None else replay.kernels_saved_ns(SCENARIO)
    if replay is None or saved_ns is None or saved_ns < LEAST_SAVED * replay.base_ms * NS_PER_MS:
        return None
    return Offer(PYTORCH if program(m).pytorch else OTHER, SCENARIO)


LEAST_GAIN = 0.08
"""What is gained less often lies between operators that no library has together, and is within what fused kernels
differ by."""
REMEDY = Remedy("fuse_elementwise", "memory", "memory-chains", offer, LEAST_GAIN)
