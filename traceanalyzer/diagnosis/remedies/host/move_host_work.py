"""Work of the host moved out of the step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceanalyzer.analysis.replay.changes.loading import worked_on_device
from traceanalyzer.analysis.replay.changes.warmup import made_on_device, no_work_of_its_own, nothing_before_copies
from traceanalyzer.analysis.replay.scenarios import Scenario
from traceanalyzer.diagnosis.remedies.program import may_load
from traceanalyzer.diagnosis.remedies.remedy import Offer, Remedy

if TYPE_CHECKING:
    from traceanalyzer.analysis.measure import Measurements
    from traceanalyzer.analysis.replay.tape import Tape

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


BEFORE_COPIES = Scenario(
    "move_host_work",
    nothing_before_copies,
    "the host makes nothing in the step that it then copies to the GPU (lower end: the GPU makes it, and nothing is "
    "copied), and does no other long work of its own between launches",
    hopeful=made_on_device,
    missing="the host does not work long before it copies data to the GPU",
)
ON_DEVICE = (
    "Take the host's preparation out of the step: the same in torch on the GPU instead of NumPy or Python, once before "
    "the loop, or in another thread; record with_stack=True to see the lines."
)


def _done_on_device(tape: Tape) -> Tape | None:
    """What the host does with results of the device, and what else it does of its own, is gone from the step."""
    left = worked_on_device(tape)
    return left and (no_work_of_its_own(left) or left)


OF_RESULTS = Scenario(
    "move_host_work",
    _done_on_device,
    "the GPU does what the host does with its results before it copies something back: without these copies, the waits "
    "for them, and other long work of the host between launches; what the GPU takes for it is not recorded (upper end: "
    "the copies stay)",
    cautious=no_work_of_its_own,
    missing="the host works on no results of the GPU",
)
INSTEAD = (
    "Do on the GPU, in torch, what the host does in NumPy or Python with results copied from it: nothing is copied "
    "there and back or waited for; record with_stack=True to see the lines."
)


def offer(m: Measurements) -> Offer | None:
    """Where the GPU idles while the host works, on its results or else, or prepares what no loader does."""
    replay = m.replay
    if replay is not None and replay.gain_ms(OF_RESULTS) > replay.gain_ms(SCENARIO) > 0:
        return Offer(INSTEAD, OF_RESULTS)
    if replay is not None and not may_load(m) and replay.gain_ms(BEFORE_COPIES) > replay.gain_ms(SCENARIO):
        return Offer(ON_DEVICE, BEFORE_COPIES, against=("input-wait", "input"))
    return Offer(ACTION, SCENARIO) if m.step.idle is not None and m.step.idle.host > 0 else None


LEAST_GAIN = 0.1
"""Pauses of a tenth of a millisecond occur in any eager program: threads that hand over, Python that collects."""
REMEDY = Remedy("move_host_work", "host", "host-work", offer, LEAST_GAIN)
