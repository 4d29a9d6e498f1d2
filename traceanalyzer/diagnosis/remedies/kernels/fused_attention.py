"""Attention in one kernel instead of products, softmax and their neighbours."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceanalyzer.analysis.replay.changes.attention import attention_fused
from traceanalyzer.analysis.replay.scenarios import Scenario
from traceanalyzer.diagnosis.remedies.remedy import Offer, Remedy

if TYPE_CHECKING:
    from traceanalyzer.analysis.measure import Measurements

SCENARIO = Scenario(
    "fused_attention",
    attention_fused,
    "attention's products, the passes over the scores between them and the copies for them are one kernel, forward and "
    "backward each, that takes the time of the products and exponentials",
    missing="no attention is written out in separate operators",
)
ACTION = "Use F.scaled_dot_product_attention(q, k, v) (transformers: attn_implementation='sdpa')."


def offer(m: Measurements) -> Offer:
    """Wherever attention is written out."""
    return Offer(ACTION, SCENARIO)


REMEDY = Remedy("fused_attention", "memory", "attention-written-out", offer)
