"""Memory of the framework's allocator over the recording, in bounded size with every peak kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from traceanalyzer.frozen import dataclass
from traceanalyzer.trace.distinct import distinct

if TYPE_CHECKING:
    from traceanalyzer.trace import I64, MemoryEvents

MAX_POINTS = 1_000
"""As many as a wide screen has pixels to tell apart."""


@dataclass(frozen=True, eq=False)
class MemoryTrack:
    """Allocated and reserved bytes of one device over time; every stretch of time shows its maximum."""

    device: int
    """CUDA ordinal, -1 for host memory."""
    time: I64
    """ns on the recording's clock."""
    allocated: I64
    reserved: I64
    """-1 where not recorded."""
    events: int
    """Allocations and frees recorded."""

    @property
    def peak(self) -> int:
        """Most bytes allocated at once."""
        return int(self.allocated.max(initial=0))


def memory_tracks(events: MemoryEvents) -> list[MemoryTrack]:
    """A track for each device whose allocator's totals were recorded, in order of device."""
    known = events.allocated >= 0
    return [
        _track(events, d, np.flatnonzero(known & (events.device == d))) for d in distinct(events.device[known]).tolist()
    ]


def _track(events: MemoryEvents, device: int, rows: I64) -> MemoryTrack:
    time = events.start[rows]
    width = max((int(time[-1]) - int(time[0])) // MAX_POINTS + 1, 1)
    _, first = np.unique((time - time[0]) // width, return_index=True)
    return MemoryTrack(
        device=device,
        time=time[first],
        allocated=np.maximum.reduceat(events.allocated[rows], first),
        reserved=np.maximum.reduceat(events.reserved[rows], first),
        events=len(rows),
    )
