"""What a capture knows of the step without the profiler: a stopwatch (`unprofiled.rank{N}.json`),
and a light recording of a few steps (`light.rank{N}.json.gz`); docs/inputs.md has their fields."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeGuard

import msgspec
import numpy as np

from traceanalyzer.base import NS_PER_MS, TraceAnalyzerError, digits, regex
from traceanalyzer.ingest.columns import looked_up
from traceanalyzer.ingest.detect import detect
from traceanalyzer.ingest.side_files import decoded, is_number, items, mapping
from traceanalyzer.ingest.stream import head_of
from traceanalyzer.trace import I64, AllocatorCalls, LightRecording, Stopwatch, Trace

SHORTEST_MS = 1e-3  # no step takes less than a microsecond or more than a week
LONGEST_MS = 7 * 86_400e3
ODD_FAST_SHARE = 0.25
"""Captures that do not say whether they were steady: a step four times faster than the median is no
noise."""
FASTER_SHARE = 0.9
"""A recorded step this much faster than the fastest that the stopwatch allows was not the step that
it timed."""
ROUGHLY_SHARE = 0.3
"""Steps that had not settled still tell the step, by a range, where the median's interval is no
wider than this share of it: of 26 such captures the step timed afterwards was within 25 % of it in
23, while estimates were up to twice as long."""
STEADY_SHARE = 0.05
"""To this share of it the median of steps that the collector calls steady is known."""
WITH_PAUSES = 1.1
"""From this many times the median on the mean of timed steps is told, too: of five such programs it
was nearer to what a stopwatch around many steps read in four."""
LEAST_SERIES = 10
OF_STEPS = (0.05, 0.95)
"""From this many unsteady steps on, a range is printed: between these quantiles of them."""
ALLOCATOR_CALLS = (
    "num_device_alloc",
    "num_device_free",
    "num_alloc_retries",
    "num_sync_all_streams",
)
"""What PyTorch's allocator counts, in the order of `AllocatorCalls`."""
MOST_CALLS = 10**12  # of a counter; more is damage
_STEP_ENDS = regex(rb'"traceanalyzer_light"\s*:\s*(\{[^{}]{0,100000}\})')
_UNIT = regex(rb'"traceanalyzer_step"\s*:\s*("(?:[^"\\]|\\.){0,1000}")')


def stopwatch_of(values: dict[str, Any]) -> Stopwatch | None:
    """The stopwatch that an `unprofiled.rank{N}.json` holds, None where it holds no step time."""
    step_ns = _ns(values.get("step_time_ms"))
    if step_ns is None:
        return None
    low = _ns(values.get("low_ms"))
    high = _ns(values.get("high_ms"))
    if low is None or high is None or not low <= step_ns <= high:
        low = high = None
    unit = values.get("unit")
    steady = _steady(values)
    first = list(map(_ns, items(values.get("first_steps_ms"))))
    on_device = values.get("clock") == "cuda_events"
    roughly = None if steady else _range_of_steps(values, step_ns, low, high)
    low, high = roughly or (low, high)
    return Stopwatch(
        step_ns=step_ns,
        low_ns=low,
        high_ns=high,
        steady=steady,
        roughly=roughly is not None,
        after_profiler=values.get("after_profiler") is True and on_device,
        unit=unit if isinstance(unit, str) else None,
        first_ns=() if None in first else tuple(filter(None, first)),
        from_first=values.get("from_first") is True,
        eager_ns=_ns(values.get("eager_step_ms")),
        eager_reach_ns=_eager_reach(values, step_ns),
        loader_ns=_loader(values),
        host_ns=_ns(mapping(values.get("host_ms")).get("min")) if on_device else None,
        allocator=_allocator(values),
    )


