"""Graph breaks in a trace: the host time between the graph before a break and the one after it, and what it costs.

The function that goes on after a break is compiled for itself and runs inside the region of the broken one. Between the
last graph before it and its own first graph the host does what the break is for (a print, a read of a value), and what
it takes to leave compiled code and to enter it again; in training, the backward has the same seam. All of it goes when
the break goes.
"""

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from traceanalyzer.analysis.algebra.intervals import IntervalSet, contains, measure, union
from traceanalyzer.analysis.time.timed import Timed
from traceanalyzer.base.figures import ms
from traceanalyzer.base.frozen import dataclass
from traceanalyzer.replay.compile.regions import CompiledCode, Ranges
from traceanalyzer.replay.tape import Tape
from traceanalyzer.trace import F64, I64


@dataclass(frozen=True, eq=False)
class Seam:
    """The host windows of the breaks between two compiled functions."""

    before: str
    """Compile id of the broken function."""
    after: str
    """Compile id of what goes on."""
    start: I64
    end: I64
    forward: int
    """How many of the windows are in the forward: so often was the break met."""


def seams(code: CompiledCode) -> list[Seam]:
    """The seams of a trace, in the order in which they are first met."""
    found: dict[tuple[str, str], list[tuple[int, int]]] = {}
    keys: dict[str, set[str]] = {}
    regions, bodies = code.regions, code.bodies
    for outer, nested in _nested(regions):
        before, after = regions.text[outer], regions.text[nested]
        window = _window(regions, bodies, outer, nested)
        if window is not None:
            found.setdefault((before, after), []).append(window)
    owner = _region_of_body(regions, bodies)
    for index, region in enumerate(owner):
        if region >= 0 and bodies.text[index]:
            keys.setdefault(regions.text[region], set()).add(bodies.text[index])
    result = []
    for (before, after), windows in found.items():
        back = _backward(code, before, after, len(windows))
        start, end = zip(*windows, *back, strict=True)
        result.append(Seam(before, after, np.array(start, np.int64), np.array(end, np.int64), len(windows)))
    return result


def _nested(regions: Ranges) -> Iterable[tuple[int, int]]:
    """Pairs of a region and one directly in it, on one thread."""
    open_: dict[int, list[int]] = {}
    for index in range(len(regions)):
        stack = open_.setdefault(int(regions.thread[index]), [])
        while stack and regions.end[stack[-1]] <= regions.start[index]:
            stack.pop()
        if stack and regions.end[index] <= regions.end[stack[-1]]:
            yield stack[-1], index
        stack.append(index)


def _window(regions: Ranges, bodies: Ranges, outer: int, nested: int) -> tuple[int, int] | None:
    """From the end of the last graph before the nested region to the start of the first one in it."""
    on_thread = bodies.thread == regions.thread[outer]
    earlier = on_thread & (bodies.start >= regions.start[outer]) & (bodies.end <= regions.start[nested])
    inside = on_thread & (bodies.start >= regions.start[nested]) & (bodies.end <= regions.end[nested])
    start = int(bodies.end[earlier].max()) if earlier.any() else int(regions.start[outer])
    end = int(bodies.start[inside].min()) if inside.any() else int(regions.end[nested])
    return (start, end) if end > start else None


def _region_of_body(regions: Ranges, bodies: Ranges) -> list[int]:
    """The innermost region that each graph's call lies in, -1 none (a backward)."""
    result = []
    for index in range(len(bodies)):
        around = (
            (regions.thread == bodies.thread[index])
            & (regions.start <= bodies.start[index])
            & (regions.end >= bodies.end[index])
        )
        inside = np.flatnonzero(around)
        result.append(int(inside[np.argmax(regions.start[inside])]) if len(inside) else -1)
    return result


def _backward(code: CompiledCode, before: str, after: str, count: int) -> list[tuple[int, int]]:
    """The seam of the backward, met as often as the forward's: between the backward of what goes on and that of the
    broken function, which are paired as autograd pairs them (by sequence number)."""
    ranges, texts = code.joined.trace.host_ranges, code.joined.trace.strings
    forward = [i for i, t in enumerate(texts) if t == "CompiledFunction"]
    backward = [i for i, t in enumerate(texts) if t == "CompiledFunctionBackward"]
    if not forward or not backward:
        return []
    rows_f = np.flatnonzero(np.isin(ranges.name, forward) & (ranges.sequence >= 0))
    rows_b = np.flatnonzero(np.isin(ranges.name, backward) & (ranges.sequence >= 0))
    region = _innermost_region(code, rows_f)
    sequences = {
        int(ranges.sequence[row]): code.regions.text[r]
        for row, r in zip(rows_f.tolist(), region, strict=True)
        if r >= 0
    }
    order = rows_b[np.argsort(ranges.start[rows_b])]
    windows = []
    for one, other in zip(order[:-1].tolist(), order[1:].tolist(), strict=True):
        pair = (sequences.get(int(ranges.sequence[one])), sequences.get(int(ranges.sequence[other])))
        if pair == (after, before) and ranges.thread[one] == ranges.thread[other]:
            windows.append((_last_end(code, one), _first_start(code, other)))
    return [window for window in windows if window[1] > window[0]][:count]


