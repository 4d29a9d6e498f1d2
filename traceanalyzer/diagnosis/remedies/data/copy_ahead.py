"""Input copied while the step before computes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceanalyzer.analysis.replay.changes.loading import copied_ahead, input_copies
from traceanalyzer.analysis.replay.scenarios import Scenario
from traceanalyzer.diagnosis.remedies.program import program
from traceanalyzer.diagnosis.remedies.remedy import Offer, Remedy

if TYPE_CHECKING:
    from traceanalyzer.analysis.measure import Measurements

SCENARIO = Scenario(
    "copy_ahead",
    copied_ahead,
    "input is copied from pinned memory on a stream of its own while the step before computes: the step takes the "
    "longer of its copies and the rest",
    missing="no data is copied to the GPU",
    hides=input_copies,
)
PYTORCH = "x.to(device, non_blocking=True) from pinned memory under torch.cuda.stream(side), one batch ahead"
OTHER = "asynchronous copies from pinned memory on a second stream, one step ahead"


def offer(m: Measurements) -> Offer:
    """Wherever data is copied to the GPU."""
    return Offer(f"Copy ahead: {PYTORCH if program(m).pytorch else OTHER}.", SCENARIO)


REMEDY = Remedy("copy_ahead", "transfer", "exposed-copies", offer)