def _eager_reach(values: dict[str, Any], step_ns: int) -> int:
    """Half of the eager step's interval. Older captures have none: there it varies as the compiled
    step does."""
    low = _ns(values.get("eager_low_ms"))
    high = _ns(values.get("eager_high_ms"))
    if low is not None and high is not None:
        return max(high - low, 0) // 2
    share = 0.0 if values.get("eager_steady") is True else ROUGHLY_SHARE
    return round(max(share, STEADY_SHARE) * (_ns(values.get("eager_step_ms")) or step_ns))


def _allocator(values: dict[str, Any]) -> AllocatorCalls | None:
    """The allocator's calls in a step; None where one of them, or the number of steps, is missing."""
    counted = mapping(values.get("allocator"))
    steps = values.get("timed_steps")
    calls = list(filter(_is_count, (counted.get(name) for name in ALLOCATOR_CALLS)))
    if not is_number(steps) or steps < 1 or len(calls) < len(ALLOCATOR_CALLS):
        return None
    return AllocatorCalls(*(float(count) / steps for count in calls))


def _is_count(value: Any) -> TypeGuard[float]:
    return is_number(value) and 0 <= value <= MOST_CALLS


def _loader(values: dict[str, Any]) -> int | None:
    """How long a step waited for its batch, ns; less than a microsecond is nothing."""
    waited = values.get("loader_wait_ms")
    if not is_number(waited) or not 0 <= waited <= LONGEST_MS:
        return None
    return round(waited * NS_PER_MS)


def _range_of_steps(
    values: dict[str, Any], step_ns: int, low_ns: int | None, high_ns: int | None
) -> tuple[int, int] | None:
    """Where most of the timed steps were, ns; None where their median, whose interval is given,
    tells nothing."""
    series = map(_ns, items(values.get("series_ms")))
    times = [time_ns for time_ns in series if time_ns is not None]
    known = (
        low_ns is not None and high_ns is not None and high_ns - low_ns <= ROUGHLY_SHARE * step_ns
    )
    if len(times) < LEAST_SERIES or not known:
        return None
    low, high = (round(float(one)) for one in np.quantile(times, OF_STEPS))
    return (low, high) if low <= step_ns <= high else None


def _ns(value: Any) -> int | None:
    return (
        round(value * NS_PER_MS)
        if is_number(value) and SHORTEST_MS <= value <= LONGEST_MS
        else None
    )


def _steady(values: dict[str, Any]) -> bool:
    stated = values.get("steady")
    if isinstance(stated, bool):
        return stated
    host = mapping(values.get("host_ms"))
    fastest = _ns(host.get("min"))
    middle = _ns(host.get("median"))
    return fastest is None or middle is None or fastest >= ODD_FAST_SHARE * middle


def light_of(path: Path) -> LightRecording | None:
    """The steps of a light recording, None where the file is damaged or holds no two steps with
    device work."""
    try:
        head = head_of(path)
        traces = detect(path).read(path)
    except (TraceAnalyzerError, OSError):
        return None
    ends = _step_ends(head)
    trace = traces[0]
    if ends is None or len(traces) > 1 or not len(trace.device_ops):
        return None
    steps = _steps_ns(trace, ends - trace.epoch_ns)
    stated = _UNIT.search(head)
    unit = decoded(stated[1]) if stated else None
    return (
        LightRecording(round(float(np.median(steps))), unit if isinstance(unit, str) else None)
        if steps
        else None
    )


def _step_ends(head: bytes) -> I64 | None:
    """When steps ended, ns since the epoch; the first is the end of the step before the first
    recorded one."""
    found = _STEP_ENDS.search(head)
    try:
        ends = (
            msgspec.json.decode(found[1], type=dict[str, list[int]])["step_ends_ns"]
            if found
            else []
        )
        times = np.array(ends, np.int64)
    except (msgspec.DecodeError, UnicodeDecodeError, KeyError, OverflowError):
        return None
    return times if len(times) > 2 and bool(np.all(np.diff(times) > 0)) else None


