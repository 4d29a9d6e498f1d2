"""What a trace of the same program adds: what breaks cost, how much of the step is compiled, what each kernel takes."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from traceanalyzer.analysis.algebra.intervals import measure, subtract, union
from traceanalyzer.analysis.compile.model import BreakRow, CudaGraphUse, EagerRow, KernelRow, TraceUse
from traceanalyzer.analysis.compile.regions import CompiledCode, inner
from traceanalyzer.analysis.compile.windows import idle_in, seams, window_set, without_windows
from traceanalyzer.analysis.names.api import ApiKind
from traceanalyzer.analysis.replay.scenarios import FUSED_ELEMENTWISE, GRAPH_GAP_NS, LAUNCHES_FREE, Scenario
from traceanalyzer.compile_log import resumed_at
from traceanalyzer.figures import NS_PER_MS
from traceanalyzer.trace import RangeKind

if TYPE_CHECKING:
    from traceanalyzer.analysis.algebra.intervals import IntervalSet
    from traceanalyzer.analysis.compile.model import Compiled
    from traceanalyzer.analysis.compile.windows import Seam
    from traceanalyzer.analysis.replay.scenarios import Change
    from traceanalyzer.analysis.replay.tape import Tape
    from traceanalyzer.analysis.replay.whatif import Prediction, Replay
    from traceanalyzer.analysis.roofline.rated import Rated
    from traceanalyzer.compile_log import CompileLog
    from traceanalyzer.trace import I64, Bool

MAX_EAGER = 20
"""Eager operators that are listed."""
HOST_SPREAD = 0.2
"""Rounds of steps of one process, seconds apart, differ by so much where the host sets the pace (H200 hosts)."""
OPTIMIZER = "Optimizer.step#"
BACKWARD = "autograd::engine::evaluate_function"
NO_SEAM = "the trace holds no run of what goes on after it: it was not met in the recorded steps, or not recorded"
WHOLE = (
    "the whole function runs eager, and what it would take compiled is not recorded; estimated by fusing its "
    "elementwise kernels and launching nothing"
)
REST = "what follows the break runs eager; replayed without the profiler, between launching it for nothing and as now"
CAPTURED = "replayed without the profiler: each compiled graph is one launch that costs the host nothing more"
BASIS = (
    "replayed without the profiler: the host goes from the graph before the break to the one after it in no time, "
    "without the waits and copies between them; kernels stay as they are"
)


@dataclass(frozen=True, eq=False)
class Traced:
    """A trace with its joins and its replay."""

    rated: Rated
    replay: Replay | None
    code: CompiledCode


def with_trace(compiled: Compiled, log: CompileLog | None, rated: Rated, replay: Replay | None) -> Compiled:
    """What was measured of the log, with what the trace says."""
    traced = Traced(rated, replay, CompiledCode(rated))
    met = seams(traced.code)
    kernels, triton_ms, mapped = _kernels(compiled.kernels, traced)
    return replace(
        compiled,
        source="log+trace" if log is not None else "trace",
        graph_breaks=_breaks(compiled.graph_breaks, log, met, traced),
        kernels=kernels,
        cudagraphs=_cudagraphs(compiled, traced),
        trace=_trace_use(traced, log, triton_ms, mapped),
    )


def _steady(rated: Rated) -> Bool:
    result: Bool = rated.steady_ops
    return result


def _per_step(rated: Rated, amount: float) -> float:
    return amount / rated.steps.steady_count


# Graph breaks


def _breaks(rows: list[BreakRow], log: CompileLog | None, met: list[Seam], traced: Traced) -> list[BreakRow]:
    if log is None:
        return [_seam_row(seam, traced) for seam in met]
    left = list(met)
    result = []
    for row in rows:
        mine = [seam for seam in left if _is_seam_of(seam, row, log)]
        left = [seam for seam in left if seam not in mine]
        result.append(_priced(row, mine, traced, log))
    return result


def _is_seam_of(seam: Seam, row: BreakRow, log: CompileLog) -> bool:
    """Whether what goes on after a break is the function of the seam: PyTorch names it after the line of the break."""
    after = next((c for c in reversed(log.compilations) if c.compile_id == seam.after), None)
    if after is None:
        return False
    file, _, line = row.location.rpartition(":")
    same_file = after.location.rpartition(":")[0] == file
    at = resumed_at(after.name)
    if at is not None:
        before = next((c for c in reversed(log.compilations) if c.compile_id == seam.before), None)
        broken_here = before is not None and any(b.location == row.location for b in before.breaks)
        return broken_here or (same_file and line.isdigit() and at == int(line))
    return False


def _priced(row: BreakRow, mine: list[Seam], traced: Traced, log: CompileLog | None = None) -> BreakRow:
    rated = traced.rated
    if not mine:
        return _whole_function(row, traced) if row.whole_function_eager else _rest_eager(row, log, traced)
    windows = window_set(mine)
    prediction = _predict(traced, f"without_break {row.location}", lambda tape: without_windows(tape, windows), BASIS)
    steady = sum(int(rated.steady_host(seam.start[: seam.forward]).sum()) for seam in mine)
    return _with_prediction(
        replace(row, per_step=_per_step(rated, steady), idle_ms=idle_in(rated, windows)),
        prediction,
        BASIS,
        _base(traced),
    )


def _rest_eager(row: BreakRow, log: CompileLog | None, traced: Traced) -> BreakRow:
    """A break after which the function goes on eager (its rest was not compiled, or the recompile limit was hit): the
    host time from the end of the last graph before it to the end of the function."""
    regions, bodies = traced.code.regions, traced.code.bodies
    broken = (
        {c.compile_id for c in log.compilations if any(b.location == row.location for b in c.breaks)} if log else set()
    )
    windows = []
    for index in (i for i, text in enumerate(regions.text) if text in broken):
        inside = inner(int(regions.start[index]), int(regions.end[index]), int(regions.thread[index]), bodies)
        start = int(bodies.end[inside].max()) if len(inside) else int(regions.start[index])
        windows.append((start, int(regions.end[index])))
    if not windows:
        return replace(row, basis=NO_SEAM)
    starts, ends = (np.array(times, np.int64) for times in zip(*windows, strict=True))
    steady = int(traced.rated.steady_host(starts).sum())
    found = union(starts, ends)
    free = _predict(traced, "rest_compiled", lambda tape: without_windows(tape, found), REST)
    row = replace(row, per_step=_per_step(traced.rated, steady), idle_ms=idle_in(traced.rated, found), basis=REST)
    if free is None or free.step_ms is None or traced.replay is None:
        return row
    # What goes on has to be launched by compiled code, too: no less than nothing, no more than it takes now.
    middle = (free.step_ms + traced.replay.base_ms) / 2
    return replace(row, predicted_step_ms=middle, low_ms=free.low_ms, high_ms=traced.replay.high_ms)


def _seam_row(seam: Seam, traced: Traced) -> BreakRow:
    row = BreakRow(
        reason="a graph break",
        detail=f"compiled region {seam.before} goes on as {seam.after}",
        location="",
        count=1,
        function="",
        whole_function_eager=False,
        remedy="record the log (TORCH_TRACE=FOLDER) to see the line and the reason",
    )
    return _priced(row, [seam], traced)


def _whole_function(row: BreakRow, traced: Traced) -> BreakRow:
    """A function that runs eager as a whole: its idle time is that of launching its operators one by one."""
    rated = traced.rated
    if len(traced.code.bodies) or rated.device is None:
        return replace(row, basis=NO_SEAM)
    idle = idle_in(rated, _outside_optimizer(rated))
    fused = _predict(traced, "compiled", FUSED_ELEMENTWISE.change, WHOLE)
    free = _predict(traced, "compiled", LAUNCHES_FREE.change, WHOLE)
    row = replace(row, per_step=1.0, idle_ms=idle, basis=WHOLE)
    if fused is None or free is None or fused.step_ms is None or free.step_ms is None:
        return row
    low, high = free.step_ms, fused.high_ms or fused.step_ms
    return replace(row, predicted_step_ms=(low + fused.step_ms) / 2, low_ms=low, high_ms=high)


def _outside_optimizer(rated: Rated) -> IntervalSet:
    ranges, texts = rated.trace.host_ranges, rated.trace.strings
    optimizer = np.array([text.startswith(OPTIMIZER) for text in [*texts, ""]])[ranges.name]
    steps = rated.steps
    whole = union(steps.host_start, steps.host_end)
    return subtract(whole, union(ranges.start[optimizer], ranges.end[optimizer]))


def _base(traced: Traced) -> float:
    return traced.replay.base_ms if traced.replay is not None else 0.0


def _predict(traced: Traced, name: str, change: Change, basis: str) -> Prediction | None:
    if traced.replay is None or not traced.replay.faithful:
        return None
    return traced.replay.predict(Scenario(name, change, basis))


def _with_prediction(row: BreakRow, prediction: Prediction | None, basis: str, base_ms: float) -> BreakRow:
    if prediction is None or prediction.step_ms is None:
        return replace(row, basis="the trace cannot be replayed faithfully: only the idle time is known")
    step, low, high = _range(prediction, base_ms)
    return replace(row, predicted_step_ms=step, low_ms=low, high_ms=high, basis=basis)


def _range(prediction: Prediction | None, base_ms: float) -> tuple[float | None, float | None, float | None]:
    """A prediction with its range, no narrower than the host's own spread and no longer than the step of now."""
    if prediction is None or prediction.step_ms is None:
        return None, None, None
    step = prediction.step_ms
    low = min(prediction.low_ms or step, step * (1.0 - HOST_SPREAD))
    high = max(prediction.high_ms or step, min(step * (1.0 + HOST_SPREAD), max(base_ms, step)))
    return step, low, high


