"""A recurrent layer in one call instead of one for each time step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceanalyzer.analysis.replay.changes.kernels import CELL_SHARE, recurrent_fused
from traceanalyzer.analysis.replay.scenarios import Scenario
from traceanalyzer.diagnosis.remedies.remedy import Offer, Remedy

if TYPE_CHECKING:
    from traceanalyzer.analysis.measure import Measurements

SCENARIO = Scenario(
    "fused_rnn",
    recurrent_fused,
    f"all time steps of a recurrent layer are one call; its kernels take {CELL_SHARE:.0%} of their time",
    missing="no recurrent cell is called time step by time step",
)
ACTION = "Call the layer once: nn.LSTM or nn.GRU on the whole sequence instead of cells in a loop."


def offer(m: Measurements) -> Offer:
    """Wherever a recurrent cell is called many times a step."""
    return Offer(ACTION, SCENARIO)


REMEDY = Remedy("fused_rnn", "launch", "launch-bound", offer)
