"""Many small calls a step as one batched call."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceanalyzer.analysis.replay.changes.loops.lookups import lookups_joined
from traceanalyzer.analysis.replay.changes.loops.twin_calls import twins_joined
from traceanalyzer.analysis.replay.changes.repetition import STEPS_A_BATCH, batched, batched_over_steps
from traceanalyzer.analysis.replay.scenarios import Scenario
from traceanalyzer.diagnosis.remedies.program import program, tape_of
from traceanalyzer.diagnosis.remedies.remedy import Offer, Remedy

if TYPE_CHECKING:
    from traceanalyzer.analysis.measure import Measurements

SCENARIO = Scenario(
    "batch_calls",
    batched,
    "the calls of a step are one: kernels that do not fill the GPU take as long for all of them as for one",
    missing="no small calls of one kind repeat within the step",
)
OVER_STEPS = Scenario(
    "batch_calls",
    batched_over_steps,
    f"{STEPS_A_BATCH} steps' inputs are one batch, and this is the time of each: kernels that do not fill the GPU take "
    "as long for all of them as for one",
    missing="the steps are no small calls of one kind",
)
LOOKUPS = Scenario(
    "batch_calls",
    lookups_joined,
    "lookups that follow each other are one call: kernels that do not fill the GPU take as long for all of them as for "
    "one",
    missing="no lookups in tables follow each other",
)
TWINS = Scenario(
    "batch_calls",
    twins_joined,
    "calls of a model that follow each other are one: kernels that do not fill the GPU take as long for all of them as "
    "for one",
    missing="no calls of a model follow each other",
)
TOGETHER = (
    "Call the model once instead of several times in a row: torch.cat the inputs along the batch, and chunk the result."
)
LEARNING = (
    " Where each item's own gradient is needed: torch.func.vmap(torch.func.grad(loss), (None, 0, 0))(weights, x, y)."
)
TABLES = (
    "Look up in all tables at once: one table with an offset for each feature, or torchrec's EmbeddingBagCollection."
)
ACTION = "Batch the calls: stack the inputs (pad them to one length) and call the model once instead of in a loop."
REQUESTS = (
    "Batch requests: collect the inputs of several steps, if none needs what another gives (pad them to one length), "
    "and call the model once."
)


def offer(m: Measurements) -> Offer | None:
    """Where calls of one kind repeat within a step, each with its own input, or with an item of a tensor and a read,
    where lookups or calls of a model follow each other, or where each step is one call."""
    tape, known = tape_of(m), program(m)
    if tape is None or not known.pytorch:
        return None
    if batched(tape) is not None:
        return Offer(ACTION + LEARNING if known.training else ACTION, SCENARIO)
    if lookups_joined(tape) is not None:
        return Offer(TABLES, LOOKUPS)
    if twins_joined(tape) is not None:
        return Offer(TOGETHER, TWINS)
    return None if known.training or known.in_graphs else Offer(REQUESTS, OVER_STEPS)


REMEDY = Remedy("batch_calls", "launch", "launch-bound", offer)
