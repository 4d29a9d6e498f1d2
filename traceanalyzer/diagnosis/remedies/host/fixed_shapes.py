"""Shapes that stay, so that libraries prepare their operators once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceanalyzer.analysis.groups.new_shapes import new_shapes
from traceanalyzer.analysis.replay.changes.prepared import prepared_before
from traceanalyzer.analysis.replay.scenarios import Scenario
from traceanalyzer.diagnosis.remedies.remedy import Offer, Remedy

if TYPE_CHECKING:
    from traceanalyzer.analysis.measure import Measurements

PREPARED = "convolution|cudnn"
"""Operators for which cuDNN chooses an algorithm and builds a plan: convolutions, and attention where it is cuDNN's."""
SCENARIO = Scenario(
    "fixed_shapes",
    prepared_before(PREPARED),
    "these operators are ready when they are called: no long work of the host in them, nothing tried out",
)
ACTION = (
    "Keep shapes: pad or bucket the inputs, generate with a static KV cache; else set "
    "torch.backends.cudnn.benchmark=False and torch.backends.cuda.enable_cudnn_sdp(False)."
)


def offer(m: Measurements) -> Offer | None:
    """Where cuDNN gets operators of new shapes from step to step."""
    return Offer(ACTION, SCENARIO) if new_shapes(m, PREPARED) is not None else None


REMEDY = Remedy("fixed_shapes", "host", "new-shapes", offer)
