"""Graph breaks in a trace: the host time between the graph before a break and the one after it, and
what it costs.

The function that goes on after a break is compiled for itself and runs inside the region of the
broken one. Between the last graph before it and its own first graph the host does what the break is
for (a print, a read of a value), and leaves compiled code and enters it again; in training, the
backward has the same seam. All goes when the break goes."""

from collections import Counter
from dataclasses import replace
from itertools import chain, pairwise

import numpy as np

from traceanalyzer.analysis.algebra import IntervalSet, contains, measure, texts_where, union
from traceanalyzer.analysis.names.api import ApiKind
from traceanalyzer.analysis.time.timed import Timed
from traceanalyzer.base import dataclass, ms
from traceanalyzer.replay.changes.kernels import in_graph
from traceanalyzer.replay.compile.model import Compiled, CudaGraphUse
from traceanalyzer.replay.compile.regions import CompiledCode, TracedCompile
from traceanalyzer.replay.tape import Tape
from traceanalyzer.trace import I64, distinct
from traceanalyzer.trace.compile_log import CompileLog

Window = tuple[int, int]  # when it begins and ends, ns


@dataclass(frozen=True, eq=False)
class Seam:
    """The host windows of the breaks between two compiled functions."""

    before: str  # compile id of the broken function
    after: str  # compile id of what goes on
    start: I64
    end: I64
    forward: int  # how many of the windows are in the forward: so often was the break met


CAPTURED = (
    "replayed without the profiler: each compiled graph is one launch that costs the host "
    "nothing more"
)
UNSAID = "asked for and never recorded; the log does not say why (TORCH_LOGS=cudagraphs does)"


def graph_break_windows(code: CompiledCode) -> list[Seam]:
    """The seams of a trace, in the order in which they are first met."""
    found: dict[tuple[str, str], list[Window]] = {}
    regions = code.regions
    bodies = code.bodies
    outside = code.around(regions)[code.joined.linked.tree.parent[regions.node]]
    for nested in np.flatnonzero(outside >= 0).tolist():
        outer = int(outside[nested])
        thread = int(regions.thread[nested])
        begin = int(regions.start[outer])
        start = int(regions.start[nested])
        end = int(regions.end[nested])
        window = (
            bodies.last_end(thread, begin, start, begin),
            bodies.first_start(thread, start, end, end),
        )
        if window[1] > window[0]:
            found.setdefault((regions.text[outer], regions.text[nested]), []).append(window)
    return [_seam(code, *pair, windows) for pair, windows in found.items()]


def _seam(code: CompiledCode, before: str, after: str, forward: list[Window]) -> Seam:
    """The seam of two regions, whose windows in the forward pass these are."""
    windows = [*forward, *_backward(code, before, after, len(forward))]
    start, end = np.array(windows, np.int64).T
    return Seam(before, after, start, end, len(forward))


def _backward(code: CompiledCode, before: str, after: str, count: int) -> list[Window]:
    """The backward's seams: between backwards of what goes on and of the broken function, paired by
    sequence number."""
    ranges = code.joined.trace.host_ranges
    strings = code.joined.trace.strings
    windows = []
    rows_f, rows_b = (
        np.flatnonzero(texts_where(strings, name.__eq__)[ranges.name] & (ranges.sequence >= 0))
        for name in ("CompiledFunction", "CompiledFunctionBackward")
    )
    regions = zip(
        rows_f,
        code.around(code.regions)[code.joined.linked.tree.node_of_range[rows_f]],
        strict=True,
    )
    sequences = {
        int(ranges.sequence[row]): code.regions.text[region]
        for row, region in regions
        if region >= 0
    }
    for earlier, other in pairwise(rows_b[np.argsort(ranges.start[rows_b])].tolist()):
        pair = (
            sequences.get(int(ranges.sequence[earlier])),
            sequences.get(int(ranges.sequence[other])),
        )
        if pair == (after, before) and ranges.thread[earlier] == ranges.thread[other]:
            windows.append(_between(code, earlier, other))
    return [window for window in windows if window[1] > window[0]][:count]


def _between(code: CompiledCode, before: int, after: int) -> Window:
    """From the end of the last call of a graph in a host range to the first call in another of its
    thread, ns."""
    ranges = code.joined.trace.host_ranges
    thread = int(ranges.thread[before])
    start = ranges.start[[before, after]].tolist()
    end = ranges.end[[before, after]].tolist()
    last_end = code.calls.last_end(thread, start[0], end[0], end[0])
    first_start = code.calls.first_start(thread, start[1], end[1], start[1])
    return last_end, first_start


