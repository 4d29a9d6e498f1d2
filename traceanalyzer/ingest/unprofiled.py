"""What a capture knows of the step without the profiler: a stopwatch, and a light recording of a few steps.

`unprofiled.rank{N}.json` and `light.rank{N}.json.gz`; docs/inputs.md has their fields.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.figures import digits
from traceanalyzer.ingest.detect import detect
from traceanalyzer.ingest.side_files import is_number
from traceanalyzer.ingest.stream import head_of
from traceanalyzer.trace import LightRecording, Stopwatch

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from traceanalyzer.trace import I64, DeviceOps, Trace

NS_PER_MS = 1e6

SHORTEST_MS, LONGEST_MS = 1e-3, 7 * 86_400e3
"""No step takes less than a microsecond or more than a week."""

UNSTEADY_SPREAD = 0.5
"""From the fastest step to all but the slowest twentieth, in parts of the median: within that a median of steps that
never settled is nearer to other runs than the replay (0.87 to 1.11 of theirs in ten captures, replays 0.93 to 2.0)."""

ODD_FAST_SHARE = 0.25
"""Captures that do not say whether they were steady: a step four times faster than the median is no noise."""

FASTER_SHARE = 0.9
"""A recorded step this much faster than the fastest that the stopwatch allows was not the step that it timed."""

_STEP_ENDS = re.compile(rb'"traceanalyzer_light"\s*:\s*(\{[^{}]{0,100000}\})')
_UNIT = re.compile(rb'"traceanalyzer_step"\s*:\s*("(?:[^"\\]|\\.){0,1000}")')


def stopwatch_of(values: dict[str, Any], ranks: Iterable[dict[str, Any]] = ()) -> Stopwatch | None:
    """The stopwatch that an `unprofiled.rank{N}.json` holds, None where it holds no step time. Steps that never settled
    count only if those of the `ranks` of the run do."""
    step_ns = _ns(values.get("step_time_ms"))
    if step_ns is None:
        return None
    low, high = _ns(values.get("low_ms")), _ns(values.get("high_ms"))
    known = low is not None and high is not None and low <= step_ns <= high
    steady, unit = _steady(values), values.get("unit")
    around = None if steady or not all(map(_near_each_other, ranks)) else _around(values, step_ns)
    return Stopwatch(
        step_ns=step_ns,
        low_ns=around[0] if around else low if known else None,
        high_ns=around[1] if around else high if known else None,
        steady=steady or around is not None,
        after_profiler=values.get("after_profiler") is True and values.get("clock") == "cuda_events",
        unit=unit if isinstance(unit, str) else None,
    )


def _ns(value: Any) -> int | None:
    return round(value * NS_PER_MS) if is_number(value) and SHORTEST_MS <= value <= LONGEST_MS else None


def _steady(values: dict[str, Any]) -> bool:
    stated = values.get("steady")
    if isinstance(stated, bool):
        return stated
    host = values.get("host_ms")
    fastest, middle = (_ns(host.get(name)) for name in ("min", "median")) if isinstance(host, dict) else (None, None)
    return fastest is None or middle is None or fastest >= ODD_FAST_SHARE * middle


def _near_each_other(values: dict[str, Any]) -> bool:
    step_ns = _ns(values.get("step_time_ms"))
    return step_ns is None or _steady(values) or _around(values, step_ns) is not None


def _around(values: dict[str, Any], step_ns: int) -> tuple[int, int] | None:
    """The fastest of steps that never settled and all but the slowest twentieth, ns, where they are near each other."""
    host = values.get("host_ms")
    fastest, slow = (_ns(host.get(name)) for name in ("min", "p95")) if isinstance(host, dict) else (None, None)
    if fastest is None or slow is None or not fastest <= step_ns <= slow:
        return None
    return (fastest, slow) if slow - fastest <= UNSTEADY_SPREAD * step_ns else None


def light_of(path: Path) -> LightRecording | None:
    """The steps of a light recording, None where the file is damaged or holds no two steps with device work."""
    try:
        head = head_of(path)
        traces = detect(path).read(path)
    except (TraceAnalyzerError, OSError):
        return None
    ends = _step_ends(head)
    trace = traces[0]
    if ends is None or len(traces) > 1 or not len(trace.device_ops):
        return None
    windows = _windows(trace, ends - trace.epoch_ns)
    if not windows:
        return None
    ops = trace.device_ops.take(trace.device_ops.device == _busiest(trace.device_ops))
    step = np.array([end - begin for begin, end in windows])
    busy = np.array([_busy_ns(ops, begin, end) for begin, end in windows])
    step_ns, busy_ns, idle_ns = (round(float(np.median(values))) for values in (step, busy, step - busy))
    return LightRecording(len(windows), step_ns, busy_ns, idle_ns, unit=_unit(head))


def _step_ends(head: bytes) -> I64 | None:
    """When steps ended, ns since the epoch; the first is the end of the step before the first recorded one."""
    found = _STEP_ENDS.search(head)
    try:
        ends = msgspec.json.decode(found[1], type=dict[str, list[int]])["step_ends_ns"] if found else []
        times = np.array(ends, np.int64)
    except (msgspec.DecodeError, UnicodeDecodeError, KeyError, OverflowError):
        return None
    return times if len(times) > 2 and bool(np.all(np.diff(times) > 0)) else None


def _unit(head: bytes) -> str | None:
    found = _UNIT.search(head)
    try:
        return msgspec.json.decode(found[1], type=str) if found else None
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def _busiest(ops: DeviceOps) -> int:
    devices, first = np.unique(ops.device, return_inverse=True)
    return int(devices[np.argmax(np.bincount(first, weights=ops.end - ops.start))])


def _windows(trace: Trace, ends: I64) -> list[tuple[int, int]]:
    """From each step's first device op to the next step's: an op belongs to the step in which it was launched."""
    ops, calls = trace.device_ops, trace.api_calls
    ops = ops.take((ops.device == _busiest(ops)) & (ops.correlation >= 0))
    if not len(ops) or not len(calls):
        return []
    order = np.argsort(calls.correlation, kind="stable")
    at = np.minimum(np.searchsorted(calls.correlation, ops.correlation, sorter=order), len(calls) - 1)
    launched = calls.correlation[order[at]] == ops.correlation
    step = np.searchsorted(ends, calls.start[order[at]], side="right") - 1
    first = [ops.start[launched & (step == number)] for number in range(len(ends) - 1)]
    return [(int(a[0]), int(b[0])) for a, b in pairwise(first) if len(a) and len(b) and a[0] < b[0]]


def _busy_ns(ops: DeviceOps, begin: int, end: int) -> int:
    """Union of the ops inside the window, ns."""
    start, stop = np.clip(ops.start, begin, end), np.clip(ops.end, begin, end)
    reached = np.maximum.accumulate(np.concatenate(([begin], stop)))
    idle = np.maximum(np.concatenate((start, [end])) - reached, 0).sum()
    return end - begin - int(idle)


def contradiction(stopwatch: Stopwatch, light: LightRecording | None) -> str | None:
    """Why the stopwatch's figure is not the step time without the profiler, None where nothing speaks against it."""
    ms = stopwatch.step_ns / NS_PER_MS
    if stopwatch.after_profiler:
        return (
            f"Steps without the profiler ({digits(ms)} ms) were timed after another profile, which leaves the host "
            "slower."
        )
    if not stopwatch.steady:
        return f"Steps without the profiler were not steady (median {digits(ms)} ms): how long one takes is not known."
    if light is None:
        return None
    if light.unit and stopwatch.unit and light.unit != stopwatch.unit:
        return f"The timed step was a {stopwatch.unit}, the recorded one a {light.unit}: they cannot be compared."
    if light.step_ns < FASTER_SHARE * (stopwatch.low_ns or stopwatch.step_ns):
        recorded = light.step_ns / NS_PER_MS
        return (
            f"Recorded steps ({digits(recorded)} ms) were faster than those timed without the profiler "
            f"({digits(ms)} ms)."
        )
    return None
