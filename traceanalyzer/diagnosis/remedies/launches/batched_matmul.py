"""Small products of one shape as one batched product."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceanalyzer.analysis.replay.changes.kernels import products_batched
from traceanalyzer.analysis.replay.changes.loops.ensembles import ensembles_joined
from traceanalyzer.analysis.replay.scenarios import Scenario
from traceanalyzer.diagnosis.remedies.remedy import Offer, Remedy

if TYPE_CHECKING:
    from traceanalyzer.analysis.measure import Measurements

SCENARIO = Scenario(
    "batched_matmul",
    products_batched,
    "each run of small products of one shape is one batched product",
    missing="no small products of one shape follow each other",
)
ENSEMBLES = Scenario(
    "batched_matmul",
    ensembles_joined,
    "small networks of one shape that are called one after the other are one with batched products, forward, backward "
    "and in the optimizer",
    missing="no small networks of one shape are called one after the other",
)
ACTION = "Batch the products: torch.bmm(torch.stack(a), torch.stack(b)), or torch.vmap."


ONE_NETWORK = (
    "Make the networks of one shape one: torch.vmap over torch.func.stack_module_state, or weights of [networks, in, "
    "out] and torch.bmm."
)


def offer(m: Measurements) -> Offer:
    """Wherever small products of one shape, or small networks of one, follow each other: what gains more."""
    if m.replay is not None and m.replay.gain_ms(ENSEMBLES) > m.replay.gain_ms(SCENARIO):
        return Offer(ONE_NETWORK, ENSEMBLES)
    return Offer(ACTION, SCENARIO)


LEAST_GAIN = 0.05
"""Operands have to be put together, and the model is another."""
REMEDY = Remedy("batched_matmul", "launch", "small-matmuls", offer, LEAST_GAIN)
