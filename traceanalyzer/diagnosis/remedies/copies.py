"""Copies between host and device: ahead of the step, from pinned memory, or not at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceanalyzer.analysis.replay.loading import copied_ahead, kept_on_device, pinned
from traceanalyzer.analysis.replay.scenarios import Scenario
from traceanalyzer.diagnosis.remedies.program import program
from traceanalyzer.diagnosis.remedies.remedy import Offer, Remedy

if TYPE_CHECKING:
    from traceanalyzer.analysis.measure import Measurements

AHEAD = Scenario(
    "copy_ahead",
    copied_ahead,
    "input is copied from pinned memory on a stream of its own while the step before computes: the step takes the "
    "longer of its copies and the rest",
    missing="no data is copied to the GPU",
)
PINNED = Scenario(
    "pinned_memory",
    pinned,
    "copies from pageable memory run at the rate of the link, and the host does not wait for them",
    missing="nothing is copied from pageable memory",
)
KEPT = Scenario(
    "keep_on_device",
    kept_on_device,
    "what goes to the host and comes back in the same step stays on the GPU",
    missing="nothing is copied to the host and back",
)


def _ahead(m: Measurements) -> Offer:
    """Wherever data is copied to the GPU."""
    how = "x.to(device, non_blocking=True) from pinned memory under torch.cuda.stream(side), one batch ahead"
    return Offer(f"Copy ahead: {how if program(m).pytorch else 'asynchronous copies on a second stream'}.", AHEAD)


def _pinned(m: Measurements) -> Offer:
    """Wherever data is copied from pageable memory."""
    how = "DataLoader(pin_memory=True) or tensor.pin_memory(), then .to(device, non_blocking=True)"
    return Offer(f"Pin host memory: {how if program(m).pytorch else 'cudaHostAlloc or cudaHostRegister'}.", PINNED)


def _kept(m: Measurements) -> Offer:
    """Wherever as many bytes go out and come back."""
    return Offer("Keep the tensors on the GPU: compute there instead of .cpu() and back, or cache them once.", KEPT)


COPY_AHEAD = Remedy("copy_ahead", "transfer", "exposed-copies", _ahead)
PINNED_MEMORY = Remedy("pinned_memory", "transfer", "exposed-copies", _pinned)
KEEP_ON_DEVICE = Remedy("keep_on_device", "transfer", "exposed-copies", _kept)
