"""Times steps without a profiler: two clock readings and one CUDA event a step, a wait only at both ends."""

from __future__ import annotations

import time
from itertools import pairwise
from typing import Any

from traceanalyzer.collect import cuda
from traceanalyzer.collect.summary import summarize

NS_PER_MS = 1e6


class StepClock:
    """Times `steps` consecutive steps: call `start` at the end of a step, then `lap` at the end of each."""

    def __init__(self, steps: int) -> None:
        self._steps = steps
        self._walls: list[int] = []
        self._events: list[Any] = []
        self._finished_ns = 0

    def start(self) -> None:
        """Wait for the device, then take the first reading."""
        self._events = cuda.timing_events(self._steps + 1)
        self._read()

    def lap(self) -> bool:
        """A step has ended; True when it was the last one to time."""
        self._read()
        if len(self._walls) <= self._steps:
            return False
        cuda.synchronize()
        self._finished_ns = time.perf_counter_ns()
        return True

    def _read(self) -> None:
        if self._events:
            self._events[len(self._walls)].record()
        self._walls.append(time.perf_counter_ns())

    def measured(self) -> dict[str, Any]:
        """What was timed, ms a step. `step_time_ms` is the figure to trust.

        It is the median between CUDA events where there are any: the host runs ahead of a busy GPU, so its own
        readings say when work was queued. `wall_mean_ms` is a stopwatch from first to last reading, both waited for.
        """
        laps = len(self._walls) - 1
        host = [(b - a) / NS_PER_MS for a, b in pairwise(self._walls)]
        events = self._events[: laps + 1]
        device = [a.elapsed_time(b) for a, b in pairwise(events)]
        return {
            "steps": laps,
            "step_time_ms": summarize(device or host)["median"],
            "clock": "cuda_events" if device else "host",
            "wall_mean_ms": (self._finished_ns - self._walls[0]) / laps / NS_PER_MS,
            "host_ms": summarize(host),
            "cuda_ms": summarize(device) or None,
        }