def _innermost_region(code: CompiledCode, rows: I64) -> list[int]:
    ranges, regions = code.joined.trace.host_ranges, code.regions
    result = []
    for row in rows.tolist():
        around = (regions.thread == ranges.thread[row]) & (regions.start <= ranges.start[row])
        inside = np.flatnonzero(around & (regions.end >= ranges.end[row]))
        result.append(int(inside[np.argmax(regions.start[inside])]) if len(inside) else -1)
    return result


def _last_end(code: CompiledCode, row: int) -> int:
    """When the last graph in a host range ended; the range's end where it holds none."""
    inside = _calls_in(code, row)
    return int(code.calls.end[inside].max()) if len(inside) else int(code.joined.trace.host_ranges.end[row])


def _first_start(code: CompiledCode, row: int) -> int:
    inside = _calls_in(code, row)
    return int(code.calls.start[inside].min()) if len(inside) else int(code.joined.trace.host_ranges.start[row])


def _calls_in(code: CompiledCode, row: int) -> I64:
    ranges, calls = code.joined.trace.host_ranges, code.calls
    inside = (calls.thread == ranges.thread[row]) & (calls.start >= ranges.start[row]) & (calls.end <= ranges.end[row])
    return np.flatnonzero(inside)


def idle_in(timed: Timed, windows: IntervalSet) -> float:
    """GPU idle time of a mean steady step for which the host was in these windows, ms.

    While the GPU waits for an op, what the host does holds it up, one launch latency earlier: each gap before an op
    that was launched late is moved by the op's launch latency onto the host's time.
    """
    if timed.device is None or not len(windows.start):
        return 0.0
    steps = timed.steps
    gaps = timed.activity[timed.device].gaps
    device = np.flatnonzero(timed.trace.device_ops.device == timed.device)
    starts = timed.trace.device_ops.start[device]
    following = device[np.minimum(np.searchsorted(starts, gaps.end), len(device) - 1)]
    launched = timed.linked.launch_time[following]
    latency = np.where(launched >= 0, np.maximum(gaps.end - launched, 0), 0)
    steady = (steps.of_op[following] >= steps.warmup) & (launched >= 0)
    held = measure(windows, (gaps.start - latency)[steady], (gaps.end - latency)[steady])
    return ms(float(held.sum())) / steps.steady_count


def without_windows(tape: Tape, windows: IntervalSet) -> Tape | None:
    """The tape without the host's time in these windows, and without the waits and copies in them; None where none of
    them is on the tape."""
    calls = tape.source.trace.api_calls
    at = calls.start[tape.call]
    before = np.append(at[:1], at[:-1])
    length = np.maximum(at - before, 1)
    share = 1.0 - np.minimum(measure(windows, before, at) / length, 1.0)
    inside = contains(windows, at)
    if not (share < 1.0).any() and not inside.any():
        return None
    gone = inside[tape.event] & tape.copy
    zero = np.zeros_like(tape.duration)
    return replace(
        tape,
        dispatch=_less(tape.dispatch, share),
        work=_less(tape.work, share),
        loading=_less(tape.loading, share),
        reading=_less(tape.reading, share),
        sending=_less(tape.sending, share),
        profiling=_less(tape.profiling, share),
        waits=tape.waits & ~inside,
        duration=np.where(gone, zero, tape.duration),
        gap=np.where(gone, zero, tape.gap),
        latency=np.where(gone, zero, tape.latency),
    )


def _less(time: I64, share: F64) -> I64:
    return (time * share).astype(np.int64)


def window_set(found: Iterable[Seam]) -> IntervalSet:
    """The windows of seams as one set of times."""
    each = list(found)
    if not each:
        return union(np.zeros(0, np.int64), np.zeros(0, np.int64))
    return union(np.concatenate([s.start for s in each]), np.concatenate([s.end for s in each]))