# Kernels


def _kernels(rows: list[KernelRow], traced: Traced) -> tuple[list[KernelRow], float, float | None]:
    """The kernels with their times in the step, the time of all that inductor wrote (ms), and the share of it with a
    known source line (None without such kernels)."""
    rated, code = traced.rated, traced.code
    ops = rated.trace.device_ops
    places = _places(rows)
    chosen = np.flatnonzero(_steady(rated) & rated.is_kernel)
    time: dict[int, float] = defaultdict(float)
    count: Counter[int] = Counter()
    attainable: dict[int, float] = defaultdict(float)
    limits = rated.roofline.attainable
    total = mapped = 0.0
    seen: dict[tuple[str, str], int] = {}
    extra: list[KernelRow] = []
    for op in chosen.tolist():
        name = rated.trace.strings[ops.name[op]] if ops.name[op] >= 0 else ""
        key = code.calls.text[code.call_of_op[op]] if code.call_of_op[op] >= 0 else ""
        region = code.regions.text[code.region_of_op[op]] if code.region_of_op[op] >= 0 else ""
        place = places.get((key, name), places.get((region, name), places.get(("", name))))
        if place is None and not code.is_triton[op]:
            continue
        if place is None:
            place = seen.setdefault((key, name), len(rows) + len(extra))
            if place == len(rows) + len(extra):
                extra.append(_unknown(name, region, key))
        duration = float(ops.end[op] - ops.start[op])
        time[place] += duration
        count[place] += 1
        attainable[place] += float(limits[op])
        total += duration
        mapped += duration if place < len(rows) and rows[place].lines else 0.0
    busy = float((ops.end - ops.start)[_steady(rated)].sum())
    every = [*rows, *extra]
    result = [
        _measured(row, rated, time[i], count[i], attainable[i], busy) if i in time else row
        for i, row in enumerate(every)
    ]
    result.sort(key=lambda row: -(row.measured_ms or 0.0))
    return result, _per_step(rated, total) / NS_PER_MS, mapped / total if total and rows else None


