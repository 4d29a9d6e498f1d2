"""Waits of the host for the device, taken out of the step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceanalyzer.analysis.replay.changes.masks import masks_spread
from traceanalyzer.analysis.replay.changes.numbers_given_back import given_back
from traceanalyzer.analysis.replay.changes.read_runs import after_first_read
from traceanalyzer.analysis.replay.changes.syncs import all_kept, is_read, syncs_removed, values_gone
from traceanalyzer.analysis.replay.scenarios import Scenario
from traceanalyzer.diagnosis.remedies.program import program, tape_of
from traceanalyzer.diagnosis.remedies.remedy import Offer, Remedy

if TYPE_CHECKING:
    from traceanalyzer.analysis.measure import Measurements
    from traceanalyzer.analysis.replay.tape import Tape

SCENARIO = Scenario(
    "remove_syncs",
    syncs_removed,
    "the host never waits for the GPU but to copy from pageable memory; operators that only read a value are gone, and "
    "so are chains of operators that lead to nothing else; what a mask picks is all there, in one pass, and what a "
    "loop reads item by item is read once; what comes back as a number costs a launch (upper end: all values are still "
    "calculated, masks and loops stay, numbers cost two)",
    hopeful=values_gone,
    cautious=all_kept,
    missing="the host does not wait for the GPU",
)
PYTORCH = (
    "Remove the sync: keep values on the GPU (loss.detach()), and call .item(), .cpu() or print every 100 steps; "
    "replace nonzero() and masks by torch.where; drop synchronize()."
)
AT_ONCE = (
    "Read once: values.tolist() for all items, then walk through numbers in Python, without .item(), bool() or .cpu() "
    "for each; keep values that are only logged on the GPU, and drop synchronize()."
)
AS_TENSORS = (
    "Remove the sync: leave on the GPU what goes back to it as a number, as a tensor without dimensions, not .item() "
    "(x.addcmul_(p, share) for x.add_(p, alpha=share)), and test for the end every 25 rounds."
)
OF_MASKS = (
    "Remove the sync: x[mask] and nonzero() read how many values there are; use torch.where or a weighted sum over all "
    "values, or find indices once where the mask stays the same."
)
OTHER = "Remove the sync: queue work without waiting for it (events, asynchronous copies) and read results later."


def offer(m: Measurements) -> Offer:
    """Wherever the host waits."""
    if not program(m).pytorch:
        return Offer(OTHER, SCENARIO)
    tape = tape_of(m)
    if tape is None:
        return Offer(PYTORCH, SCENARIO)
    if tape.once(given_back).any():
        return Offer(AS_TENSORS, SCENARIO)
    if tape.once(after_first_read).any():
        return Offer(AT_ONCE, SCENARIO)
    return Offer(OF_MASKS if _waits_for_masks(tape) else PYTORCH, SCENARIO)


def _waits_for_masks(tape: Tape) -> bool:
    """Whether most waits are for how many values a mask picks."""
    spread = tape.once(masks_spread)
    return spread is not None and 2 * int(is_read(spread).sum()) < int(is_read(tape).sum())


LEAST_GAIN = 0.04
"""Calls that wait are host time, too; where the GPU waits for launches alone, they were hardly what held it up."""
REMEDY = Remedy("remove_syncs", "sync", "host-waits", offer, LEAST_GAIN)