def _steps_ns(trace: Trace, ends: I64) -> list[int]:
    """From each step's first op of the busiest device to the next step's: an op is of the step that
    launched it."""
    ops = trace.device_ops
    calls = trace.api_calls
    devices, place = np.unique(ops.device, return_inverse=True)
    busiest = devices[np.argmax(np.bincount(place, weights=ops.end - ops.start))]
    ops = ops.take((ops.device == busiest) & (ops.correlation >= 0))
    order = np.argsort(calls.correlation, kind="stable")
    launched = looked_up(
        calls.correlation[order], calls.start[order], ops.correlation, np.iinfo(np.int64).min
    )
    step = np.searchsorted(ends, launched, side="right") - 1
    first = [ops.start[step == number] for number in range(len(ends) - 1)]
    pairs = [(a[0], b[0]) for a, b in pairwise(first) if len(a) and len(b)]
    return [int(after - before) for before, after in pairs if before < after]


def unsettled(stopwatch: Stopwatch) -> str | None:
    """That a step time is that of unsteady steps, where it is."""
    times = (
        stopwatch.low_ns or stopwatch.step_ns,
        stopwatch.high_ns or stopwatch.step_ns,
        stopwatch.step_ns,
    )
    low, high, median = (digits(time / NS_PER_MS) for time in times)
    what = f"nine of ten took {low} to {high} ms; their median of {median} ms is taken for a step."
    return f"Steps without the profiler were not steady: {what}" if stopwatch.roughly else None


def pauses_left_out(values: dict[str, Any], stopwatch: Stopwatch) -> str | None:
    """That a few timed steps took far longer, which the median says nothing of: a program that runs
    for long has their time in each step."""
    timed = mapping(values.get("cuda_ms")) or mapping(values.get("host_ms"))
    mean_ns = _ns(timed.get("mean"))
    longest_ns = _ns(timed.get("max"))
    count = timed.get("count")
    if mean_ns is None or longest_ns is None or not is_number(count) or stopwatch.roughly:
        return None
    if mean_ns < WITH_PAUSES * stopwatch.step_ns:
        return None
    step, mean, longest = (
        digits(time / NS_PER_MS) for time in (stopwatch.step_ns, mean_ns, longest_ns)
    )
    return (
        f"A step without the profiler is the median, {step} ms. The mean is {mean} ms: the longest of "
        f"{count:.0f} took {longest} ms."
    )


def only_unsteady(stopwatch: Stopwatch, light: LightRecording | None, *, fed: bool) -> bool:
    """Whether nothing but unsteady steps speaks against the stopwatch's figure, whose range is
    known."""
    if stopwatch.steady or stopwatch.roughly or stopwatch.low_ns is None:
        return False
    return contradiction(replace(stopwatch, roughly=True), light, fed=fed) is None


def contradiction(
    stopwatch: Stopwatch, light: LightRecording | None, *, fed: bool = False
) -> str | None:
    """Why the stopwatch's figure is not the step time without the profiler, None where nothing
    speaks against it. Steps that are `fed` by other processes may be faster in the recording: their
    queue filled while it began."""
    ms = digits(stopwatch.step_ns / NS_PER_MS)
    if stopwatch.after_profiler:
        return (
            f"Steps without the profiler ({ms} ms) were timed after another profile, which "
            "leaves the host slower."
        )
    if not stopwatch.steady and not stopwatch.roughly:
        return (
            f"Steps without the profiler were not steady (median {ms} ms): no prediction starts from "
            "their time."
        )
    if light is None:
        return None
    if len({light.unit, stopwatch.unit} - {None, ""}) > 1:
        return (
            f"The timed step was a {stopwatch.unit}, the recorded one a {light.unit}: they "
            "cannot be compared."
        )
    if not fed and light.step_ns < FASTER_SHARE * (stopwatch.low_ns or stopwatch.step_ns):
        recorded = digits(light.step_ns / NS_PER_MS)
        return (
            f"Recorded steps ({recorded} ms) were faster than those timed without the "
            f"profiler ({ms} ms)."
        )
    return None
