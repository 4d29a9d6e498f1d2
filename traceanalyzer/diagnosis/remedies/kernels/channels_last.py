"""Convolutions in the layout that their kernels want."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceanalyzer.analysis.replay.changes.kernels import SPACE, changes_layout, channels_last, dimensions
from traceanalyzer.analysis.replay.scenarios import Scenario
from traceanalyzer.diagnosis.remedies.program import tape_of
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


VIDEO = "Use channels-last: model.to(memory_format=torch.channels_last_3d), and the inputs, too."
LEAST_GAIN = 0.04
"""Other kernels come with the other layout: for few channels, or groups of them, slower ones."""


def offer(m: Measurements) -> Offer | None:
    """Wherever a library changes layouts around its convolutions over planes, or over space."""
    tape = tape_of(m)
    if tape is None or not changes_layout(tape).any():
        return None
    space = (dimensions(tape) == SPACE) & changes_layout(tape)
    return Offer(VIDEO if space.any() else ACTION, SCENARIO)


REMEDY = Remedy("channels_last", "memory", "channels-last", offer, LEAST_GAIN)
