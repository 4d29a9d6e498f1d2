"""The model compiled: launches, passes over memory and dispatch together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceanalyzer.analysis.replay.changes.capture import compiled, compiled_badly, compiled_well
from traceanalyzer.analysis.replay.scenarios import Scenario
from traceanalyzer.diagnosis.remedies.program import program, tape_of
from traceanalyzer.diagnosis.remedies.remedy import Offer, Remedy
from traceanalyzer.figures import NS_PER_MS

if TYPE_CHECKING:
    from traceanalyzer.analysis.measure import Measurements

SCENARIO = Scenario(
    "compile",
    compiled,
    "runs of kernels that a compiler merges are one each, and its reductions reach 70% of the memory's bandwidth; to "
    "launch what is left costs 1.8 times what an eager operator usually does, 0.04 ms at most (lower end: 0.6 of that, "
    "and products of odd sizes are padded; upper end: 1.25 of it, and a merged kernel takes as long as the longest of "
    "its run)",
    hopeful=compiled_well,
    cautious=compiled_badly,
    missing="no kernels that a compiler merges follow each other",
)
ACTION = "Compile the model: model = torch.compile(model), with dynamic=True where shapes change."


def offer(m: Measurements) -> Offer | None:
    """Where PyTorch runs eagerly."""
    known = program(m)
    if not known.pytorch or known.compiled or known.in_graphs:
        return None
    return Offer(ACTION, SCENARIO, against=("memory-chains", "memory") if fewer_passes(m) else None)


def fewer_passes(m: Measurements) -> bool:
    """Whether most of what is gained is time of the kernels, not of their launches."""
    tape, replay = tape_of(m), m.replay
    found = None if tape is None else SCENARIO.change(tape)
    if tape is None or replay is None or found is None:
        return False
    saved_ns = float(tape.duration.sum() - found.duration.sum()) / tape.steps
    return 2 * saved_ns >= replay.gain_ms(SCENARIO) * NS_PER_MS


LEAST_GAIN = 0.08
"""Compiling takes minutes, and breaks where Python does what it cannot follow; of five promises of less, two
brought nothing: products that pause less run at lower clocks."""
REMEDY = Remedy("compile", "launch", "launch-bound", offer, LEAST_GAIN)
