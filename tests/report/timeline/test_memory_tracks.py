"""Memory over time: bounded, and no peak lost."""

from __future__ import annotations

import numpy as np

from traceanalyzer.report.timeline.distributions import MAX_MEMORY_POINTS, memory_tracks
from traceanalyzer.trace import MemoryEvents


def recorded(**columns):
    return MemoryEvents.from_columns(columns)


def test_each_device_has_its_own_track():
    events = recorded(
        start=[0, 10, 20], device=[0, -1, 0], allocated=[5, 7, 9], reserved=[20, 0, 20]
    )
    host, gpu = memory_tracks(events)
    assert (host.device, host.peak, host.events) == (-1, 7, 1)
    assert (gpu.device, gpu.time.tolist(), gpu.allocated.tolist(), gpu.peak) == (
        0,
        [0, 20],
        [5, 9],
        9,
    )


def test_without_totals_there_is_nothing_to_draw():
    assert memory_tracks(recorded(start=[1], device=[0], bytes=[64])) == []
    assert memory_tracks(MemoryEvents.empty()) == []


def test_however_many_events_the_track_is_short_and_keeps_its_peak():
    count = 50_000
    allocated = np.arange(count) % 1_000
    allocated[31_415] = 1_000_000
    (track,) = memory_tracks(
        recorded(start=np.arange(count) * 7, device=np.zeros(count), allocated=allocated)
    )
    assert len(track.time) <= MAX_MEMORY_POINTS + 1
    assert track.peak == 1_000_000
    assert (np.diff(track.time) > 0).all()
    assert track.events == count