def _places(rows: list[KernelRow]) -> dict[tuple[str, str], int]:
    """Where a kernel is among the rows: by the key of its graph, else its compile id, else its name where one graph
    alone has it."""
    names = Counter(row.name for row in rows)
    result: dict[tuple[str, str], int] = {}
    for index, row in enumerate(rows):
        if row.graph:
            result[row.graph, row.name] = index
        else:
            result.setdefault((row.compile_id, row.name), index)
        if names[row.name] == 1:
            result["", row.name] = index
    return result


def _unknown(name: str, region: str, key: str) -> KernelRow:
    return KernelRow(name, region, key, "", [], [], 0, None, None, "")


def _measured(row: KernelRow, rated: Rated, time: float, count: int, attainable: float, busy: float) -> KernelRow:
    limit = attainable if np.isfinite(attainable) else None
    return replace(
        row,
        per_step=_per_step(rated, count),
        measured_ms=_per_step(rated, time) / NS_PER_MS,
        share=time / busy if busy else None,
        attainable_ms=None if limit is None else _per_step(rated, limit) / NS_PER_MS,
    )


# CUDA graphs, shares, eager operators


def _cudagraphs(compiled: Compiled, traced: Traced) -> CudaGraphUse:
    rated = traced.rated
    ops, steady = rated.trace.device_ops, _steady(rated)
    by_graph = np.append(rated.api_kind == ApiKind.GRAPH_LAUNCH, False)[rated.launch]
    duration = (ops.end - ops.start).astype(float)
    busy = float(duration[steady].sum())
    launches = np.unique(rated.launch[steady & by_graph])
    share = float(duration[steady & by_graph].sum()) / busy if busy else None
    use = compiled.cudagraphs or CudaGraphUse(bool(len(launches)), None, 0, 0, [], 0)
    left_out = use.wanted and not use.used and not len(launches)
    prediction = (
        _predict(traced, "graphs_captured", lambda tape: _captured(tape, traced.code), CAPTURED) if left_out else None
    )
    step, low, high = _range(prediction, _base(traced))
    return replace(
        use,
        captured_share=share,
        launches_per_step=_per_step(rated, float(len(launches))),
        predicted_step_ms=step,
        low_ms=low,
        high_ms=high,
    )


