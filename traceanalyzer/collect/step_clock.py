"""Times steps without a profiler: a clock reading a step, a CUDA event every few milliseconds, waits at both ends."""

from __future__ import annotations

import time
from itertools import pairwise
from typing import Any

from traceanalyzer.collect import cuda
from traceanalyzer.collect.summary import summarize

NS_PER_MS = 1e6

EVENT_EVERY_NS = 10_000_000
"""An event costs the host up to 25 us, 3 % of a launch-bound step of 0.8 ms: so short steps share one."""


class StepClock:
    """Times `steps` consecutive steps: call `start` at the end of a step, then `lap` at the end of each."""

    def __init__(self, steps: int) -> None:
        self._steps = steps
        self._walls: list[int] = []
        self._spare: list[Any] = []
        self._marks: list[tuple[int, Any]] = []
        self._marked_ns = 0
        self._finished_ns = 0

    def start(self) -> None:
        """Wait for the device, then take the first reading."""
        self._spare = cuda.timing_events(self._steps + 1)
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
        now, laps = time.perf_counter_ns(), len(self._walls)
        self._walls.append(now)
        if self._spare and (laps in (0, self._steps) or now - self._marked_ns >= EVENT_EVERY_NS):
            event = self._spare.pop()
            event.record()
            self._marks.append((laps, event))
            self._marked_ns = now

    def measured(self) -> dict[str, Any]:
        """What was timed, ms a step. `step_time_ms` is the figure to trust.

        It is the median between CUDA events where there are any: the host runs ahead of a busy GPU, so its own
        readings say when work was queued. Steps that share an event count with their mean. `wall_mean_ms` is a
        stopwatch from first to last reading, both waited for.
        """
        laps = len(self._walls) - 1
        host = [(b - a) / NS_PER_MS for a, b in pairwise(self._walls)]
        device = [
            begin.elapsed_time(end) / (last - first)
            for (first, begin), (last, end) in pairwise(self._marks)
            for _ in range(first, last)
        ]
        return {
            "steps": laps,
            "step_time_ms": summarize(device or host)["median"],
            "clock": "cuda_events" if device else "host",
            "wall_mean_ms": (self._finished_ns - self._walls[0]) / laps / NS_PER_MS,
            "host_ms": summarize(host),
            "cuda_ms": summarize(device) or None,
        }
