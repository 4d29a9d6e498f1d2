"""Times steps without a profiler until they are steady: a clock reading a step, a CUDA event every
few milliseconds.

The device is waited for at the beginning and at the end, never between."""

import math
import statistics
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

from traceanalyzer.base import NS_PER_MS, NS_PER_S
from traceanalyzer.collect.host import cuda

AGREE_SHARE = 0.05
"""The medians of the halves may be so far apart: else the series still falls or rises."""

TIGHT_SHARE = 0.05
"""Half width of the median's interval: steps that vary by 16 % get there after about 45."""

WIDE_SHARE = 0.3
"""The middle half of the steps may span so much of the median: of two kinds of steps, one twice as
long as the other, the median is well known and no step of the program."""

LEAST_SO_FAR = 5  # steps that tell a median
STRIDE = 5  # steps between two looks at the series
OUTSIDE = 0.10  # share of medians that may lie outside of their interval


DIGITS = 4  # decimals of a millisecond: CUDA events resolve half a microsecond
EVENT_EVERY_NS = 10_000_000
"""An event costs up to 25 us, 3 % of a launch-bound step of 0.8 ms: short steps share one."""
MIN_INTERVALS = 8
"""Intervals between events that say how much steps vary; with fewer the host's readings do."""


def interpolated_percentile(ordered: Sequence[float], share: float) -> float:
    """Linear interpolation between the closest ranks of sorted values (numpy's default)."""
    place = share * (len(ordered) - 1)
    low = math.floor(place)
    high = math.ceil(place)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def summarize(values: Sequence[float]) -> dict[str, float]:
    """Count, mean, median, standard deviation, extremes, p95 and p99; empty for no values."""
    if not values:
        return {}
    ordered = sorted(values)
    return {
        "count": len(ordered),
        "mean": statistics.fmean(ordered),
        "median": interpolated_percentile(ordered, 0.5),
        "std": statistics.stdev(ordered) if len(ordered) > 1 else 0.0,
        "min": ordered[0],
        "max": ordered[-1],
        "p95": interpolated_percentile(ordered, 0.95),
        "p99": interpolated_percentile(ordered, 0.99),
    }


def median(values: Sequence[float]) -> float:
    """The middle of at least one value."""
    return interpolated_percentile(sorted(values), 0.5)


