"""Convolutions in the layout that their kernels want."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceanalyzer.analysis.replay.changes.kernels import channels_last
from traceanalyzer.analysis.replay.scenarios import Scenario
from traceanalyzer.diagnosis.remedies.remedy import Offer, Remedy

if TYPE_CHECKING:
    from traceanalyzer.analysis.measure import Measurements

SCENARIO = Scenario(
    "channels_last",
    channels_last,
    "without the kernels that change the layout around convolutions; batch norms reach 40% of the memory's bandwidth",
    missing="no kernels change the layout around convolutions",
)
ACTION = "Use channels-last: model.to(memory_format=torch.channels_last), and the inputs, too."


def offer(m: Measurements) -> Offer:
    """Wherever a library changes layouts around its convolutions."""
    return Offer(ACTION, SCENARIO)


REMEDY = Remedy("channels_last", "memory", "channels-last", offer)
