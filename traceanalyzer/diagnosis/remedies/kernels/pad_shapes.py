"""Sizes that tensor cores like."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceanalyzer.analysis.replay.changes.kernels import padded
from traceanalyzer.analysis.replay.scenarios import Scenario
from traceanalyzer.diagnosis.remedies.remedy import Offer, Remedy

if TYPE_CHECKING:
    from traceanalyzer.analysis.measure import Measurements

SCENARIO = Scenario(
    "pad_shapes",
    padded,
    "products of odd sizes reach what aligned ones reach, and the last wave of blocks is full",
    missing="products have sizes that tensor cores like",
)
ACTION = "Pad odd sizes (vocabulary, hidden, sequence length) to multiples of 64, e.g. nn.Embedding(num + pad)."


def offer(m: Measurements) -> Offer:
    """Wherever products have odd sizes, or a mostly empty last wave."""
    return Offer(ACTION, SCENARIO)


REMEDY = Remedy("pad_shapes", "compute", "misaligned-matmul", offer)
