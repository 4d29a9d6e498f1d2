"""Work of the host moved out of the step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceanalyzer.analysis.replay.changes.warmup import no_work_of_its_own
from traceanalyzer.analysis.replay.scenarios import Scenario
from traceanalyzer.diagnosis.remedies.remedy import Offer, Remedy

if TYPE_CHECKING:
    from traceanalyzer.analysis.measure import Measurements

SCENARIO = Scenario(
    "move_host_work",
    no_work_of_its_own,
    "no host work between launches but dispatch, what has a name of its own (allocation, first use, compilation), and "
    "pauses of PyTorch, which are short and few",
    missing="no long stretches of the program's own work between launches",
)
ACTION = (
    "Take Python work out of the step: logging, metrics and I/O to another thread or once every 100 steps; record "
    "with_stack=True to see the lines."
)


def offer(m: Measurements) -> Offer | None:
    """Where the GPU idles while the host works."""
    return Offer(ACTION, SCENARIO) if m.step.idle is not None and m.step.idle.host > 0 else None


LEAST_GAIN = 0.1
"""Pauses of a tenth of a millisecond occur in any eager program: threads that hand over, Python that collects."""
REMEDY = Remedy("move_host_work", "host", "host-work", offer, LEAST_GAIN)
