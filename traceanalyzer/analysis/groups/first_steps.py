"""The first steps of a process apart from the steady ones: what compilation, loading of kernels and
a growing allocator cost at each start, and when compiled code has made up for it."""

import math
from typing import NamedTuple

import numpy as np

from traceanalyzer.analysis.time.steps import count_warmup
from traceanalyzer.analysis.time.timed import Timed
from traceanalyzer.base import NS_PER_MS, dataclass, metric
from traceanalyzer.trace import I64, Stopwatch


class PaidBack(NamedTuple):
    """After how many steps, and the range; None for never."""

    steps: int | None
    low: int | None
    high: int | None

    def __str__(self) -> str:
        if self.low is None:
            return "never paid back"
        if self.steps is None:
            return f"paid back after {self.low:,} steps at the earliest, perhaps never"
        after = f"paid back after {self.steps:,} {'step' if self.steps == 1 else 'steps'}"
        if self.high is None:
            return f"{after} ({self.low:,} or more, perhaps never)"
        return after if self.low == self.high else f"{after} ({self.low:,} to {self.high:,})"


NEVER = PaidBack(None, None, None)


@dataclass(frozen=True)
class FirstSteps:
    """The slow first steps of a process."""

    source: str = metric(
        "whether they were `timed` without the profiler, `recorded` or `logged`", text="own"
    )
    first_ms: float = metric("the first step")
    steady_ms: float = metric("a steady step, from the same source")
    steps: int = metric("first steps that take much longer than a steady one")
    excess_ms: float = metric("time beyond that of as many steady steps")
    eager_ms: float | None = metric(
        "a steady step with torch.compile switched off; null where none was timed (collect "
        "torch --eager-steps N)",
        default=None,
    )
    compiled_ms: float | None = metric(
        "a step with it on, timed just before; null where the other is", default=None
    )
    pays_after_steps: int | None = metric(
        "steps after which compiled code, faster than the eager step, has made up "
        "for the excess; null where it never does, or no eager step was "
        "timed",
        default=None,
    )
    pays_low: int | None = metric(
        "low end of its 90 % range; null where it never does", default=None
    )
    pays_high: int | None = metric("high end of it; null where it may be never", default=None)


def _first_run(numbers: I64) -> int:
    """How many steps a log has before its counter starts again: those after it are of another run
    or epoch."""
    starts = np.flatnonzero(np.diff(numbers) < 0)
    return int(starts[0]) + 1 if len(starts) else len(numbers)


def first_steps(timed: Timed) -> FirstSteps | None:
    """The first steps as far as they are known; None where no slow one is."""
    steps = timed.steps
    watch = timed.trace.stopwatch
    log = timed.trace.step_timings
    if watch is not None and watch.first_ns:
        steady = np.full(len(watch.first_ns), watch.step_ns, np.int64)
        return _of("timed", np.append(watch.first_ns, steady), timed)
    if timed.trace.only_step_times and not log.of_server:
        rows = log.duration > 0
        begins = (
            bool(rows.any()) and log.step[rows][0] <= 1
        )  # one that begins later was resumed, or left some out
        until = _first_run(log.step[rows])
        return _of("logged", log.duration[rows][:until], timed) if begins else None
    if not steps.found or not (steps.warmup or getattr(watch, "from_first", False)):
        return None  # what comes before the first launch may be the recorder's start
    return _of(
        "recorded", np.append(steps.end[0] - begin_of_first(timed), steps.duration[1:]), timed
    )


def _of(source: str, duration: I64, timed: Timed) -> FirstSteps | None:
    """The slow first of all known steps, ns; compiled and eager steps are those that the stopwatch
    timed."""
    slow = count_warmup(duration)
    watch = timed.trace.stopwatch
    if not slow:
        return None
    steady_ns = float(np.median(duration[slow:]))
    excess_ns = float(duration[:slow].sum()) - slow * steady_ns
    figures = (float(duration[0]) / NS_PER_MS, steady_ns / NS_PER_MS, slow, excess_ns / NS_PER_MS)
    if watch is None or watch.eager_ns is None:
        return FirstSteps(source, *figures)
    pays = paid_back(excess_ns, *saved_of(watch))
    return FirstSteps(
        source, *figures, watch.eager_ns / NS_PER_MS, watch.step_ns / NS_PER_MS, *pays
    )


def saved_of(watch: Stopwatch) -> tuple[float, float]:
    """What compiled code saves in a step, and half of its 90 % interval, ns; nothing where no eager
    step was timed."""
    if watch.eager_ns is None:
        return 0.0, 0.0
    reach = (
        0.0 if watch.low_ns is None or watch.high_ns is None else (watch.high_ns - watch.low_ns) / 2
    )
    return watch.eager_ns - watch.step_ns, math.hypot(reach, watch.eager_reach_ns)


def paid_back(cost: float, saved: float, reach: float) -> PaidBack:
    """When `saved` a step, give or take its reach, has made up for the cost."""
    rates = saved, saved + reach, saved - reach
    return PaidBack(*(math.ceil(cost / rate) if rate > 0 else None for rate in rates))


def begin_of_first(timed: Timed) -> int:
    """When the host began with the first step, or earlier work of the GPU ended. Steps are counted
    without the idle time before the first launch; here it is what a first step costs."""
    steps = timed.steps
    ops = timed.trace.device_ops
    own = ops.start[steps.of_op == 0]
    earlier = ops.end[ops.start < own.min()] if len(own) else own
    begin = int(steps.host_start[0])
    drained = int(earlier.max(initial=begin))
    return min(drained, int(steps.start[0]))
