"""Device code loaded before the steps that matter."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceanalyzer.analysis.replay.changes.warmup import warmed_up
from traceanalyzer.analysis.replay.scenarios import Scenario
from traceanalyzer.diagnosis.remedies.remedy import Offer, Remedy

if TYPE_CHECKING:
    from traceanalyzer.analysis.measure import Measurements

SCENARIO = Scenario(
    "warm_up",
    warmed_up,
    "no device code is loaded or compiled within the steps",
    missing="no device code is loaded within the steps",
)
ACTION = "Warm up: run every input shape once before serving or timing, or set CUDA_MODULE_LOADING=EAGER."


def offer(m: Measurements) -> Offer:
    """Wherever kernels are loaded within the steps."""
    return Offer(ACTION, SCENARIO)


REMEDY = Remedy("warm_up", "host", "host-work", offer)