def _captured(tape: Tape, code: CompiledCode) -> Tape | None:
    """Each compiled graph as one launch: the host's time in it goes, its kernels follow at once."""
    windows = union(code.bodies.start, code.bodies.end)
    freed = without_windows(tape, windows)
    if freed is None:
        return None
    calls = tape.source.trace.api_calls
    inside = (measure(windows, calls.start[tape.call], calls.start[tape.call] + 1) > 0)[tape.event]
    shorter = np.minimum(tape.gap, GRAPH_GAP_NS)
    return replace(
        freed,
        waits=tape.waits,
        duration=tape.duration,
        latency=tape.latency,
        gap=np.where(inside, shorter, tape.gap),
    )


def _trace_use(traced: Traced, log: CompileLog | None, triton_ms: float, mapped: float | None) -> TraceUse:
    rated, code = traced.rated, traced.code
    ops, steady = rated.trace.device_ops, _steady(rated)
    duration = (ops.end - ops.start).astype(float)
    busy = float(duration[steady].sum())
    steady_regions = rated.steady_host(code.regions.start) if len(code.regions) else np.zeros(0, bool)
    runs = Counter(text for text, here in zip(code.regions.text, steady_regions.tolist(), strict=True) if here)
    return TraceUse(
        path=rated.trace.path,
        regions_per_step={name: _per_step(rated, n) for name, n in sorted(runs.items())},
        compiled_share=float(duration[steady & code.is_compiled].sum()) / busy if busy else None,
        triton_share=float(duration[steady & code.is_triton].sum()) / busy if busy else None,
        triton_ms=triton_ms,
        mapped_share=mapped,
        compiles_in_step=_compiles_within(rated, log),
        eager=_eager(traced),
        not_fused=[],
        notes=_notes(traced, log),
    )


def _compiles_within(rated: Rated, log: CompileLog | None) -> int:
    """Compilations whose work overlaps the recording, on the clock both share."""
    if log is None or not rated.trace.epoch_ns or not len(rated.trace.device_ops):
        return 0
    ops = rated.trace.device_ops
    first, last = int(ops.start[0]) + rated.trace.epoch_ns, int(ops.end.max()) + rated.trace.epoch_ns
    within = [s for s in log.spans if s.name == "entire_frame_compile" and s.start_ns < last and s.end_ns > first]
    return len(within)


