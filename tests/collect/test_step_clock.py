"""The clock of unprofiled steps, on a device whose events this test makes."""

from __future__ import annotations

import pytest

from traceanalyzer.collect import cuda, step_clock
from traceanalyzer.collect.step_clock import StepClock

HOST_AHEAD_MS = 1.5
"""How far the device of these tests is behind the host."""


class Host:
    """A host whose clock only the test moves, and the events of its device."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, device: bool) -> None:
        self.now_ms = 0.0
        self.recorded = 0
        monkeypatch.setattr(step_clock.time, "perf_counter_ns", lambda: int(self.now_ms * 1e6))
        monkeypatch.setattr(cuda, "synchronize", lambda: None)
        monkeypatch.setattr(cuda, "timing_events", lambda count: [Event(self) for _ in range(count)] if device else [])


class Event:
    def __init__(self, host: Host) -> None:
        self.host = host
        self.at_ms = 0.0

    def record(self) -> None:
        self.host.recorded += 1
        self.at_ms = self.host.now_ms + HOST_AHEAD_MS

    def elapsed_time(self, other: Event) -> float:
        return other.at_ms - self.at_ms


def timed(host: Host, steps: list[float]) -> StepClock:
    clock = StepClock(len(steps))
    clock.start()
    for number, step_ms in enumerate(steps, start=1):
        host.now_ms += step_ms
        assert clock.lap() == (number == len(steps))
    return clock


def test_long_steps_have_an_event_each(monkeypatch):
    host = Host(monkeypatch, device=True)
    measured = timed(host, [12.0, 20.0, 14.0]).measured()
    assert host.recorded == 4
    assert measured["clock"] == "cuda_events"
    assert measured["step_time_ms"] == pytest.approx(14)
    assert measured["cuda_ms"]["max"] == pytest.approx(20)
    assert measured["wall_mean_ms"] == pytest.approx(46 / 3)


def test_short_steps_share_events_and_count_with_the_mean_of_theirs(monkeypatch):
    host = Host(monkeypatch, device=True)
    measured = timed(host, [4.0, 4.0, 4.0, 1.0, 1.0]).measured()
    assert host.recorded == 3, "at the start, after 12 ms, and at the end"
    assert measured["cuda_ms"]["count"] == measured["steps"] == 5
    assert measured["step_time_ms"] == pytest.approx(4)
    assert measured["cuda_ms"]["mean"] == pytest.approx(14 / 5)
    assert measured["host_ms"]["median"] == pytest.approx(4)


def test_the_host_is_read_where_there_is_no_device(monkeypatch):
    measured = timed(Host(monkeypatch, device=False), [4.0, 2.0, 3.0]).measured()
    assert (measured["clock"], measured["cuda_ms"]) == ("host", None)
    assert measured["step_time_ms"] == pytest.approx(3)
