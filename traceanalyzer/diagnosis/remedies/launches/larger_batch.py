"""More samples a step, where the GPU idles: the step becomes longer, a sample cheaper."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceanalyzer.analysis.replay.changes.collectives import repeated_reductions
from traceanalyzer.analysis.replay.changes.recompute import recomputed
from traceanalyzer.analysis.replay.changes.repetition import GREATER_BATCH, enlarged, enlarged_at_full_cost
from traceanalyzer.analysis.replay.scenarios import Scenario
from traceanalyzer.diagnosis.remedies.program import program, tape_of
from traceanalyzer.diagnosis.remedies.remedy import Offer, Remedy

if TYPE_CHECKING:
    from traceanalyzer.analysis.measure import Measurements
    from traceanalyzer.analysis.replay.tape import Tape

SCENARIO = Scenario(
    "larger_batch",
    enlarged,
    f"a batch {GREATER_BATCH} times as large, and this is the time of as many samples as a step has now: kernels take "
    "longer only once they fill the GPU, dispatch is the same (upper end: every kernel takes as many times as long)",
    cautious=enlarged_at_full_cost,
    missing="the GPU is not idle enough",
)
ACTION = f"Raise the batch size (up to {GREATER_BATCH} times, as memory allows), and the learning rate with it."
INFERENCE = "Serve several requests as one batch, as latency allows."
LEAST_IDLE = 0.3
"""Share of the step that the GPU must idle for launches: less is not worth another batch size."""


def offer(m: Measurements) -> Offer | None:
    """Where the GPU is idle because the CPU cannot launch fast enough, a model multiplies matrices (else nothing tells
    that there is a batch), and the program has memory to spare as far as the recording shows."""
    idle, tape, known = m.step.idle, tape_of(m), program(m)
    if idle is None or idle.launch < LEAST_IDLE * m.step.step_ms or tape is None:
        return None
    if not tape.source.is_matrix[tape.row].any() or known.fsdp or saves_memory(tape):
        return None
    return Offer(ACTION if known.training else INFERENCE, SCENARIO, aside=True)


def saves_memory(tape: Tape) -> bool:
    """Whether activations are calculated twice, or gradients added up over parts of a batch, so that less is kept."""
    return bool(recomputed(tape).any() or repeated_reductions(tape).any())


REMEDY = Remedy("larger_batch", "launch", "launch-bound", offer)