def _eager(traced: Traced) -> list[EagerRow]:
    """Operators outside of compiled code that have GPU work in the steady step, those with most first."""
    rated, code = traced.rated, traced.code
    ops, tree = rated.trace.device_ops, rated.tree
    chosen = np.flatnonzero(_steady(rated) & ~code.is_compiled & (code.launched_at >= 0))
    if not len(chosen):
        return []
    names = _names_of_nodes(rated)
    operator = tree.outermost(_operators(rated))[code.launched_at[chosen]]
    where = _where(traced, chosen)
    time: dict[tuple[str, str], float] = defaultdict(float)
    nodes: dict[tuple[str, str], set[int]] = defaultdict(set)
    for op, node, place in zip(chosen.tolist(), operator.tolist(), where, strict=True):
        key = (names[node] if node >= 0 else "no operator", place)
        time[key] += float(ops.end[op] - ops.start[op])
        nodes[key].add(node)
    rows = [
        EagerRow(name, _per_step(rated, len(nodes[name, place])), _per_step(rated, spent) / NS_PER_MS, place)
        for (name, place), spent in time.items()
    ]
    return sorted(rows, key=lambda row: -row.gpu_ms)[:MAX_EAGER]


def _operators(rated: Rated) -> Bool:
    """Which nodes are operators of the program: not regions and not what the autograd engine puts around them."""
    plain = np.array([_is_operator(text) for text in [*rated.trace.strings, ""]])
    tree = rated.tree
    result: Bool = tree.kind == RangeKind.OP
    result[result] = plain[rated.trace.host_ranges.name[tree.row[result]]]
    return result


def _is_operator(text: str) -> bool:
    return not text.startswith(("Torch-Compiled", BACKWARD, "## Call", "CompiledFunction", "Optimizer", "ProfilerStep"))


def _names_of_nodes(rated: Rated) -> dict[int, str]:
    tree, ranges = rated.tree, rated.trace.host_ranges
    nodes = np.flatnonzero(tree.kind == RangeKind.OP)
    return {int(n): rated.trace.strings[ranges.name[tree.row[n]]] for n in nodes.tolist()}


def _where(traced: Traced, chosen: I64) -> list[str]:
    """What each of these device ops was launched for: optimizer, backward, between compiled regions, or the rest."""
    rated, code = traced.rated, traced.code
    at = code.launched_at[chosen]
    optimizer = _inside(rated, OPTIMIZER, at)
    backward = _inside(rated, BACKWARD, at)
    inside = code.region_of_op[chosen] >= 0
    return [
        "optimizer" if o else "backward" if b else "in a compiled function" if i else "rest"
        for o, b, i in zip(optimizer.tolist(), backward.tolist(), inside.tolist(), strict=True)
    ]


def _inside(rated: Rated, prefix: str, at: I64) -> Bool:
    tree, ranges = rated.tree, rated.trace.host_ranges
    named = np.array([text.startswith(prefix) for text in [*rated.trace.strings, ""]])
    chosen = np.zeros(len(tree.start), bool)
    rows = np.flatnonzero(~tree.is_call)
    chosen[rows] = named[ranges.name[tree.row[rows]]]
    result: Bool = tree.innermost(chosen)[at] >= 0
    return result


def _notes(traced: Traced, log: CompileLog | None) -> list[str]:
    code = traced.code
    notes = []
    if not len(code.bodies) and not code.is_triton.any():
        notes.append("The trace holds no compiled code: the steps that were recorded ran eager.")
    numbers = [int(text.rpartition("/")[2]) for text in code.regions.text if text.rpartition("/")[2].isdigit()]
    if log is None and numbers and max(numbers):
        most = code.regions.text[int(np.argmax(numbers))]
        notes.append(
            f"Region {most} ran: that function was compiled at least {max(numbers) + 1} times. "
            "Record the log to see why."
        )
    if log is None:
        notes.append(
            "Without the log: set TORCH_TRACE=FOLDER, or record with `traceanalyzer collect torch --compile-log`, to "
            "see compile times, reasons of graph breaks and recompilations, and source lines of kernels."
        )
    known = {e.key for c in log.compilations for e in c.caches} if log else set()
    keys = set(code.calls.text)
    if log and keys and not keys & known:
        notes.append("None of the trace's graphs is in the log: log and trace may be of different runs.")
    return notes