def median_interval(values: Sequence[float]) -> tuple[float, float]:
    """The 90 % interval of the median between order statistics: it assumes nothing about the
    distribution.

    Fewer than 5 values cannot promise that much: their extremes. Source: David and Nagaraja, Order
    Statistics, 3rd edition, section 7.1."""
    ordered = sorted(values)
    count = len(values)
    below = 0
    tail = 0.0
    for k in range(count // 2):
        tail += math.comb(count, k) / 2**count
        if 2 * tail > OUTSIDE:
            break
        below = k
    return ordered[below], ordered[count - 1 - below]


def is_steady(values: Sequence[float], tight_share: float = TIGHT_SHARE) -> bool:
    """Whether both halves agree on the median, the median is known to `tight_share`, and most steps
    are near it."""
    if len(values) < 2:
        return False
    middle = median(values)
    half = len(values) // 2
    apart = abs(median(values[:half]) - median(values[half:]))
    if middle <= 0 or apart > AGREE_SHARE * middle or _middle_half(values) > WIDE_SHARE * middle:
        return False
    low, high = median_interval(values)
    return high - low <= 2 * tight_share * middle


def _middle_half(values: Sequence[float]) -> float:
    """What the middle half of the values spans."""
    ordered = sorted(values)
    return interpolated_percentile(ordered, 0.75) - interpolated_percentile(ordered, 0.25)


def steady_from(
    values: Sequence[float], least: int, tight_share: float = TIGHT_SHARE
) -> int | None:
    """Where the longest steady end of the series begins that has at least `least` values; None
    without one."""
    last = len(values) - least
    tried = (*range(0, last + 1, STRIDE), *([last] if last > 0 else []))
    return next((first for first in tried if is_steady(values[first:], tight_share)), None)


class StepClock:
    """Times at least `steps` consecutive steps and `least_seconds`, and up to `most` steps where they
    are not steady before; `exactly` so many, steady or not, where other ranks must stop at the same
    step. `drain` waits for a device that is not PyTorch's.

    Call `start` at the end of a step, then `lap` at the end of each."""

    def __init__(
        self,
        steps: int,
        most: int | None = None,
        *,
        exactly: bool = False,
        drain: Callable[[], None] | None = None,
        tight_share: float = TIGHT_SHARE,
        least_seconds: float = 0.0,
        seconds: float = math.inf,
    ) -> None:
        self._least = steps
        self._exactly = exactly
        self._drain = drain
        self._most = max(steps, most or steps)
        self._tight_share = tight_share
        self._least_seconds = least_seconds
        self._seconds = seconds
        self._walls: list[int] = []
        self._spare: list[Any] = []
        self._marks: list[tuple[int, Any]] = []
        self._marked_ns = 0
        self._finished_ns = 0
        self._from: int | None = None

    def start(self) -> None:
        """Wait for the device, then take the first reading."""
        self._wait()
        self._spare = cuda.timing_events(self._most + 1)
        self._read(mark=True)

    def lap(self) -> bool:
        """A step has ended; True when it was the last one to time."""
        laps = len(self._walls)
        first = self._most if self._exactly else self._least
        late = not self._exactly and self._ran_for(self._seconds)
        early = not self._exactly and not self._ran_for(self._least_seconds)
        due = (laps - first) % STRIDE == 0 and not early
        look = laps >= first and (due or laps >= self._most or late)
        self._read(mark=look)
        if not look:
            return False
        self._from = steady_from(self._variation()[0], self._least, self._tight_share)
        if self._from is None and laps < self._most and not late:
            return False
        self._wait()
        self._finished_ns = time.perf_counter_ns()
        self._from = steady_from(self._variation()[0], self._least, self._tight_share)
        return True

    def _ran_for(self, seconds: float) -> bool:
        return (time.perf_counter_ns() - self._walls[0]) / NS_PER_S > seconds

    def measured_so_far(self) -> dict[str, Any] | None:
        """`measured` of a series that ends before its last step; None for less than five steps."""
        if len(self._walls) <= LEAST_SO_FAR:
            return None
        self._wait()
        self._finished_ns = self._walls[-1]
        self._from = steady_from(self._variation()[0], LEAST_SO_FAR, self._tight_share)
        return self.measured()

    def _wait(self) -> None:
        (self._drain or cuda.synchronize)()

    def _read(self, *, mark: bool) -> None:
        now = time.perf_counter_ns()
        self._walls.append(now)
        if self._spare and (mark or now - self._marked_ns >= EVENT_EVERY_NS):
            event = self._spare.pop()
            event.record()
            self._marks.append((len(self._walls) - 1, event))
            self._marked_ns = now

    def _variation(self) -> tuple[list[float], str]:
        """The series that says how much steps vary, a value a step, and whose it is."""
        device, intervals = self._device_ms()
        if intervals >= MIN_INTERVALS:
            return device, "cuda_events"
        # a host that runs ahead of the device still shows whether its steps have settled
        return self._host_ms(), "host"

    def _host_ms(self) -> list[float]:
        return [(b - a) / NS_PER_MS for a, b in pairwise(self._walls)]

    def _device_ms(self) -> tuple[list[float], int]:
        """Time of each step on the device, as far as it has come, and the number of intervals that
        they share."""
        done = [mark for mark in self._marks if mark[1].query()]
        series = []
        for (first, begin), (last, end) in pairwise(done):
            series += [begin.elapsed_time(end) / (last - first)] * (last - first)
        return series, max(len(done) - 1, 0)

    def measured(self) -> dict[str, Any]:
        """What was timed, ms a step. `step_time_ms` is the figure to trust, where it is `steady`.

        It is the median between CUDA events where there are any: the host runs ahead of a busy GPU,
        so its own readings say when work was queued. Steps that share an event count with their
        mean. With a `drain` it is the stopwatch's mean: there are no events, and the host runs
        ahead. `low_ms` and `high_ms` are its 90 % interval. `wall_mean_ms` is a stopwatch from
        first to last reading. All of them are of the `steps` at the end of the series that are
        steady, of all `timed_steps` where there are none."""
        first = self._from or 0
        host_series = self._host_ms()
        (device_series, _) = self._device_ms()
        host = host_series[first:]
        device = device_series[first:]
        variation = self._variation()[0][first:]
        wall_mean_ms = (self._finished_ns - self._walls[first]) / len(host) / NS_PER_MS
        step_time_ms = median(device or host) if self._drain is None else wall_mean_ms
        scale = step_time_ms / (median(variation) or 1.0)
        low, high = median_interval(variation)
        return {
            "steps": len(host),
            "step_time_ms": step_time_ms,
            "steady": self._from is not None,
            "low_ms": low * scale,
            "high_ms": high * scale,
            "clock": "cuda_events" if device else "host",
            "wall_mean_ms": wall_mean_ms,
            "host_ms": summarize(host),
            "cuda_ms": summarize(device) or None,
            "timed_steps": len(host_series),
            "series_ms": [round(value, DIGITS) for value in device_series or host_series],
        }