def idle_in(timed: Timed, windows: IntervalSet) -> float:
    """GPU idle time of a mean steady step for which the host was in these windows, ms. While the
    GPU waits for an op, what the host does holds it up, one launch latency earlier: each gap before
    an op that was launched late is moved by the op's launch latency onto the host's time."""
    if timed.device is None or not len(windows.start):
        return 0.0
    steps = timed.steps
    gaps = timed.activity[timed.device].gaps
    device = np.flatnonzero(timed.trace.device_ops.device == timed.device)
    after = np.searchsorted(timed.trace.device_ops.start[device], gaps.end)
    following = device[np.minimum(after, len(device) - 1)]
    launched = timed.linked.launch_time[following]
    latency = np.where(launched >= 0, np.maximum(gaps.end - launched, 0), 0)
    steady = (steps.of_op[following] >= steps.warmup) & (launched >= 0)
    held = measure(windows, (gaps.start - latency)[steady], (gaps.end - latency)[steady])
    return ms(float(held.sum())) / steps.steady_count


def without_windows(tape: Tape, windows: IntervalSet) -> Tape | None:
    """The tape without the host's time in these windows, and without the waits and copies in them;
    None where none of them is on the tape."""
    share = 1.0 - tape.share_within(windows)
    inside = contains(windows, tape.source.trace.api_calls.start[tape.call])
    if not (share < 1.0).any() and not inside.any():
        return None
    spent = ("dispatch", "work", "loading", "reading", "sending", "profiling")
    left = {name: (getattr(tape, name) * share).astype(np.int64) for name in spent}
    kept = tape.without(inside[tape.event] & tape.copy)
    return replace(kept, **left, waits=tape.waits & ~inside)


def cudagraph_use(log: CompileLog) -> CudaGraphUse:
    """CUDA graphs recorded and left out."""
    recorded = Counter(s.compile_id for s in log.spans if s.name == "CUDAGraphNode.record")
    metrics = chain.from_iterable(c.metrics for c in log.compilations)
    skipped = list(filter(None, (m.cudagraph_skip for m in metrics)))
    known = bool(recorded or skipped)
    wanted = known or _asked_for(log)
    if wanted and not known:
        changed = sum(c.inputs_changed for c in log.compilations)
        mutated = (
            f"mutated inputs: the graphs change {changed} of their inputs in place "
            "(concluded from the graphs)"
        )
        skipped = [mutated if changed else UNSAID]
    count = recorded.total()
    why = list(dict.fromkeys(skipped))
    return CudaGraphUse(bool(recorded), wanted, count, count - len(recorded), why, len(skipped))


def _asked_for(log: CompileLog) -> bool | None:
    asked = {e.cudagraphs for c in log.compilations for e in c.caches}
    asked |= {m.wants_cudagraphs or None for c in log.compilations for m in c.metrics}
    return max((one for one in asked if one is not None), default=None)


def captured_graphs(compiled: Compiled, traced: TracedCompile) -> CudaGraphUse:
    """CUDA graphs as the log has them, with what of the step was launched by them; where they were
    asked for and left out, the step with them."""
    rated = traced.rated
    ops = traced.rated.trace.device_ops
    steady = traced.steady
    by_graph = np.append(rated.linked.api_kind == ApiKind.GRAPH_LAUNCH, False)[rated.linked.launch]
    duration = (ops.end - ops.start).astype(float)
    busy = float(duration[steady].sum())
    launches = distinct(rated.linked.launch[steady & by_graph])
    share = float(duration[steady & by_graph].sum()) / busy if busy else None
    use = compiled.cudagraphs or CudaGraphUse(bool(len(launches)), None, 0, 0, [], 0)
    prediction = None
    if use.wanted and not use.used and not len(launches):
        prediction = traced.predict(
            "graphs_captured", lambda tape: _as_one_launch(tape, traced.code), CAPTURED
        )
    step, low, high = traced.range_of(prediction)
    use = replace(
        use, captured_share=share, launches_per_step=traced.per_step(float(len(launches)))
    )
    return replace(use, predicted_step_ms=step, low_ms=low, high_ms=high)


def _as_one_launch(tape: Tape, code: CompiledCode) -> Tape | None:
    """Each compiled graph as one launch: the host's time in it goes, its kernels follow at once."""
    windows = union(code.bodies.start, code.bodies.end)
    freed = without_windows(tape, windows)
    if freed is None:
        return None
    inside = contains(windows, tape.source.trace.api_calls.start[tape.call])[tape.event]
    gap = np.where(inside, in_graph(tape.gap), tape.gap)
    return replace(freed, waits=tape.waits, duration=tape.duration, latency=tape.latency, gap=gap)
