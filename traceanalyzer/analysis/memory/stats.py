"""Memory in the figures of a report: of a snapshot where one was recorded, else of a trace's allocator events."""

from __future__ import annotations

import numpy as np

from traceanalyzer.analysis.memory.measure import MemoryOfDevice
from traceanalyzer.base.figures import metric
from traceanalyzer.base.frozen import dataclass
from traceanalyzer.trace import MemoryEvents


@dataclass(frozen=True)
class MemoryStats:
    """GPU memory of the device that holds the most."""

    peak: int | None = metric("most bytes allocated; null where totals were not recorded", "bytes")
    reserved: int | None = metric("most bytes reserved by the allocator; null where not recorded", "bytes")
    forward: int | None = metric("most bytes allocated in the forward pass; null without a snapshot", "bytes")
    backward: int | None = metric("most bytes allocated in the backward pass; null without a snapshot", "bytes")
    optimizer: int | None = metric("most bytes allocated in the optimizer; null without a snapshot", "bytes")
    growth_per_step: float | None = metric(
        "growth of what stays allocated; null without five steps in a snapshot", "bytes"
    )


def stats_of_snapshot(devices: tuple[MemoryOfDevice, ...]) -> MemoryStats | None:
    """The figures of a snapshot's fullest GPU; None where it holds none."""
    if not devices:
        return None
    top = max(devices, key=lambda device: device.peak_bytes)
    phases = top.phase_peaks
    return MemoryStats(
        top.peak_bytes,
        top.reserved_bytes,
        phases.get("forward"),
        phases.get("backward"),
        phases.get("optimizer"),
        top.growth.bytes_per_step,
    )


def stats_of_events(events: MemoryEvents) -> MemoryStats | None:
    """The figures of a trace's allocator events on GPUs; None where there are none."""
    on_gpu = events.device >= 0
    if not on_gpu.any():
        return None
    peak, reserved = (int(np.max(column[on_gpu])) for column in (events.allocated, events.reserved))
    if peak <= 0 and reserved <= 0:
        return None
    return MemoryStats(peak if peak > 0 else None, reserved if reserved > 0 else None, None, None, None, None)
