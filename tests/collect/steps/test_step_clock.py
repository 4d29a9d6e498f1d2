"""The clock of unprofiled steps, on a device whose events this test makes."""

from __future__ import annotations

import pytest

from traceanalyzer.collect.host import cuda
from traceanalyzer.collect.steps import step_clock
from traceanalyzer.collect.steps.step_clock import StepClock

HOST_AHEAD_MS = 1.5
"""How far the device of these tests is behind the host."""


class Host:
    """A host whose clock only the test moves, and the events of its device."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, device: bool) -> None:
        self.now_ms = 0.0
        self.recorded = 0
        monkeypatch.setattr(step_clock.time, "perf_counter_ns", lambda: int(self.now_ms * 1e6))
        monkeypatch.setattr(cuda, "synchronize", lambda: None)
        monkeypatch.setattr(
            cuda,
            "timing_events",
            lambda count: [Event(self) for _ in range(count)] if device else [],
        )


class Event:
    def __init__(self, host: Host) -> None:
        self.host = host
        self.at_ms = 0.0

    def record(self) -> None:
        self.host.recorded += 1
        self.at_ms = self.host.now_ms + HOST_AHEAD_MS

    def query(self) -> bool:
        return True

    def elapsed_time(self, other: Event) -> float:
        return other.at_ms - self.at_ms


def timed(host: Host, steps: list[float]) -> StepClock:
    clock = StepClock(len(steps))
    clock.start()
    for number, step_ms in enumerate(steps, start=1):
        host.now_ms += step_ms
        assert clock.lap() == (number == len(steps))
    return clock


def until_steady(host: Host, steps: list[float], least: int, most: int) -> StepClock:
    """A clock that has timed steps until it said that it was done, or the steps ended."""
    clock = StepClock(least, most)
    clock.start()
    for step_ms in steps:
        host.now_ms += step_ms
        if clock.lap():
            break
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


@pytest.mark.parametrize("device", [True, False])
def test_steps_are_timed_until_they_are_steady_and_only_those_count(monkeypatch, device):
    warm_up = [57.0, 50.0, 3.0, 48.0, 40.0, 51.0, 30.0, 45.0, 20.0, 12.0]
    found = until_steady(
        Host(monkeypatch, device=device), [*warm_up, *[11.0, 11.2] * 20], 10, 30
    ).measured()
    assert found["steady"]
    assert (found["steps"], found["timed_steps"]) == (10, 20)
    assert 11.0 <= found["low_ms"] <= found["step_time_ms"] <= found["high_ms"] <= 11.2
    assert found["series_ms"][:2] == pytest.approx([57.0, 50.0])
    assert found["wall_mean_ms"] == pytest.approx(11.1)


def test_ranks_stop_at_the_same_step_whether_they_are_steady_or_not(monkeypatch):
    falling = [57.0, 50.0, 48.0, 40.0, 30.0, 20.0]
    for steps in ([*falling, *[11.0, 11.2] * 20], [11.0, 11.2] * 30, [20.0, 40.0] * 30):
        host = Host(monkeypatch, device=True)
        clock = StepClock(10, 20, exactly=True)
        clock.start()
        ended = []
        for step_ms in steps:
            host.now_ms += step_ms
            ended.append(clock.lap())
            if ended[-1]:
                break
        found = clock.measured()
        assert len(ended) == found["timed_steps"] == 20
        assert found["steady"] == (steps[0] != 20.0)
        assert found["steps"] == (15 if steps[0] == falling[0] else 20)


def test_steps_that_never_settle_are_timed_up_to_the_limit_and_said_so(monkeypatch):
    found = until_steady(Host(monkeypatch, device=True), [20.0, 40.0] * 50, 10, 30).measured()
    assert (found["steady"], found["steps"], found["timed_steps"]) == (False, 30, 30)
    assert (found["low_ms"], found["high_ms"]) == pytest.approx((20, 40))


def test_short_steps_that_share_few_events_are_judged_by_the_host(monkeypatch):
    found = until_steady(Host(monkeypatch, device=True), [1.0] * 60, 20, 60).measured()
    assert (found["steady"], found["steps"], found["clock"]) == (True, 20, "cuda_events")
    assert (found["low_ms"], found["step_time_ms"], found["high_ms"]) == pytest.approx((1, 1, 1))
