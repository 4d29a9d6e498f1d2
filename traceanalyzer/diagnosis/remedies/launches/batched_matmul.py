"""Small products of one shape as one batched product."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceanalyzer.analysis.replay.changes.kernels import products_batched
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
ACTION = "Batch the products: torch.bmm(torch.stack(a), torch.stack(b)), or torch.vmap."


def offer(m: Measurements) -> Offer:
    """Wherever small products of one shape follow each other."""
    return Offer(ACTION, SCENARIO)


LEAST_GAIN = 0.05
"""Operands have to be put together, and the model is another."""
REMEDY = Remedy("batched_matmul", "launch", "small-matmuls", offer, LEAST_GAIN)
